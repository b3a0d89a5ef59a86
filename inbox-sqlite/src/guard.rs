//! What SQLite's hooks tell about the transaction that is lent to a handler.
//!
//! SQLite ends transactions behind one's back: after some errors it rolls back by itself, and a handler
//! can run `COMMIT` as a statement. What is written afterwards would be stored at once, without the
//! claim. The hooks close that hole: while a transaction is lent, no commit passes.

use rusqlite::Connection;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// Virtual machine steps between two looks at the clock: some tenths of a millisecond.
const STEPS_PER_LOOK: i32 = 10_000;

/// Nobody else uses the connection: what the store does may commit.
const IDLE: u8 = 0;
/// A transaction is lent: nothing may commit.
const LENT: u8 = 1;
/// The store ends the transaction: it may commit.
const ENDING: u8 = 2;

/// How a lent transaction ended without the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// It was rolled back.
    RolledBack,
    /// Something was about to be committed, and was refused.
    CommitRefused,
}

/// Shared by a connection's hooks and its owner. All of it happens on one thread at a time (the owner
/// moves between threads as a whole), so relaxed atomics are enough.
#[derive(Debug)]
pub(crate) struct TxGuard {
    phase: AtomicU8,
    rolled_back: AtomicBool,
    commit_refused: AtomicBool,
    commit_passed: AtomicBool,
    timed_out: AtomicBool,
    /// Set from outside when running statements have to stop.
    stop: Arc<AtomicBool>,
    origin: Instant,
    statement_timeout_ns: AtomicU64,
    deadline_ns: AtomicU64,
}

impl TxGuard {
    /// Installs the hooks.
    pub(crate) fn watch(connection: &mut Connection, stop: &Arc<AtomicBool>) -> rusqlite::Result<Arc<Self>> {
        let guard = Arc::new(Self {
            phase: AtomicU8::new(IDLE),
            rolled_back: AtomicBool::new(false),
            commit_refused: AtomicBool::new(false),
            commit_passed: AtomicBool::new(false),
            timed_out: AtomicBool::new(false),
            stop: Arc::clone(stop),
            origin: Instant::now(),
            statement_timeout_ns: AtomicU64::new(u64::MAX),
            deadline_ns: AtomicU64::new(u64::MAX),
        });
        let hook = Arc::clone(&guard);
        connection.commit_hook(Some(move || hook.refuses_commit()))?;
        let hook = Arc::clone(&guard);
        connection.rollback_hook(Some(move || hook.rolled_back.store(true, Relaxed)))?;
        let hook = Arc::clone(&guard);
        connection.progress_handler(STEPS_PER_LOOK, Some(move || hook.is_late()))?;
        Ok(guard)
    }

    /// A transaction was opened and is lent from now on.
    pub(crate) fn lent(&self, statement_timeout: Duration) {
        self.rolled_back.store(false, Relaxed);
        self.commit_refused.store(false, Relaxed);
        self.commit_passed.store(false, Relaxed);
        self.timed_out.store(false, Relaxed);
        self.statement_timeout_ns.store(nanoseconds(statement_timeout), Relaxed);
        self.touch();
        self.phase.store(LENT, Relaxed);
    }

    /// The transaction is about to be used: the time of a statement begins.
    pub(crate) fn touch(&self) {
        let now = nanoseconds(self.origin.elapsed());
        self.deadline_ns.store(now.saturating_add(self.statement_timeout_ns.load(Relaxed)), Relaxed);
    }

    /// The store ends the transaction.
    pub(crate) fn ending(&self) {
        self.phase.store(ENDING, Relaxed);
    }

    /// Nothing is open any more.
    pub(crate) fn idle(&self) {
        self.phase.store(IDLE, Relaxed);
    }

    /// How the transaction ended without the store, if it did.
    pub(crate) fn ended(&self) -> Option<Ended> {
        if self.commit_refused.load(Relaxed) {
            Some(Ended::CommitRefused)
        } else if self.rolled_back.load(Relaxed) {
            Some(Ended::RolledBack)
        } else {
            None
        }
    }

    /// Whether SQLite asked the hook about a commit of the store. If not, the hook is no longer there.
    pub(crate) fn commit_passed(&self) -> bool {
        self.commit_passed.load(Relaxed)
    }

    /// Whether a rollback was reported.
    pub(crate) fn rolled_back(&self) -> bool {
        self.rolled_back.load(Relaxed)
    }

    /// Clears [`TxGuard::rolled_back`], so that it tells of what follows.
    pub(crate) fn forget_rollback(&self) {
        self.rolled_back.store(false, Relaxed);
    }

    /// Whether a statement was stopped because it took too long.
    pub(crate) fn timed_out(&self) -> bool {
        self.timed_out.load(Relaxed)
    }

    fn refuses_commit(&self) -> bool {
        let refuse = self.phase.load(Relaxed) == LENT;
        if refuse {
            self.commit_refused.store(true, Relaxed);
        } else {
            self.commit_passed.store(true, Relaxed);
        }
        refuse
    }

    fn is_late(&self) -> bool {
        let late = self.phase.load(Relaxed) == LENT
            && nanoseconds(self.origin.elapsed()) > self.deadline_ns.load(Relaxed);
        if late {
            self.timed_out.store(true, Relaxed);
        }
        // Never while the store itself ends a transaction: a commit is not cut.
        late || (self.phase.load(Relaxed) == LENT && self.stop.load(Relaxed))
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
