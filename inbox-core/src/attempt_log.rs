//! Durable marks of what was started, for messages that may take the process or the database down.

use crate::{ClaimKey, Group, InboxStore, StoreError};
use async_trait::async_trait;

/// A store that remembers which messages were started, across crashes of the process and the database.
///
/// A message that kills whoever handles it comes again, and kills again. The runner therefore handles
/// *suspects* alone: what was open when a connection was lost, and, after a run that did not end
/// cleanly, the first deliveries of each partition. With this ability it marks their starts durably before,
/// so that the one that kills becomes a letter, and only that one.
///
/// # Contract
/// Each clause names the cases of `inbox_testkit::suite::store` that check it.
///
/// 1. A run that was opened and not closed is told to the next one that is opened under the same group
///    and instance, with the larger of the bounds; a closed one is forgotten.
///    (`unclean_run_is_told`, `clean_run_is_forgotten`, `runs_of_instances_are_separate`)
/// 2. A start that was marked is durable when the call returns. (`marks_are_kept`,
///    `marks_of_groups_are_separate`)
/// 3. Marks are cleared with the transaction, as the claims are made.
///    (`marks_are_cleared_with_the_transaction`)
#[async_trait]
pub trait AttemptLog: InboxStore {
    /// A run begins that has at most `open_max` deliveries between the oldest unfinished one of a partition
    /// and the newest. Gives the bound of a run of the same instance that has not ended cleanly; until
    /// [`close_run`](AttemptLog::close_run) the larger of both bounds is kept.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn open_run(&self, group: &Group, instance: &str, open_max: u64)
    -> Result<Option<u64>, StoreError>;

    /// The run has ended cleanly.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn close_run(&self, group: &Group, instance: &str) -> Result<(), StoreError>;

    /// How many starts of a message are marked.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn marks(&self, group: &Group, key: &ClaimKey) -> Result<u32, StoreError>;

    /// A message is about to be started for the `marks`th time, as far as is known: marks that durably, in
    /// a transaction of its own. The number is set, not added to, so that a call whose reply was lost can be
    /// repeated without counting a start that never was.
    ///
    /// # Errors
    /// [`StoreError`]. After a lost reply there may be the mark or not.
    async fn mark_start(&self, group: &Group, key: &ClaimKey, marks: u32) -> Result<(), StoreError>;

    /// Takes away the marks of messages, with the open transaction.
    ///
    /// # Errors
    /// [`StoreError`]; the transaction must be rolled back.
    async fn clear_marks(
        &self,
        tx: &mut Self::Tx,
        group: &Group,
        keys: &[ClaimKey],
    ) -> Result<(), StoreError>;
}
