//! The tiny driver: what a handler writes effects with.

use super::{
    EffectRow, MemoryDatabase,
    state::{Lock, Writes},
};
use crate::lock::lock;
use inbox_core::{FaultClass, Message, StoreError, TxLimits};
use std::ops::{Deref, DerefMut};

/// An open transaction of a [`MemoryStore`](super::MemoryStore). Dropping it rolls it back.
#[derive(Debug)]
pub struct MemoryTx(MemoryConnection);

impl MemoryTx {
    pub(super) fn new(connection: MemoryConnection) -> Self {
        Self(connection)
    }

    pub(super) fn commit_now(&mut self) -> Result<(), MemoryError> {
        self.0.commit()
    }

    /// Commits outside of any store, for tests that write beside a run.
    ///
    /// # Errors
    /// [`MemoryError`] when nothing was stored.
    pub fn commit(mut self) -> Result<(), MemoryError> {
        self.0.commit()
    }
}

impl Deref for MemoryTx {
    type Target = MemoryConnection;
    fn deref(&self) -> &MemoryConnection {
        &self.0
    }
}

impl DerefMut for MemoryTx {
    fn deref_mut(&mut self) -> &mut MemoryConnection {
        &mut self.0
    }
}

/// A statement or commit that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// The transaction was aborted; nothing can be done with it but to roll it back.
    #[error("the transaction is aborted")]
    Aborted,
    /// A constraint that is checked at the commit is violated.
    #[error("constraint violated at the commit: {0}")]
    Constraint(String),
    /// The connection was cut, or the database is unavailable.
    #[error("the connection to the database is gone")]
    Disconnected,
}

impl MemoryError {
    /// What it means for a run.
    pub fn class(&self) -> FaultClass {
        match self {
            Self::Aborted => FaultClass::Aborted,
            Self::Constraint(_) => FaultClass::Permanent,
            Self::Disconnected => FaultClass::Outage,
        }
    }
}

impl From<MemoryError> for StoreError {
    fn from(error: MemoryError) -> Self {
        Self::failed(error.class(), format!("writing to the memory database: {error}")).caused_by(error)
    }
}

/// The connection with its transaction, as a handler sees it: it can write, and neither commit nor roll
/// back.
#[derive(Debug)]
pub struct MemoryConnection {
    database: MemoryDatabase,
    id: u64,
    limits: TxLimits,
    aborted: bool,
    violated: Option<String>,
    pub(super) writes: Writes,
}

impl MemoryConnection {
    pub(super) fn new(database: MemoryDatabase, id: u64, limits: TxLimits) -> Self {
        Self { database, id, limits, aborted: false, violated: None, writes: Writes::default() }
    }

    pub(super) fn database(&self) -> &MemoryDatabase {
        &self.database
    }

    pub(super) fn id(&self) -> u64 {
        self.id
    }

    pub(super) fn limits(&self) -> &TxLimits {
        &self.limits
    }

    /// Takes a lock unless another transaction has it.
    pub(super) fn try_hold(&self, wanted: &Lock) -> bool {
        lock(&self.database.0.state).hold(wanted, self.id)
    }

    /// Whether the transaction can be used.
    pub(super) fn check(&self) -> Result<(), MemoryError> {
        if !lock(&self.database.0.state).is_open(self.id) {
            return Err(MemoryError::Disconnected);
        }
        if self.aborted { Err(MemoryError::Aborted) } else { Ok(()) }
    }

    /// Appends a row about `message` to a table without a key.
    ///
    /// # Errors
    /// [`MemoryError`] when the transaction cannot be used any more.
    pub fn append(&mut self, table: &str, message: &Message) -> Result<(), MemoryError> {
        self.check()?;
        let row = EffectRow {
            id: message.id().to_owned(),
            key: message.key().map(|key| String::from_utf8_lossy(key).into_owned()),
            content: message.fingerprint(),
            seq: 0,
        };
        self.writes.rows.push((table.to_owned(), row));
        Ok(())
    }

    /// Adds to a counter.
    ///
    /// # Errors
    /// [`MemoryError`] when the transaction cannot be used any more.
    pub fn add(&mut self, counter: &str, by: i64) -> Result<(), MemoryError> {
        self.check()?;
        *self.writes.counters.entry(counter.to_owned()).or_default() += by;
        Ok(())
    }

    /// A counter as this transaction sees it: committed, and its own writes.
    ///
    /// # Errors
    /// [`MemoryError`] when the transaction cannot be used any more.
    pub fn counter(&self, counter: &str) -> Result<i64, MemoryError> {
        self.check()?;
        let own = self.writes.counters.get(counter).copied().unwrap_or_default();
        Ok(self.database.counter(counter) + own)
    }

    /// Violates a constraint that is checked at the commit only, which then stores nothing.
    pub fn fail_commit(&mut self, constraint: impl Into<String>) {
        self.violated = Some(constraint.into());
    }

    /// Aborts the transaction, as a failed statement does: everything after it fails, the commit too,
    /// also when the handler hides it.
    pub fn abort(&mut self) {
        self.aborted = true;
    }

    /// Makes everything durable in one step, or nothing. Ends the transaction either way.
    pub(super) fn commit(&mut self) -> Result<(), MemoryError> {
        let result = self.check().and_then(|()| match self.violated.take() {
            Some(constraint) => Err(MemoryError::Constraint(constraint)),
            None => Ok(()),
        });
        let mut state = lock(&self.database.0.state);
        let result = if state.unavailable { Err(MemoryError::Disconnected) } else { result };
        // Asked again under the lock: the connection may just have been cut.
        let result = if state.is_open(self.id) { result } else { Err(MemoryError::Disconnected) };
        if result.is_ok() {
            state.apply(std::mem::take(&mut self.writes));
        }
        state.end(self.id);
        drop(state);
        self.database.0.ended.notify_waiters();
        result
    }
}

impl Drop for MemoryConnection {
    fn drop(&mut self) {
        self.database.end(self.id);
    }
}
