//! The reader thread, and the lines that arrive from it.

use crate::{
    Leftover,
    chunks::Chunks,
    error::ReadError,
    lines::{Limits, Line, Splitter, Tail},
    start,
};
use bytes::Bytes;
use inbox_core::Checkpoint;
use std::{path::Path, sync::Arc, thread};
use tokio::sync::mpsc::{self, error::TryRecvError};

/// How many chunks wait between the reader thread and the splitter. With the one that the thread has
/// read ahead and the one that is being split, three are in memory beside those in flight.
const CHUNKS_AHEAD: usize = 1;

/// What the reader thread hands over.
enum Read {
    /// Chunks follow, the first one from this byte on.
    Begun(u64),
    Chunk(Bytes),
    /// The file ends here.
    End,
    Failed(ReadError),
}

/// A file being read. Its state is all in here, so that a dropped future loses nothing.
#[derive(Debug)]
pub(crate) struct Reading {
    path: Arc<Path>,
    limits: Limits,
    from: mpsc::Receiver<Read>,
    splitter: Splitter,
    /// Read, and not given away yet.
    peeked: Option<Line>,
    /// What comes when no line is left.
    ended: Option<Result<Option<Leftover>, ReadError>>,
}

impl Reading {
    /// Starts the reader thread. Reads block, and some (a sleeping disk, a network file system) for
    /// long: they must not hold up the threads that run async code.
    pub(crate) fn start(
        mut chunks: Chunks,
        limits: Limits,
        checkpoint: Option<Checkpoint>,
    ) -> Result<Self, ReadError> {
        let path = chunks.path().clone();
        let (to, from) = mpsc::channel(CHUNKS_AHEAD);
        let read = move || {
            if let Err(error) = read(&mut chunks, limits, checkpoint.as_ref(), &to) {
                // Nobody hears it when the broker is gone.
                let _ = to.blocking_send(Read::Failed(error));
            }
        };
        thread::Builder::new()
            .name("inbox-file".to_owned())
            .spawn(read)
            .map_err(|error| ReadError::io(&path, 0, error))?;
        let splitter = Splitter::new(limits, 0);
        Ok(Self { path, limits, from, splitter, peeked: None, ended: None })
    }

    /// Waits until a line can be taken; `false` when none is left. Cancel-safe.
    pub(crate) async fn line_comes(&mut self) -> Result<bool, ReadError> {
        while !self.has_line() {
            if let Some(end) = &self.ended {
                return end.clone().map(|_| false);
            }
            match self.from.recv().await {
                Some(read) => self.accept(read),
                None => self.stopped(),
            }
        }
        Ok(true)
    }

    /// The next line, when it is there without waiting. It stays until it is [taken](Self::take).
    pub(crate) fn peek(&mut self) -> Option<&Line> {
        while !self.has_line() && self.ended.is_none() {
            match self.from.try_recv() {
                Ok(read) => self.accept(read),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => self.stopped(),
            }
        }
        self.peeked.as_ref()
    }

    /// Takes the line that was seen last.
    pub(crate) fn take(&mut self) -> Option<Line> {
        self.peeked.take()
    }

    /// What was left alone at the end.
    pub(crate) fn leftover(&self) -> Option<Leftover> {
        self.ended.as_ref()?.as_ref().ok().copied().flatten()
    }

    /// Stops the thread and waits until it has.
    pub(crate) async fn stop(mut self) {
        self.from.close();
        // The channel ends when the thread has dropped its side.
        while self.from.recv().await.is_some() {}
    }

    fn has_line(&mut self) -> bool {
        if self.peeked.is_none() {
            self.peeked = self.splitter.next_line();
        }
        self.peeked.is_some()
    }

    fn accept(&mut self, read: Read) {
        match read {
            Read::Begun(at) => self.splitter = Splitter::new(self.limits, at),
            Read::Chunk(chunk) => self.splitter.feed(chunk),
            Read::Failed(error) => self.ended = Some(Err(error)),
            Read::End => {
                let mut leftover = None;
                match self.splitter.finish() {
                    Tail::Nothing => {}
                    Tail::Line(line) => self.peeked = Some(line),
                    Tail::Leftover(tail) => {
                        self.warn_of(tail);
                        leftover = Some(tail);
                    }
                }
                self.ended = Some(Ok(leftover));
            }
        }
    }

    fn stopped(&mut self) {
        self.ended = Some(Err(ReadError::Stopped { path: self.path.clone() }));
    }

    fn warn_of(&self, Leftover { at, bytes }: Leftover) {
        tracing::warn!(
            path = %self.path.display(), at, bytes,
            "reading {}: the {bytes} bytes from byte {at} on have no newline and are not one JSON value of \
             at most {} bytes: left alone; end them with a newline to have them delivered",
            self.path.display(), self.limits.line_bytes_max,
        );
    }
}

/// The reader thread. It ends with the file, with an error, or when nobody listens any more.
fn read(
    chunks: &mut Chunks,
    limits: Limits,
    checkpoint: Option<&Checkpoint>,
    to: &mpsc::Sender<Read>,
) -> Result<(), ReadError> {
    let mut message = Read::Begun(start::begin(chunks, limits, checkpoint)?);
    while to.blocking_send(message).is_ok() {
        message = match chunks.next()? {
            Some(chunk) => Read::Chunk(chunk),
            None => {
                let _ = to.blocking_send(Read::End);
                break;
            }
        };
    }
    Ok(())
}
