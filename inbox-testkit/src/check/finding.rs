//! What a check finds.

use std::fmt;

/// What was done to a handler.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Trial {
    /// Every message once, nothing goes wrong.
    Clean,
    /// Every message came twice in a row, and then all of them once more.
    Duplicates,
    /// Messages of different keys came in another order.
    Reordered {
        /// By which shuffle.
        seed: u64,
    },
    /// Behind every message its id came again with other content.
    Conflicts,
    /// The process died there while it handled a message; the next one got everything again.
    Crash {
        /// The message.
        id: String,
        /// Where.
        at: Place,
    },
    /// The handler of a message was dropped there, as its time-out does, and the message tried again.
    TimeOut {
        /// The message.
        id: String,
        /// Where.
        at: Place,
    },
}

/// A place in the life of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Place {
    /// Before its transaction is opened.
    BeforeBegin,
    /// Behind that.
    AfterBegin,
    /// Its claim is made, its handler not started.
    AfterClaim,
    /// The handler waits for the so-manieth time, counted from 1.
    Await(usize),
    /// The handler has ended, nothing is committed.
    BeforeCommit,
    /// It is committed and not acknowledged.
    AfterCommit,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BeforeBegin => f.write_str("before its transaction began"),
            Self::AfterBegin => f.write_str("when its transaction had begun"),
            Self::AfterClaim => f.write_str("between claim and handler"),
            Self::Await(count) => write!(f, "at await point {count} of its handler"),
            Self::BeforeCommit => f.write_str("between handler and commit"),
            Self::AfterCommit => f.write_str("between commit and acknowledgement"),
        }
    }
}

impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Clean => f.write_str("when nothing went wrong"),
            Self::Duplicates => f.write_str("when every message came three times"),
            Self::Reordered { seed } => write!(f, "when keys came in another order (shuffle {seed})"),
            Self::Conflicts => f.write_str("when ids came again with other content"),
            Self::Crash { id, at } => write!(f, "when the process died with {id} {at}"),
            Self::TimeOut { id, at } => write!(f, "when {id} was timed out {at}"),
        }
    }
}

/// Something that is wrong with a handler.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finding<T> {
    /// It failed where nobody made it fail.
    Fails {
        /// When.
        trial: Trial,
        /// The message.
        id: String,
        /// Its error.
        error: String,
    },
    /// Its effects are not those of a clean run: one of them is doubled, missing, or another.
    EffectsDiffer {
        /// When.
        trial: Trial,
        /// After a clean run.
        clean: T,
        /// After this one.
        found: T,
    },
    /// What it does outside of the transaction happened another number of times than in a clean run.
    ActsOutside {
        /// When.
        trial: Trial,
        /// In a clean run.
        clean: u64,
        /// In this one.
        found: u64,
    },
    /// It ended, and its transaction is still held somewhere.
    KeepsTransaction {
        /// The message.
        id: String,
    },
    /// It ended well, and its transaction was already over: it committed it or rolled it back.
    EndsTransaction {
        /// The message.
        id: String,
        /// What the store says.
        error: String,
    },
    /// It ended well although a statement had failed and aborted the transaction.
    HidesFailure {
        /// The message.
        id: String,
        /// What the store says.
        error: String,
    },
    /// The store failed by itself; nothing can be said about the handler.
    Store {
        /// When.
        trial: Trial,
        /// What it says.
        error: String,
    },
}

impl<T: fmt::Debug> fmt::Display for Finding<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fails { trial, id, error } => write!(f, "{trial}, the handler of {id} failed: {error}"),
            Self::EffectsDiffer { trial, clean, found } => {
                write!(f, "{trial}, the effects were {found:?}; a clean run leaves {clean:?}")
            }
            Self::ActsOutside { trial, clean, found } => write!(
                f,
                "{trial}, it acted {found} time(s) outside of the transaction; in a clean run {clean}: \
                 send the idempotency key along"
            ),
            Self::KeepsTransaction { id } => {
                write!(f, "the handler of {id} kept its transaction: do not move `Tx` into a spawned task")
            }
            Self::EndsTransaction { id, error } => {
                write!(f, "the handler of {id} ended the transaction, which is the runner's to end: {error}")
            }
            Self::HidesFailure { id, error } => {
                write!(f, "the handler of {id} hid a statement that failed, return its error: {error}")
            }
            Self::Store { trial, error } => write!(f, "{trial}, the store failed: {error}"),
        }
    }
}
