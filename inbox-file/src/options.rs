//! How a file is read.

use crate::{FileBroker, OpenError, lines::Limits};
use inbox_core::{JsonPointer, Source};
use std::path::Path;

/// Options of a [`FileBroker`]; made by [`FileBroker::options`].
#[derive(Debug, Clone)]
#[must_use]
pub struct FileOptions {
    pub(crate) line_bytes_max: usize,
    pub(crate) prefix_bytes: usize,
    pub(crate) chunk_bytes: usize,
    pub(crate) key: Option<JsonPointer>,
    pub(crate) source: Option<Source>,
}

impl FileOptions {
    pub(crate) fn new() -> Self {
        Self {
            line_bytes_max: 1 << 20,
            prefix_bytes: 4 << 10,
            chunk_bytes: 64 << 10,
            key: None,
            source: None,
        }
    }

    /// The longest line that is delivered whole, in bytes without its terminator; 1 MiB by default.
    /// Of a longer one the first [`prefix_bytes`](Self::prefix_bytes) are delivered, marked as oversize.
    ///
    /// A line over the limit can be the record by which a checkpoint recognises its file. With other
    /// limits that record looks changed, and the file is refused until its checkpoint is reset.
    pub fn line_bytes_max(mut self, bytes: usize) -> Self {
        self.line_bytes_max = bytes;
        self
    }

    /// How much of a line over the limit is kept; 4 KiB by default, and never more than the limit.
    pub fn prefix_bytes(mut self, bytes: usize) -> Self {
        self.prefix_bytes = bytes;
        self
    }

    /// How much is read at once; 64 KiB by default, at least one byte.
    ///
    /// Payloads are slices of what was read at once, so each message in flight keeps its chunk in
    /// memory. Neighbours share one. In the worst case, every message in flight from another chunk (as
    /// when a few among many wait for a retry), they keep this many bytes each: hence not more by
    /// default, though the disk would like it.
    pub fn chunk_bytes(mut self, bytes: usize) -> Self {
        self.chunk_bytes = bytes.max(1);
        self
    }

    /// Where in the payload the ordering key stands: a string (its text) or a number (as it is
    /// written). A line without it has no key, nor has one that is not JSON. None by default.
    pub fn key(mut self, pointer: JsonPointer) -> Self {
        self.key = Some(pointer);
        self
    }

    /// The name under which progress is kept; `file:` and the absolute path by default. It must be the
    /// same in every run, and another one for every file.
    pub fn source(mut self, source: Source) -> Self {
        self.source = Some(source);
        self
    }

    /// Opens the file at `path`. Nothing of it is read yet.
    ///
    /// # Errors
    /// [`OpenError`] when it is missing, no regular file, or unreadable.
    pub fn open(self, path: impl AsRef<Path>) -> Result<FileBroker, OpenError> {
        FileBroker::open_with(self, path.as_ref())
    }

    pub(crate) fn limits(&self) -> Limits {
        Limits {
            line_bytes_max: self.line_bytes_max,
            prefix_bytes: self.prefix_bytes.min(self.line_bytes_max),
        }
    }
}
