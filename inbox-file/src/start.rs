//! Where reading begins, and whether the file is still the one that a checkpoint speaks of.

use crate::{
    chunks::Chunks,
    error::ReadError,
    lines::{Limits, Line, Splitter, Tail},
};
use inbox_core::{Checkpoint, Fingerprint, RecordMark};

const BOM: &[u8] = b"\xef\xbb\xbf";

/// Leaves `chunks` at the byte at which reading begins, and gives that byte.
pub(crate) fn begin(
    chunks: &mut Chunks,
    limits: Limits,
    checkpoint: Option<&Checkpoint>,
) -> Result<u64, ReadError> {
    let at = match checkpoint {
        None => after_bom(chunks)?,
        Some(Checkpoint { next, mark, .. }) => {
            let len = chunks.len()?;
            if len < *next {
                return Err(ReadError::Truncated { path: chunks.path().clone(), next: *next, len });
            }
            match mark {
                Some(mark) => check_mark(chunks, limits, *next, *mark)?,
                None => check_line_start(chunks, limits, *next)?,
            }
            if *next == 0 { after_bom(chunks)? } else { *next }
        }
    };
    chunks.seek(at)?;
    Ok(at)
}

fn after_bom(chunks: &mut Chunks) -> Result<u64, ReadError> {
    let mut head = Vec::with_capacity(BOM.len());
    chunks.seek(0)?;
    while head.len() < BOM.len() {
        let Some(chunk) = chunks.next()? else { break };
        head.extend_from_slice(&chunk[..chunk.len().min(BOM.len())]);
    }
    Ok(if head.starts_with(BOM) { BOM.len() as u64 } else { 0 })
}

/// The record at the mark must be there as it was, and end where reading is to go on.
fn check_mark(chunks: &mut Chunks, limits: Limits, next: u64, mark: RecordMark) -> Result<(), ReadError> {
    let found = if mark.at < next { first(chunks, limits, mark.at)? } else { Tail::Nothing };
    let is_it = |line: &Line| {
        let content = line.oversize_bytes.unwrap_or(line.payload.len() as u64);
        // Taken as the last line without a newline, it may have got one since: then reading goes on
        // between the record and its terminator, and finds a white line there.
        let ends = line.position.at + content..=line.position.next;
        let digest = Fingerprint::of_payload(Some(&line.payload));
        line.position.at == mark.at && ends.contains(&next) && !digest.conflicts_with(mark.digest)
    };
    match found {
        Tail::Line(line) if is_it(&line) => Ok(()),
        _ => Err(ReadError::Replaced { path: chunks.path().clone(), at: mark.at }),
    }
}

/// Without a mark, at least no line may be begun in its middle.
fn check_line_start(chunks: &mut Chunks, limits: Limits, next: u64) -> Result<(), ReadError> {
    if next == 0 {
        return Ok(());
    }
    chunks.seek(next - 1)?;
    if chunks.next()?.is_some_and(|chunk| chunk.starts_with(b"\n")) {
        return Ok(());
    }
    // Behind a last line that had no newline when it was taken there may be its newline now, or nothing.
    let begins_inside = match first(chunks, limits, next)? {
        Tail::Nothing => false,
        Tail::Line(line) => line.position.at == next,
        Tail::Leftover(leftover) => leftover.at == next,
    };
    if begins_inside { Err(ReadError::InsideLine { path: chunks.path().clone(), next }) } else { Ok(()) }
}

/// The first thing at or behind `at` that is not a white line.
fn first(chunks: &mut Chunks, limits: Limits, at: u64) -> Result<Tail, ReadError> {
    chunks.seek(at)?;
    let mut splitter = Splitter::new(limits, at);
    while let Some(chunk) = chunks.next()? {
        splitter.feed(chunk);
        if let Some(line) = splitter.next_line() {
            return Ok(Tail::Line(line));
        }
    }
    Ok(splitter.finish())
}
