//! What can go wrong: one line each, that says what was being done, to which file at which byte, and
//! what to do next.

use inbox_core::BrokerError;
use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Why a file cannot be opened as a broker.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// There is no such file.
    #[error("opening {}: there is no such file; check the path", path.display())]
    Missing {
        /// The path as it was given.
        path: PathBuf,
    },
    /// It is a directory.
    #[error("opening {}: it is a directory; name one JSON Lines file in it", path.display())]
    Directory {
        /// The path as it was given.
        path: PathBuf,
    },
    /// It is a pipe, a socket or a device: it has no positions to begin again from.
    #[error("opening {}: it is not a regular file, so reading could not go on where it stopped; copy what it gives into a file", path.display())]
    NotRegular {
        /// The path as it was given.
        path: PathBuf,
    },
    /// The system refused.
    #[error("opening {}: {source}; check the permissions of the file and of the directories above it", path.display())]
    Unreadable {
        /// The path as it was given.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// Progress is kept under the path, which has to be text for that.
    #[error("opening {}: the path is not UTF-8, so progress cannot be kept under it; rename it, or name the source yourself", path.display())]
    PathNotUtf8 {
        /// The path, made absolute.
        path: PathBuf,
    },
}

impl OpenError {
    pub(crate) fn of(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::NotFound => Self::Missing { path },
            _ => Self::Unreadable { path, source },
        }
    }
}

/// Why reading stopped. All of it ends the run: waiting mends neither a file nor a disk.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum ReadError {
    #[error("reading {} at byte {at}: {source}; mend that and run again, reading goes on at the checkpoint", path.display())]
    Io { path: Arc<Path>, at: u64, source: Arc<io::Error> },
    #[error("reading {}: the checkpoint is at byte {next}, but the file was truncated to {len} bytes; put the whole file back, or begin at its start with `inbox checkpoint reset`", path.display())]
    Truncated { path: Arc<Path>, next: u64, len: u64 },
    #[error("reading {}: the record at byte {at}, the last one that was finished, is not what it was: the file was replaced or changed; put the old file back, or begin at the start of this one with `inbox checkpoint reset`", path.display())]
    Replaced { path: Arc<Path>, at: u64 },
    #[error("reading {}: the checkpoint at byte {next} is inside a line: the file was replaced or changed; put the old file back, or begin at the start of this one with `inbox checkpoint reset`", path.display())]
    InsideLine { path: Arc<Path>, next: u64 },
    #[error("reading {} at byte {at}: the file was truncated to {len} bytes while it was read; put the whole file back and run again, or begin at its start with `inbox checkpoint reset`", path.display())]
    Shrunk { path: Arc<Path>, at: u64, len: u64 },
    #[error("reading {}: the reader thread stopped unexpectedly; run again, reading goes on at the checkpoint", path.display())]
    Stopped { path: Arc<Path> },
}

impl ReadError {
    pub(crate) fn io(path: &Arc<Path>, at: u64, source: io::Error) -> Self {
        Self::Io { path: path.clone(), at, source: Arc::new(source) }
    }
}

impl From<&ReadError> for BrokerError {
    fn from(error: &ReadError) -> Self {
        BrokerError::fatal(error.to_string())
    }
}
