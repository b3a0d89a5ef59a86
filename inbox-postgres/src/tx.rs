//! An open transaction.

use crate::pool::Conn;
use inbox_core::{ClaimKey, TxLimits};
use sqlx::PgConnection;
use std::{
    collections::HashSet,
    fmt,
    ops::{Deref, DerefMut},
    time::Duration,
};

/// An open transaction of a [`PostgresStore`](crate::PostgresStore). It owns a connection and derefs to
/// it; dropped without a commit, the connection is closed, and the server rolls back.
///
/// What a handler may do with the connection is everything but to end the transaction: a `COMMIT` as a
/// statement fails at the trigger `inbox_only_the_store_commits`, what is written after a `ROLLBACK` is
/// refused, and the unit of work has failed in either case. A nested
/// [`begin`](sqlx::Connection::begin) is a savepoint, and welcome. Three things are not: `SET CONSTRAINTS ALL
/// IMMEDIATE`, which runs that trigger too early (name your own constraints instead), `CLOSE ALL`, after
/// which the store does not know its transaction again, and `RESET ALL`, which undoes its limits.
pub struct PostgresTx {
    /// Present until the transaction ends.
    conn: Option<Conn>,
    /// Claims that this transaction made.
    pub(crate) claimed: HashSet<(i32, ClaimKey)>,
    pub(crate) limits: TxLimits,
}

impl PostgresTx {
    pub(crate) fn new(conn: Conn, limits: &TxLimits) -> Self {
        Self { conn: Some(conn), claimed: HashSet::new(), limits: limits.clone() }
    }

    /// Whether this transaction made the claim.
    pub(crate) fn holds(&self, group_id: i32, key: &ClaimKey) -> bool {
        self.claimed.contains(&(group_id, key.clone()))
    }

    /// Takes the connection out in order to end the transaction.
    pub(crate) fn take(mut self) -> Option<Conn> {
        self.conn.take()
    }

    /// How long one of the store's own statements is waited for: longer than the server lets it run.
    pub(crate) fn patience(&self) -> Duration {
        self.limits.statement_timeout.saturating_add(PATIENCE)
    }
}

/// Beyond what the server was told.
const PATIENCE: Duration = Duration::from_secs(10);

impl Deref for PostgresTx {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        // Taken only by `take`, which ends the value.
        match &self.conn {
            Some(conn) => &conn.driver,
            None => unreachable!("a transaction owns its connection until it ends"),
        }
    }
}

impl DerefMut for PostgresTx {
    fn deref_mut(&mut self) -> &mut PgConnection {
        match &mut self.conn {
            Some(conn) => &mut conn.driver,
            None => unreachable!("a transaction owns its connection until it ends"),
        }
    }
}

impl fmt::Debug for PostgresTx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PostgresTx(open)")
    }
}
