//! The contract of stores: claims and effects in one transaction.

use crate::{ClaimKey, Fingerprint, Group};
use async_trait::async_trait;
use std::{error::Error, future::Future, ops::DerefMut, pin::Pin, time::Duration};

/// The database of the consumer: it keeps the claims beside the effects.
///
/// Anyone may implement this trait. New methods come only with a default.
///
/// # Contract
/// Each clause names the cases of `inbox_testkit::suite::store` that check it.
///
/// 1. *Atomic.* What is written through one transaction, by the store or by the handler, becomes
///    durable with [`commit`](InboxStore::commit) as a whole, or not at all.
///    (`commit_is_atomic`, `rollback_leaves_nothing`, `large_effect`)
/// 2. *Claims.* [`claim`](InboxStore::claim) answers `Fresh` for at most one committed transaction per
///    (group, scope, id) while the row is kept. The row it writes has the disposition *applied*.
///    Names are compared byte by byte. (`fresh_once`, `one_of_many_is_fresh`, `groups_are_separate`,
///    `scopes_are_separate`, `ids_are_exact`, `answers_in_the_order_of_requests`,
///    `a_thousand_keys_in_one_call`)
/// 3. *Found.* An answer other than `Fresh` tells of a row that is committed, not of one that another
///    transaction could still take back. The undecided ones are [`StoreError::Busy`].
///    (`duplicate_found_after_reopen`, `found_rows_stay`, `dead_is_found`,
///    `conflict_tells_what_is_stored`, `fingerprints_of_other_versions`; `undecided_is_busy`,
///    `rollback_lets_the_other_have_it`, `waiting_ends_with_the_other`, `crossing_batches`,
///    `other_keys_are_not_in_the_way`)
/// 4. *Commit.* `Ok` means that claims and effects are durable. A transaction that was aborted, that
///    the database rolled back by itself, or that the handler ended is [`CommitError::RolledBack`].
///    (`commit_is_durable`, `empty_transaction_commits`, `hidden_failure`, `rolled_back_by_hand`,
///    `writes_after_a_rollback_by_hand`, `committed_by_hand`, `deferred_constraint`, `connection_cut`)
/// 5. *Drop.* A dropped transaction never commits; its locks end soon. (`drop_leaves_nothing`,
///    `drop_frees`)
/// 6. *Resolve.* [`resolve`](InboxStore::resolve) answers when the fate of the keys is definite: it
///    waits, or fails, while a transaction that could still commit them is open.
///    (`resolve_tells_what_is_committed`, `resolve_does_not_guess`)
/// 7. *Errors and units.* Errors that the store does not know are the handler's; a unit of work that is
///    handed over runs to its end. (`unknown_errors_are_the_handlers`, `unit_runs_to_its_end`)
#[async_trait]
pub trait InboxStore: Send + Sync + 'static {
    /// An open transaction. It owns its connection and derefs to the driver's connection type, so that
    /// a handler can use the driver; it never derefs to a type that could commit.
    type Tx: DerefMut + Send + 'static;

    /// Opens a transaction that can write.
    ///
    /// Must not be cancelled: some drivers then leave a transaction open on a pooled connection.
    ///
    /// # Errors
    /// [`StoreError`]; nothing is open then.
    async fn begin(&self, limits: &TxLimits) -> Result<Self::Tx, StoreError>;

    /// Claims every key for `group`. One answer per request, in the order of the requests, which name
    /// each key once; the store takes them in sorted order by itself where locks could cross.
    ///
    /// # Errors
    /// [`StoreError::Busy`] when another transaction holds one of them undecided; any error means that
    /// the transaction must be rolled back.
    async fn claim(
        &self,
        tx: &mut Self::Tx,
        group: &Group,
        requests: &[ClaimRequest],
    ) -> Result<Vec<Claim>, StoreError>;

    /// Ends the transaction durably.
    ///
    /// # Errors
    /// [`CommitError::RolledBack`] when it is certain that nothing was stored, otherwise
    /// [`CommitError::InDoubt`].
    async fn commit(&self, tx: Self::Tx) -> Result<(), CommitError>;

    /// Ends the transaction without a trace.
    ///
    /// # Errors
    /// When the server could not be told; the transaction is gone all the same.
    async fn rollback(&self, tx: Self::Tx) -> Result<(), StoreError>;

    /// Tells for each key, in order, whether its row is committed. Used when the reply to a commit was lost.
    ///
    /// # Errors
    /// [`StoreError`] while the answer is not definite; the caller asks again.
    async fn resolve(&self, group: &Group, keys: &[ClaimKey]) -> Result<Vec<Resolution>, StoreError>;

    /// What an error that came out of a handler means. Called with each error of its chain that could
    /// be the driver's; errors it does not know are [`FaultClass::HandlerFault`].
    fn classify(&self, error: &(dyn Error + 'static)) -> FaultClass;

    /// Runs a unit of work to its end. The default is a tokio task; a store whose driver blocks gives
    /// it a thread of its own. The future must not be dropped before it is done, but for the end of
    /// the runtime.
    fn run_unit(&self, unit: Pin<Box<dyn Future<Output = ()> + Send>>) {
        tokio::spawn(unit);
    }

    /// A shutdown's deadline has passed: statements that run in open transactions should stop with an
    /// error soon. Only those whose driver blocks need it; others are dropped with their handler. Commits
    /// must not be cut. The default does nothing.
    fn interrupt(&self) {}

    /// What errors and logs call it, without secrets.
    fn describe(&self) -> String;
}

/// Bounds on a transaction, enforced by the database where it can.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TxLimits {
    /// How long one statement may run.
    pub statement_timeout: Duration,
    /// How long a claim waits for another transaction that holds the row, before it is `Busy`.
    pub lock_timeout: Duration,
    /// How long the transaction may be idle between statements.
    pub idle_timeout: Duration,
}

