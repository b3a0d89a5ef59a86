//! What can be seen of a file's reading from outside the runner, which owns the broker.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicU64, Ordering},
};

/// Bytes behind the last newline that are not one JSON value (or are over the limit of a line): left
/// alone, since they may still be being written. They are delivered by a run that finds their newline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leftover {
    /// Where they begin.
    pub at: u64,
    /// How many there are.
    pub bytes: u64,
}

/// How far the reading of a file has come. Clones look at the same file.
#[derive(Debug, Clone, Default)]
pub struct FileProgress(Arc<Seen>);

#[derive(Debug, Default)]
struct Seen {
    delivered_to: AtomicU64,
    total: AtomicU64,
    leftover: OnceLock<Leftover>,
}

impl FileProgress {
    /// The byte up to which lines were delivered, those before the checkpoint included.
    pub fn delivered_to(&self) -> u64 {
        self.0.delivered_to.load(Ordering::Relaxed)
    }

    /// The file's length when it was opened.
    pub fn total(&self) -> u64 {
        self.0.total.load(Ordering::Relaxed)
    }

    /// What was left alone at the end; known once the broker has ended.
    pub fn leftover(&self) -> Option<Leftover> {
        self.0.leftover.get().copied()
    }

    pub(crate) fn opened(&self, total: u64) {
        self.0.total.store(total, Ordering::Relaxed);
    }

    pub(crate) fn reached(&self, at: u64) {
        self.0.delivered_to.store(at, Ordering::Relaxed);
    }

    pub(crate) fn left(&self, leftover: Leftover) {
        // A file ends once; a second call could only repeat the first.
        let _ = self.0.leftover.set(leftover);
    }
}
