//! Settlements: a file is told nothing.

use async_trait::async_trait;
use inbox_core::{Ack, AckError, Position, Settled, Settlement};

/// What names a delivery of a [`FileBroker`](crate::FileBroker): its place in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub struct FileReceipt {
    /// Where the line begins, and where reading goes on behind it.
    pub position: Position,
}

/// The settlements of a [`FileBroker`](crate::FileBroker).
///
/// Progress is a checkpoint in the consumer's database, moved by the runner. So there is nothing to
/// tell the file: every settlement is answered with [`Settled::Deferred`], and what the checkpoint does
/// not cover comes again with the next run.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct FileAck;

#[async_trait]
impl Ack for FileAck {
    type Receipt = FileReceipt;

    async fn settle(&self, batch: Vec<Settlement<FileReceipt>>) -> Vec<Result<Settled, AckError>> {
        batch.iter().map(|_| Ok(Settled::Deferred)).collect()
    }
}