impl Default for TxLimits {
    /// 30 s for a statement, 1 s for a lock, 60 s idle.
    fn default() -> Self {
        Self {
            statement_timeout: Duration::from_secs(30),
            lock_timeout: Duration::from_secs(1),
            idle_timeout: Duration::from_secs(60),
        }
    }
}

/// A key to be claimed, and the content it is claimed for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimRequest {
    /// Scope and id.
    pub key: ClaimKey,
    /// The fingerprint of the content.
    pub fingerprint: Fingerprint,
}

/// What became of a message, as its row says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Disposition {
    /// Its effect is in the database.
    Applied,
    /// It became a letter.
    Dead,
    /// It waits behind a dead letter of its key.
    Parked,
    /// Its payload is kept in the row, to be handled later.
    Stored,
}

impl Disposition {
    /// The number that stores write; it never changes.
    pub const fn code(self) -> i16 {
        match self {
            Self::Applied => 1,
            Self::Dead => 2,
            Self::Parked => 3,
            Self::Stored => 4,
        }
    }

    /// Reads [`Disposition::code`].
    pub const fn from_code(code: i16) -> Option<Self> {
        match code {
            1 => Some(Self::Applied),
            2 => Some(Self::Dead),
            3 => Some(Self::Parked),
            4 => Some(Self::Stored),
            _ => None,
        }
    }
}

/// The answer to a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Claim {
    /// The row was written by this transaction.
    Fresh,
    /// A committed row says: applied.
    Applied,
    /// A committed row says: a letter.
    Dead,
    /// A committed row says: parked.
    Parked,
    /// A committed row says: stored.
    Stored,
    /// A committed row was written for other content.
    Conflict {
        /// The fingerprint in the row.
        stored: Fingerprint,
    },
}

impl Claim {
    /// The answer for a committed row, given what was asked for: the one rule for all stores.
    pub fn found(disposition: Disposition, stored: Fingerprint, asked: Fingerprint) -> Self {
        if stored.conflicts_with(asked) {
            return Self::Conflict { stored };
        }
        match disposition {
            Disposition::Applied => Self::Applied,
            Disposition::Dead => Self::Dead,
            Disposition::Parked => Self::Parked,
            Disposition::Stored => Self::Stored,
        }
    }
}

/// Whether the row of a key is committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Resolution {
    /// It is, with this disposition and content.
    Committed {
        /// The row's disposition.
        disposition: Disposition,
        /// The row's fingerprint.
        fingerprint: Fingerprint,
    },
    /// It is not, and no transaction is open that could still commit it.
    Absent,
}

/// What an error means for the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FaultClass {
    /// The store cannot be reached or cannot write now (connection lost, disk full). Nobody is charged
    /// an attempt; the run waits.
    Outage,
    /// Transactions got in each other's way. It is run again, bounded, nobody is charged.
    Contention,
    /// The message or its handler is at fault; an attempt is charged.
    HandlerFault,
    /// The transaction had been aborted already, perhaps by the handler of another message that hid
    /// it: in a batch nobody is charged before it is known who it was.
    Aborted,
    /// Trying again cannot help (a violated constraint, a syntax error).
    Permanent,
}

/// A store call that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Another transaction holds one of the claims and is not decided yet.
    #[error("a claim is held by another transaction that is not decided yet")]
    Busy,
    /// Anything else.
    #[error("{message}")]
    Failed {
        /// What it means for the run.
        class: FaultClass,
        /// One line: what was being done, to what, and what to do next.
        message: String,
        /// The driver's error.
        #[source]
        source: Option<Box<dyn Error + Send + Sync>>,
    },
}

impl StoreError {
    /// A failure with its meaning, its one line, and no cause.
    pub fn failed(class: FaultClass, message: impl Into<String>) -> Self {
        Self::Failed { class, message: message.into(), source: None }
    }

    /// Adds the driver's error.
    #[must_use]
    pub fn caused_by(self, cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        match self {
            Self::Busy => Self::Busy,
            Self::Failed { class, message, .. } => {
                Self::Failed { class, message, source: Some(cause.into()) }
            }
        }
    }

    /// What it means for the run; `None` for [`StoreError::Busy`].
    pub fn class(&self) -> Option<FaultClass> {
        match self {
            Self::Busy => None,
            Self::Failed { class, .. } => Some(*class),
        }
    }
}

/// A commit that did not answer `Ok`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommitError {
    /// Nothing was stored.
    #[error("{message}")]
    RolledBack {
        /// What it means for the run.
        class: FaultClass,
        /// One line: what happened.
        message: String,
        /// The driver's error.
        #[source]
        source: Option<Box<dyn Error + Send + Sync>>,
    },
    /// It may have been stored: the reply was lost.
    #[error("the reply to a commit was lost: {message}")]
    InDoubt {
        /// One line: what happened.
        message: String,
    },
}

impl CommitError {
    /// A commit of which it is certain that nothing was stored.
    pub fn rolled_back(class: FaultClass, message: impl Into<String>) -> Self {
        Self::RolledBack { class, message: message.into(), source: None }
    }

    /// Adds the driver's error.
    #[must_use]
    pub fn caused_by(self, cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        match self {
            Self::RolledBack { class, message, .. } => {
                Self::RolledBack { class, message, source: Some(cause.into()) }
            }
            in_doubt @ Self::InDoubt { .. } => in_doubt,
        }
    }
}
