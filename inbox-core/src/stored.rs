//! Messages that are kept in the inbox, to be handled later.

use crate::{Claim, ClaimKey, ClaimRequest, Group, Letters, Message, StoreError};
use async_trait::async_trait;
use std::time::Duration;

/// A stored message as it was read back.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct StoredMessage {
    /// The message, with everything that the handler and a letter need.
    pub message: Message,
    /// How many attempts failed so far.
    pub attempts: u32,
    /// The last error, when an attempt has failed.
    pub error: Option<String>,
}

impl StoredMessage {
    /// Joins what a store reads; for stores.
    pub fn new(message: Message, attempts: u32, error: Option<String>) -> Self {
        Self { message, attempts, error }
    }
}

/// A store that can keep a message's content in its inbox row. Needed for the strategy *at least once,
/// on persist*.
///
/// # Contract
/// 1. [`keep`](StoredInbox::keep) gives claims that this transaction made the disposition *stored*, and
///    keeps the whole record (payload, key, headers, position, type, times) with them. They are due at
///    once. It becomes durable with the transaction.
/// 2. [`reclaim`](StoredInbox::reclaim) answers `Fresh` for a stored row and gives it the disposition
///    *applied* in this transaction, without the record; a rollback leaves it stored. Everything else is
///    answered as [`claim`](crate::InboxStore::claim) would, but no row is ever made: a key without a row
///    is answered `Applied`, as it was removed after it had been. A row that another transaction is about
///    to change is [`StoreError::Busy`]. [`bury`](crate::Letters::bury) accepts what it answered `Fresh`.
/// 3. [`record_failure`](StoredInbox::record_failure) changes only rows that are still stored.
/// 4. [`due`](StoredInbox::due) gives stored messages whose time has come, in the order in which they
///    were kept; it locks nothing, so two consumers may see the same.
#[async_trait]
pub trait StoredInbox: Letters {
    /// Keeps messages in the claims that this transaction made.
    ///
    /// # Errors
    /// [`StoreError`]; the transaction must be rolled back.
    async fn keep(&self, tx: &mut Self::Tx, group: &Group, messages: &[Message]) -> Result<(), StoreError>;

    /// Takes stored messages, to handle them in this transaction.
    ///
    /// # Errors
    /// [`StoreError`]; the transaction must be rolled back.
    async fn reclaim(
        &self,
        tx: &mut Self::Tx,
        group: &Group,
        requests: &[ClaimRequest],
    ) -> Result<Vec<Claim>, StoreError>;

    /// Writes a failed attempt into the row, in a transaction of its own: `attempts` in all, and due again
    /// after `retry_in`.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn record_failure(
        &self,
        group: &Group,
        key: &ClaimKey,
        attempts: u32,
        error: &str,
        retry_in: Duration,
    ) -> Result<(), StoreError>;

    /// Stored messages that are due, at most `rows_max`.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn due(&self, group: &Group, rows_max: u32) -> Result<Vec<StoredMessage>, StoreError>;

    /// How long until the next stored message is due; `None` when there is none at all.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn next_due(&self, group: &Group) -> Result<Option<Duration>, StoreError>;
}
