//! The line splitter: chunks of a file in, records out. Pure, so that its rules can be tested alone.

use crate::Leftover;
use bytes::{Buf, Bytes};
use inbox_core::Position;
use serde::de::IgnoredAny;

/// What bounds a line.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// A longer line is cut.
    pub(crate) line_bytes_max: usize,
    /// What is kept of it; never more than `line_bytes_max`.
    pub(crate) prefix_bytes: usize,
}

/// One record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) position: Position,
    /// The line without its terminator; a prefix when it was over the limit.
    pub(crate) payload: Bytes,
    /// The whole length, without the terminator, of a line over the limit.
    pub(crate) oversize_bytes: Option<u64>,
}

/// What stood behind the last newline.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Tail {
    /// Nothing, or white space.
    Nothing,
    /// One whole JSON value: a record whose newline is missing.
    Line(Line),
    /// Something that may still be being written.
    Leftover(Leftover),
}

/// Splits a stream of chunks into lines.
///
/// It holds one chunk and, of a line that began in an earlier one, at most `line_bytes_max + 1` bytes
/// (one more for a CR that may belong to the terminator).
#[derive(Debug)]
pub(crate) struct Splitter {
    limits: Limits,
    /// Where the current line begins.
    at: u64,
    /// What was not looked at yet.
    chunk: Bytes,
    /// What earlier chunks held of the current line, as far as it is kept.
    carry: Vec<u8>,
    /// How much of the current line earlier chunks held, kept or not.
    carried: u64,
    /// Whether all of that is white space.
    carried_blank: bool,
    /// Whether the last byte of that is a CR.
    carried_cr: bool,
}

impl Splitter {
    /// The first chunk will begin at byte `at`, which is the beginning of a line.
    pub(crate) fn new(limits: Limits, at: u64) -> Self {
        Self {
            limits,
            at,
            chunk: Bytes::new(),
            carry: Vec::new(),
            carried: 0,
            carried_blank: true,
            carried_cr: false,
        }
    }

    /// Takes the next chunk, once [`next_line`](Self::next_line) has used up the one before.
    pub(crate) fn feed(&mut self, chunk: Bytes) {
        debug_assert!(self.chunk.is_empty(), "the chunk before is not used up");
        self.chunk = chunk;
    }

    /// The next record; `None` when another chunk is needed. White lines are passed over.
    pub(crate) fn next_line(&mut self) -> Option<Line> {
        while let Some(newline) = memchr::memchr(b'\n', &self.chunk) {
            let line = if self.carried == 0 { self.whole(newline) } else { self.joined(newline) };
            self.chunk.advance(newline + 1);
            if line.is_some() {
                return line;
            }
        }
        let rest = std::mem::take(&mut self.chunk);
        self.keep(&rest);
        None
    }

    /// Nothing more comes: what to make of the bytes behind the last newline.
    pub(crate) fn finish(&mut self) -> Tail {
        let (at, bytes) = (self.at, self.carried);
        let next = at + bytes;
        match self.take_carried(next) {
            None => Tail::Nothing,
            Some(line) if line.oversize_bytes.is_none() && is_json(&line.payload) => Tail::Line(line),
            Some(_) => Tail::Leftover(Leftover { at, bytes }),
        }
    }

    /// The memory it holds for a line that began in an earlier chunk.
    #[cfg(test)]
    fn carry_capacity(&self) -> usize {
        self.carry.capacity()
    }

    /// A line that lies in the chunk, its newline at `newline`: the common case, without a copy.
    fn whole(&mut self, newline: usize) -> Option<Line> {
        let at = self.at;
        self.at += newline as u64 + 1;
        let content = match self.chunk[..newline] {
            [.., b'\r'] => newline - 1,
            _ => newline,
        };
        if is_blank(&self.chunk[..content]) {
            return None;
        }
        let position = Position { at, next: self.at };
        if content > self.limits.line_bytes_max {
            // A copy: the prefix alone must not keep the chunk in memory.
            let payload = Bytes::copy_from_slice(&self.chunk[..self.limits.prefix_bytes]);
            return Some(Line { position, payload, oversize_bytes: Some(content as u64) });
        }
        Some(Line { position, payload: self.chunk.slice(..content), oversize_bytes: None })
    }

    /// A line that began in an earlier chunk and ends at `newline` of this one.
    fn joined(&mut self, newline: usize) -> Option<Line> {
        let end = self.chunk.slice(..newline);
        self.keep(&end);
        let next = self.at + self.carried + 1;
        self.take_carried(next)
    }

    /// Makes a line of what was carried, and begins the next line at `next`.
    fn take_carried(&mut self, next: u64) -> Option<Line> {
        let position = Position { at: self.at, next };
        let content = self.carried - u64::from(self.carried_cr);
        let blank = self.carried_blank;
        (self.at, self.carried, self.carried_blank, self.carried_cr) = (next, 0, true, false);
        if blank {
            self.carry.clear();
            return None;
        }
        if content > self.limits.line_bytes_max as u64 {
            let payload = Bytes::copy_from_slice(&self.carry[..self.limits.prefix_bytes]);
            self.carry = Vec::new();
            return Some(Line { position, payload, oversize_bytes: Some(content) });
        }
        let mut kept = std::mem::take(&mut self.carry);
        kept.truncate(content as usize);
        Some(Line { position, payload: Bytes::from(kept), oversize_bytes: None })
    }

