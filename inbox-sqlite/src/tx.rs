//! An open transaction.

use crate::{connection::Writer, guard::Ended};
use inbox_core::{ClaimKey, Group};
use rusqlite::Connection;
use std::{
    fmt,
    ops::{Deref, DerefMut},
};
use tokio::sync::OwnedMutexGuard;

/// Where the connection waits for the next transaction; empty when it was lost and has to be opened again.
pub(crate) type Slot = Option<Writer>;

/// An open transaction of a [`SqliteStore`](crate::SqliteStore). It owns the store's connection and
/// derefs to it; dropped without a commit, it is rolled back and gives the connection back.
///
/// What a handler may do with the connection is everything but to end the transaction: `COMMIT`,
/// `END` and `ROLLBACK` as statements make the unit of work fail, and nothing of it is stored. Savepoints
/// are welcome ([`Connection::savepoint`]). Leave the commit hook, the rollback hook and the progress
/// handler of the connection alone, because by them the store notices; and do not exchange the connection
/// for another one (`std::mem::replace`).
pub struct SqliteTx {
    /// Present until the transaction ends.
    writer: Option<Writer>,
    slot: OwnedMutexGuard<Slot>,
    /// Groups whose row was made or read here, to be remembered once it is committed.
    pub(crate) groups: Vec<(Group, i64)>,
    /// Claims that this transaction made.
    pub(crate) claimed: Vec<(i64, ClaimKey)>,
}

impl SqliteTx {
    pub(crate) fn new(writer: Writer, slot: OwnedMutexGuard<Slot>) -> Self {
        Self { writer: Some(writer), slot, groups: Vec::new(), claimed: Vec::new() }
    }

    /// Whether this transaction made the claim.
    pub(crate) fn holds(&self, group_id: i64, key: &ClaimKey) -> bool {
        self.claimed.iter().any(|(group, own)| *group == group_id && own == key)
    }

    fn writer(&self) -> &Writer {
        // Taken only by `commit` and `drop`, which end the value.
        self.writer
            .as_ref()
            .unwrap_or_else(|| unreachable!("a transaction owns its connection until it ends"))
    }

    /// Why the transaction is no longer there, in words; `None` while it is.
    pub(crate) fn gone(&self) -> Option<String> {
        let Writer { connection, guard } = self.writer();
        let how = match guard.ended() {
            _ if guard.timed_out() && (guard.ended().is_some() || connection.is_autocommit()) => {
                "a statement ran longer than statement_timeout, and SQLite rolled the transaction back"
            }
            Some(Ended::CommitRefused) => {
                "a statement would have committed it, or written on after it had ended, which was refused"
            }
            Some(Ended::RolledBack) => "a statement rolled it back, or SQLite did so after an error",
            None if connection.is_autocommit() => "its connection was exchanged for another one",
            None => return None,
        };
        Some(format!("the transaction was ended before the unit of work: {how}; nothing of it is stored"))
    }

    /// Takes the connection out in order to commit.
    pub(crate) fn take(mut self) -> (Option<Writer>, Self) {
        (self.writer.take(), self)
    }

    /// Ends what is still open and gives the connection back, unless it cannot be trusted any more.
    pub(crate) fn give_back(&mut self, writer: Writer) {
        let Writer { connection, guard } = &writer;
        guard.ending();
        // The rollback hook tells whether this is still the connection that it was, so there has to be
        // something to roll back.
        let ended = if connection.is_autocommit() { writer.run("BEGIN") } else { Ok(()) }.and_then(|()| {
            guard.forget_rollback();
            writer.run("ROLLBACK")
        });
        if ended.is_ok() && connection.is_autocommit() && guard.rolled_back() {
            guard.idle();
            *self.slot = Some(writer);
        } else {
            tracing::warn!(
                "a SQLite connection was closed because its transaction could not be rolled back through it"
            );
        }
    }

    /// Gives the connection back after a commit.
    pub(crate) fn keep(&mut self, writer: Writer) {
        writer.guard.idle();
        *self.slot = Some(writer);
    }
}

impl Deref for SqliteTx {
    type Target = Connection;

    /// The connection. The time that a statement may take begins anew with every call.
    fn deref(&self) -> &Connection {
        let writer = self.writer();
        writer.guard.touch();
        &writer.connection
    }
}

impl DerefMut for SqliteTx {
    fn deref_mut(&mut self) -> &mut Connection {
        let writer = self
            .writer
            .as_mut()
            .unwrap_or_else(|| unreachable!("a transaction owns its connection until it ends"));
        writer.guard.touch();
        &mut writer.connection
    }
}

impl Drop for SqliteTx {
    fn drop(&mut self) {
        if let Some(writer) = self.writer.take() {
            self.give_back(writer);
        }
    }
}

impl fmt::Debug for SqliteTx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SqliteTx(open)")
    }
}
