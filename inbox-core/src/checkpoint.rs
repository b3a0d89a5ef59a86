//! Source positions kept in the consumer's database.

use crate::{Fingerprint, Group, InboxStore, Partition, Source, StoreError};
use async_trait::async_trait;

/// How far a group has come in a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Checkpoint {
    /// Where reading goes on: every record before it is finished.
    pub next: u64,
    /// Raised by every assignment that takes the partition over; an owner with an older one is fenced.
    pub epoch: u64,
    /// The last finished record, by which a source that was cut off or made again is recognised.
    pub mark: Option<RecordMark>,
}

impl Checkpoint {
    /// Reading goes on at `next`.
    pub fn new(next: u64, epoch: u64, mark: Option<RecordMark>) -> Self {
        Self { next, epoch, mark }
    }
}

/// What identifies a record in its partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordMark {
    /// Where it begins.
    pub at: u64,
    /// The fingerprint of its payload as delivered, by [`Fingerprint::of_payload`].
    pub digest: Fingerprint,
    /// Its timestamp, in milliseconds since 1970-01-01 UTC.
    pub timestamp_ms: Option<i64>,
}

/// The rule by which a checkpoint is moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum MoveRule {
    /// Forward only; a smaller `next` changes nothing. For checkpoints beside inbox rows, where the
    /// rows decide and the checkpoint is a faster start.
    Forward,
    /// Only from exactly this position and epoch; anything else is [`Moved::Fenced`].
    From {
        /// The position that must be there; absent when there must be no checkpoint yet.
        expected_next: Option<u64>,
        /// The epoch that must be there.
        epoch: u64,
    },
}

/// A checkpoint to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointMove {
    /// The partition.
    pub partition: Partition,
    /// When it may be moved.
    pub rule: MoveRule,
    /// What to write. With [`MoveRule::Forward`] the stored epoch is kept.
    pub to: Checkpoint,
}

/// What became of a [`CheckpointMove`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Moved {
    /// It is written, or was already further.
    Done,
    /// Another owner moved it: the transaction must be rolled back.
    Fenced {
        /// What was found.
        found: Option<Checkpoint>,
    },
}

/// A store that keeps checkpoints.
///
/// # Contract
/// Each clause names the cases of `inbox_testkit::suite::store` that check it.
///
/// 1. Moves become durable with their transaction, as the claims do. (`checkpoint_with_the_transaction`)
/// 2. One answer per move or partition, in order. (`checkpoint_answers_in_order`)
/// 3. [`hold`](Checkpoints::hold) keeps every other transaction from moving the checkpoints until this
///    one ends. (`hold_excludes_others`)
/// 4. [`MoveRule`] is obeyed, and [`take_over`](Checkpoints::take_over) fences the owner before.
///    (`forward_never_goes_back`, `from_is_compare_and_swap`, `take_over_fences_the_owner_before`)
/// 5. What is written reads back; a number that cannot be held is an error. (`marks_read_back`,
///    `large_numbers_in_checkpoints`, `list_and_forget`)
#[async_trait]
pub trait Checkpoints: InboxStore {
    /// Reads checkpoints, outside of any transaction.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn checkpoints(
        &self,
        group: &Group,
        partitions: &[Partition],
    ) -> Result<Vec<Option<Checkpoint>>, StoreError>;

    /// Takes partitions over: raises each epoch in a transaction of its own and gives what is then there.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn take_over(&self, group: &Group, partitions: &[Partition])
    -> Result<Vec<Checkpoint>, StoreError>;

    /// Locks checkpoints for this transaction and reads them.
    ///
    /// # Errors
    /// [`StoreError`]; the transaction must be rolled back.
    async fn hold(
        &self,
        tx: &mut Self::Tx,
        group: &Group,
        partitions: &[Partition],
    ) -> Result<Vec<Option<Checkpoint>>, StoreError>;

    /// Moves checkpoints inside this transaction.
    ///
    /// # Errors
    /// [`StoreError`]; the transaction must be rolled back.
    async fn advance(
        &self,
        tx: &mut Self::Tx,
        group: &Group,
        moves: &[CheckpointMove],
    ) -> Result<Vec<Moved>, StoreError>;

    /// Forgets the checkpoints of a source and tells how many there were; reading begins at the start
    /// again. In a transaction of its own.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn forget(&self, group: &Group, source: &Source) -> Result<u64, StoreError>;

    /// All checkpoints of a source, by partition number.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn list_checkpoints(
        &self,
        group: &Group,
        source: &Source,
    ) -> Result<Vec<(Partition, Checkpoint)>, StoreError>;
}