    /// Carries `part` of the current line over into the next chunk.
    fn keep(&mut self, part: &[u8]) {
        let Some(last) = part.last() else { return };
        self.carried += part.len() as u64;
        self.carried_cr = *last == b'\r';
        self.carried_blank = self.carried_blank && is_blank(part);
        let kept_max = self.limits.line_bytes_max.saturating_add(1);
        let part = &part[..part.len().min(kept_max - self.carry.len())];
        let needed = self.carry.len() + part.len();
        if needed > self.carry.capacity() {
            // Doubling, but never beyond what may be kept.
            let capacity = needed.max(self.carry.capacity().saturating_mul(2)).min(kept_max);
            self.carry.reserve_exact(capacity - self.carry.len());
        }
        self.carry.extend_from_slice(part);
    }
}

fn is_blank(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r'))
}

fn is_json(bytes: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(bytes).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { line_bytes_max: 8, prefix_bytes: 3 };

    /// All lines as (at, next, payload, oversize), and what became of the tail.
    type Split = (Vec<(u64, u64, String, Option<u64>)>, Option<(u64, u64)>);

    fn split(text: &str, chunk: usize) -> Split {
        let mut splitter = Splitter::new(LIMITS, 0);
        let mut lines = Vec::new();
        for part in text.as_bytes().chunks(chunk) {
            splitter.feed(Bytes::copy_from_slice(part));
            while let Some(line) = splitter.next_line() {
                lines.push(line);
            }
        }
        let mut left = None;
        match splitter.finish() {
            Tail::Nothing => {}
            Tail::Line(line) => lines.push(line),
            Tail::Leftover(tail) => left = Some((tail.at, tail.bytes)),
        }
        let plain = |line: Line| {
            let payload = String::from_utf8(line.payload.to_vec()).unwrap();
            (line.position.at, line.position.next, payload, line.oversize_bytes)
        };
        (lines.into_iter().map(plain).collect(), left)
    }

    #[test]
    fn every_rule_holds_with_every_chunk_size() {
        type Row = (&'static str, &'static [(u64, u64, &'static str, Option<u64>)], Option<(u64, u64)>);
        let table: &[Row] = &[
            ("", &[], None),
            ("\n", &[], None),
            (" \t\r\n\r\n\n  ", &[], None),
            ("a\nb\n", &[(0, 2, "a", None), (2, 4, "b", None)], None),
            ("a\r\nb\r\n", &[(0, 3, "a", None), (3, 6, "b", None)], None),
            ("a\r\r\n", &[(0, 4, "a\r", None)], None),
            ("a\rb\n", &[(0, 4, "a\rb", None)], None),
            (" a \n", &[(0, 4, " a ", None)], None),
            ("\n\na\n\n", &[(2, 4, "a", None)], None),
            ("{}", &[(0, 2, "{}", None)], None),
            ("{}\r", &[(0, 3, "{}", None)], None),
            (" 1 ", &[(0, 3, " 1 ", None)], None),
            ("1\n{\"a\":", &[(0, 2, "1", None)], Some((2, 5))),
            ("1 2", &[], Some((0, 3))),
            ("12345678\n", &[(0, 9, "12345678", None)], None),
            ("12345678\r\n", &[(0, 10, "12345678", None)], None),
            ("12345678", &[(0, 8, "12345678", None)], None),
            ("12345678\r", &[(0, 9, "12345678", None)], None),
            ("123456789\n1\n", &[(0, 10, "123", Some(9)), (10, 12, "1", None)], None),
            ("123456789\r\n", &[(0, 11, "123", Some(9))], None),
            ("1234567\r\r\r\n", &[(0, 11, "123", Some(9))], None),
            ("123456789", &[], Some((0, 9))),
            ("            \n1\n", &[(13, 15, "1", None)], None),
            ("            ", &[], None),
            ("            x\n", &[(0, 14, "   ", Some(13))], None),
        ];
        for (text, lines, left) in table {
            for chunk in 1..=text.len().max(1) {
                let lines: Vec<_> = lines.iter().map(|l| (l.0, l.1, l.2.to_owned(), l.3)).collect();
                assert_eq!(split(text, chunk), (lines, *left), "{text:?} in chunks of {chunk}");
            }
        }
    }

    #[test]
    fn a_huge_line_is_skipped_in_bounded_memory() {
        let limits = Limits { line_bytes_max: 1 << 20, prefix_bytes: 4096 };
        let mut splitter = Splitter::new(limits, 0);
        let chunk = Bytes::from(vec![b'x'; 64 << 10]);
        for _ in 0..1024 {
            splitter.feed(chunk.clone());
            assert_eq!(splitter.next_line(), None);
            assert!(splitter.carry_capacity() <= limits.line_bytes_max + 1);
        }
        splitter.feed(Bytes::from_static(b"\n1\n"));
        let line = splitter.next_line().unwrap();
        assert_eq!((line.oversize_bytes, line.payload.len()), (Some(64 << 20), 4096));
        assert_eq!(splitter.carry_capacity(), 0);
        assert_eq!(
            splitter.next_line().unwrap().position,
            Position { at: (64 << 20) + 1, next: (64 << 20) + 3 }
        );
    }

    #[test]
    fn limits_without_a_limit_do_not_overflow() {
        let limits = Limits { line_bytes_max: usize::MAX, prefix_bytes: 0 };
        let mut splitter = Splitter::new(limits, 0);
        for part in [&b"ab"[..], b"c", b"d\n"] {
            splitter.feed(Bytes::from_static(part));
            if let Some(line) = splitter.next_line() {
                assert_eq!(line.payload, "abcd");
            }
        }
        assert_eq!(splitter.at, 5);
    }
}
