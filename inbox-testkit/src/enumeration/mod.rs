//! Faults of a small run through the real runner, over any store: every single one, and every pair.

mod cases;
mod life;
mod schedules;

pub use cases::STRATEGIES;
pub use schedules::{Caught, Outcome};

use crate::{Expected, FakeOptions, FinalState, Mode, Publish, Witness};
use inbox_core::{
    AttemptLog, Checkpoints, Failure, Fingerprint, Group, InboxStore, Message, StoredInbox, Strategy,
};
use std::{fmt, ops::Deref};

/// What a handler is lent by `W`'s store, as the driver's connection.
pub type ConnectionOf<W> = <<<W as World>::Store as InboxStore>::Tx as Deref>::Target;

/// A database that outlives the lives of a process, and how to look into it from outside.
pub trait World: Send + Sync + 'static {
    /// The store under test.
    type Store: StoredInbox + Checkpoints + AttemptLog;

    /// A new handle on the same database, as a process makes it when it starts.
    fn open(&self) -> Self::Store;

    /// Looks at what is committed, not through the store under test.
    fn witness(&self, group: &Group) -> Witness;

    /// Everything that is committed at the end.
    fn state(&self, group: &Group) -> FinalState;

    /// The effect under test: a row in a table without a key, and a counter raised by one.
    ///
    /// # Errors
    /// The driver's.
    fn apply(connection: &mut ConnectionOf<Self>, message: &Message) -> Result<(), Failure>
    where
        Self: Sized;
}

/// The payload whose handler always fails, behind a half done effect.
pub const POISON: &str = "poison";

/// A small run, to be lived through with faults.
#[derive(Debug, Clone)]
pub struct Enumeration {
    /// The broker.
    pub broker: FakeOptions,
    /// When messages are acknowledged.
    pub strategy: Strategy,
    /// How many messages one transaction takes at most.
    pub batch_max: usize,
    /// Whether the position of the source is kept in the store, too.
    pub with_checkpoints: bool,
    /// Whether somebody else holds the claim of the first message for a while, and gives it up.
    pub with_rival: bool,
    /// Whether suspects are handled alone, with their starts marked.
    pub with_attempt_log: bool,
    /// What is published, in this order.
    pub input: Vec<Publish>,
    /// What has to come out under the strategy exactly once.
    pub expected: Expected,
}

impl Enumeration {
    fn of(broker: FakeOptions, batch_max: usize, input: Vec<Publish>, expected: Expected) -> Self {
        Self {
            broker,
            strategy: Strategy::ExactlyOnce,
            batch_max,
            with_checkpoints: false,
            with_rival: false,
            with_attempt_log: false,
            input,
            expected,
        }
    }

    /// Six deliveries with a duplicate, a conflict and a message that always fails, between two keys.
    pub fn of_everything(broker: FakeOptions, batch_max: usize) -> Self {
        let other = "other content";
        let input = vec![
            Publish::new("a1").key("a"),
            Publish::new("b1").key("b"),
            Publish::new("a1").key("a"),
            Publish::new("a2").key("a").payload(POISON),
            Publish::new("b1").key("b").payload(other),
            Publish::new("a3").key("a"),
        ];
        let expected = Expected::new()
            .applied("a1", Some("a"))
            .applied("b1", Some("b"))
            .dead("a2", Some("a"))
            .applied("a3", Some("a"))
            .conflict("b1", Fingerprint::of_payload(Some(other.as_bytes())));
        Self::of(broker, batch_max, input, expected)
    }

    /// Four messages and a duplicate, nothing that fails.
    pub fn of_good_messages(broker: FakeOptions, batch_max: usize) -> Self {
        let good = |id: &str, key: &str| Publish::new(id).key(key);
        let input = vec![good("a1", "a"), good("b1", "b"), good("a1", "a"), good("a2", "a"), good("b2", "b")];
        let expected = Expected::new()
            .applied("a1", Some("a"))
            .applied("b1", Some("b"))
            .applied("a2", Some("a"))
            .applied("b2", Some("b"));
        Self::of(broker, batch_max, input, expected)
    }

    /// The same with checkpoints.
    #[must_use]
    pub fn with_checkpoints(self) -> Self {
        Self { with_checkpoints: true, ..self }
    }

    /// The same with an attempt log.
    #[must_use]
    pub fn with_attempt_log(self) -> Self {
        Self { with_attempt_log: true, ..self }
    }

    /// The same under another strategy. What has to come out follows.
    #[must_use]
    pub fn under(self, strategy: Strategy) -> Self {
        Self { strategy, ..self }
    }

    /// The same with somebody else who holds the first claim for a while in each life.
    #[must_use]
    pub fn with_rival(self) -> Self {
        Self { with_rival: true, ..self }
    }
}

/// Strategy, broker and batch: the name under which tests pin numbers.
impl fmt::Display for Enumeration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let strategy = match self.strategy {
            Strategy::ExactlyOnce => "exactly once",
            Strategy::AtLeastOnce => "at least once",
            Strategy::OnPersist => "on persist",
            Strategy::AtMostOnce => "at most once",
            _ => "another strategy",
        };
        let broker = match (self.broker.mode, self.broker.revoke_after) {
            (Mode::Queue, _) => "queue",
            (Mode::Log { rebalances: false }, _) => "log",
            (Mode::Log { rebalances: true }, None) => "assigned log",
            (Mode::Log { rebalances: true }, Some((_, wait))) if wait.is_zero() => "log taken away",
            (Mode::Log { rebalances: true }, Some(_)) => "log revoked",
        };
        write!(f, "{strategy}, {broker}")?;
        if self.with_checkpoints {
            f.write_str(" with checkpoints")?;
        }
        if self.with_rival {
            f.write_str(" with a rival")?;
        }
        if self.with_attempt_log {
            f.write_str(" with an attempt log")?;
        }
        write!(f, ", batches of {}", self.batch_max)
    }
}
