//! The runner: takes deliveries from a broker through the state machine, with a handler and a store.
//!
//! One task, the *coordinator*, owns the broker and all that is known about open deliveries; *lanes*
//! run units of work, one at a time each, in tasks of their own that are never aborted.
//!
//! # Log events
//! Everything is logged with the target `inbox`. The fields `group`, `id`, `attempt` and `error` and these names
//! are stable. Handlers run inside a span `handle` with `id` and `attempt`, batch handlers inside `handle_batch` with
//! `messages`.
//!
//! | event | level | fields beside `group` | when |
//! |---|---|---|---|
//! | `attempt failed` | warn | `id`, `attempt`, `permanent`, `error` | a handler failed |
//! | `commit in doubt` | warn | `error` | the reply to a commit was lost |
//! | `commit still in doubt` | warn | `error` | the store could not be asked what became of it |
//! | `store out of reach` | warn | `error`, `wait` | the run pauses and tries again |
//! | `broker failed` | warn | `error`, `wait` | the broker is asked again later |
//! | `settlement failed` | warn | `error` | an acknowledgement did not arrive; redelivery is found |
//! | `suspect handled alone` | debug | `id`, `starts` | a message that may kill is started, and that is marked |
//! | `suspect given up` | warn | `id`, `starts` | it was started too often and becomes a letter |
//! | `breaker opened` | warn | `messages` | distinct messages keep failing: intake pauses |
//! | `breaker closed` | info | | a message was applied again |
//! | `unclean end before` | warn | `open_max` | the run before did not close its entry in the attempt log |
//! | `checkpoint is stuck` | warn | `partition`, `error` | a delivery cannot enter the watermark |
//! | `recording a failure failed` | warn | `id`, `error` | a kept message is due again at once |
//! | `draining` | debug | `open`, `waiting` | a shutdown was asked for |
//! | `shutdown deadline passed` | warn | | handlers are dropped and rolled back |
//! | `an observer panicked` | error | `id` | it is ignored |
//! | `the broker panicked while settling` | error | | those settlements count as failed |

mod breaker;
mod builder;
mod control;
mod coordinator;
mod counters;
mod lane;
mod partitions;
mod progress;
mod suspects;
mod telemetry;
mod transaction;
mod unit;

pub use builder::{BuildError, Runner, RunnerBuilder, StoreParts, Strategy, Work};
pub use control::Control;
pub use counters::{Counters, Summary};
pub(crate) use progress::Place;
pub(crate) use suspects::Suspicion;

use crate::{Broker, BrokerError, ClaimKey, Defect, InboxStore, Message, Partition, Position, StoreError};
use std::future::Future;

/// Why a run ended before its source did.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// A message used up its attempts and the policy is to halt. It is not acknowledged.
    #[error("message {id} {} and the policy is to halt: {error}", failed_text(*.attempts))]
    Halted {
        /// What the message is claimed under.
        id: ClaimKey,
        /// How often its handler was started.
        attempts: u32,
        /// The last error.
        error: String,
    },
    /// A record has no usable id and the policy is to halt. It is not acknowledged.
    #[error(
        "{partition}{} has no usable id and the policy is to halt: {why}",
        .position.map(|position| format!(" at {}", position.at)).unwrap_or_default()
    )]
    Unidentified {
        /// The partition it stands in.
        partition: Partition,
        /// Where it stands there, when the broker has positions.
        position: Option<Position>,
        /// What it would have been claimed under as a letter.
        id: ClaimKey,
        /// What is wrong.
        why: Defect,
    },
    /// A message cannot be recorded because the store keeps no letters.
    #[error("message {id} cannot be recorded ({why}): the store keeps no letters; use one that does")]
    NoLetters {
        /// What the message is claimed under.
        id: ClaimKey,
        /// What was to be recorded.
        why: String,
    },
    /// A message type has no route and the router's policy is to halt.
    #[error("message {id} has {}, and the policy is to halt", type_text(.message_type))]
    UnknownType {
        /// What the message is claimed under.
        id: ClaimKey,
        /// Its type, if it has one.
        message_type: Option<String>,
    },
    /// The store failed in a way that waiting cannot mend.
    #[error("{doing}: {}", crate::chain_text(.error))]
    Store {
        /// What was being done, to which store.
        doing: String,
        /// The store's error.
        error: StoreError,
    },
    /// The broker failed in a way that waiting cannot mend.
    #[error("{}", crate::chain_text(.0))]
    Broker(BrokerError),
    /// A unit of work vanished: the store dropped it, or it panicked outside of a handler.
    #[error("a unit of work vanished: the store dropped it or it panicked outside of a handler")]
    UnitLost,
}

fn failed_text(attempts: u32) -> String {
    match attempts {
        0 => "cannot be handled".to_owned(),
        attempts => format!("failed {attempts} time(s)"),
    }
}

fn type_text(message_type: &Option<String>) -> String {
    message_type
        .as_ref()
        .map_or("no type".to_owned(), |named| format!("the type {named:?}, which has no route"))
}

impl RunError {
    fn unidentified(message: &Message, why: &Defect) -> Self {
        Self::Unidentified {
            partition: message.partition().clone(),
            position: message.position(),
            id: message.claim_key().clone(),
            why: why.clone(),
        }
    }
}

impl<B: Broker, S: InboxStore> Runner<B, Work<S>> {
    /// Runs until the source ends.
    ///
    /// # Errors
    /// [`RunError`].
    pub async fn run(self) -> Result<Summary, RunError> {
        self.run_until(std::future::pending()).await
    }

    /// Runs until the source ends or `shutdown` resolves. Then it takes nothing more in, finishes what
    /// has started within the shutdown time-out, gives back the rest, and never cuts a commit.
    ///
    /// Not cancel-safe in the sense of an orderly end: dropping the future abandons what is open, as a
    /// crash does. Nothing is lost or doubled by that.
    ///
    /// # Errors
    /// [`RunError`]; what was committed until then stays and is acknowledged.
    pub async fn run_until(self, shutdown: impl Future<Output = ()>) -> Result<Summary, RunError> {
        coordinator::run(self, shutdown).await
    }
}
