//! Planted bugs of the runner, for the tests that have to see them.
//!
//! Only with the feature `planted-mutants`, which is for tests alone, can one be planted; without it
//! [`is`] is the constant `false` and leaves nothing behind.

/// A bug that can be planted into the runner of this thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(feature = "planted-mutants"), allow(dead_code, unreachable_pub))]
#[non_exhaustive]
pub enum Mutant {
    /// The broker is told before the transaction is committed.
    AcknowledgesBeforeCommit,
    /// A commit that was refused counts as one that was done.
    IgnoresRefusedCommit,
    /// A commit whose reply was lost counts as one that was done.
    TrustsDoubt,
    /// What is to be tried again is acknowledged together with what is finished.
    SettlesUnfinished,
    /// Other content under a known id counts as a duplicate.
    HidesConflicts,
    /// A claim that somebody else holds undecided counts as a duplicate.
    TakesBusyForDone,
    /// A claim that was found counts as fresh.
    RunsDuplicates,
    /// A checkpoint goes past deliveries that are not finished.
    PassesUnfinished,
    /// A dead message is acknowledged without its letter.
    ForgetsLetters,
    /// Messages behind a failed one of their key go on.
    OvertakesRetries,
    /// What a failed handler has done is committed instead of rolled back.
    CommitsFailedHalf,
    /// At most once, what the broker has not confirmed is handled all the same.
    HandlesUnconfirmed,
    /// At most once, what may have been committed runs again.
    RunsDoubtAgain,
    /// A row that still keeps a message counts as proof that it was handled.
    TrustsKeptRow,
}

#[cfg(feature = "planted-mutants")]
mod planted {
    use super::Mutant;
    use std::cell::Cell;

    thread_local! {
        static PLANTED: Cell<Option<Mutant>> = const { Cell::new(None) };
    }

    /// Plants a bug into every runner that runs on this thread, or none. A runtime of one thread is needed.
    pub fn plant(mutant: Option<Mutant>) {
        PLANTED.set(mutant);
    }

    pub(crate) fn is(mutant: Mutant) -> bool {
        PLANTED.get() == Some(mutant)
    }
}

#[cfg(feature = "planted-mutants")]
pub(crate) use planted::is;
#[cfg(feature = "planted-mutants")]
pub use planted::plant;

/// Whether the bug is planted: never.
#[cfg(not(feature = "planted-mutants"))]
pub(crate) const fn is(_: Mutant) -> bool {
    false
}
