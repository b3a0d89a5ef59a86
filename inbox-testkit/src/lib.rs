//! What the transactional inbox is tested with, for its own tests and for those who write a broker, a
//! store or a runner of their own.
//!
//! - [`FakeQueue`] is a broker in memory, as a queue or as a log. Its state outlives its consumers
//!   ([`FakeBroker`]), so a test can drop everything else, as a crash does.
//! - [`MemoryDatabase`] and [`MemoryStore`] are the reference store: real transactions, real waiting.
//!   [`apply_effect`] is the effect under test, which is never idempotent by itself.
//! - [`CrashPlan`] counts the calls of a run. [`schedules`] makes every single fault of a run out of the
//!   calls that a run without faults made; [`CrashStore`] and [`CrashBroker`] let it happen, and
//!   [`live`] runs one life of a process and drops it.
//! - [`RecordingBroker`] writes a [`History`], in which each acknowledgement stands beside what the
//!   database had committed at that moment, as a [`Witness`] outside the run saw it.
//! - [`Oracle`] judges history and [`FinalState`] against what was [`Expected`], one function per promise.
//! - [`suite`] holds what every store and every broker has to pass, a test per promise:
//!   [`store_suite!`] and [`broker_suite!`].
//! - [`ClaimElsewhere`], [`LyingCommit`], [`TwistedClaims`], [`SpoiltStore`], [`SpoiltBroker`] and
//!   [`Cumulative::PlantedHighest`] are planted faults: a suite that lets them pass is blind.
//! - `servers` (a feature) has private servers and a proxy, for tests of backends against real ones.
//! - [`scaled`] makes the long tests of a run longer or shorter.
//! - [`conformance`] holds the clauses of store abilities as tests, for the stores' own crates to call.
//!
//! All of it is deterministic: time is tokio's, randomness is a seeded generator handed in.
//!
//! ```
//! use inbox_core::Group;
//! use inbox_testkit::*;
//!
//! let (queue, database) = (FakeQueue::new(FakeOptions::queue()), MemoryDatabase::new());
//! queue.publish(Publish::new("m-1").key("a"));
//!
//! let group = Group::new("billing")?;
//! let history = History::new(database.witness(&group));
//! let plan = CrashPlan::at(3, Reaction::CrashReplyLost).recorded(&history);
//! let broker = CrashBroker::new(RecordingBroker::fake(queue.connect(), &history), &plan);
//! let store = CrashStore::new(database.store(), &plan);
//! let life = live(&plan, async move {
//!     // Here a runner consumes from `broker` into `store`, until the broker says that it has ended.
//!     drop((broker, store));
//! })?;
//! assert_eq!(life, Life::Ended(()));
//!
//! let expected = Expected::new().applied("m-1", Some("a"));
//! let state = FinalState::of(&database, &group).and_queue(&queue);
//! let violation = Oracle::check(&history.entries(), &expected, &state).unwrap_err();
//! assert_eq!(violation.to_string(), "G1: m-1 must be Applied and has 0 effects");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod check;
pub mod conformance;
mod crash;
mod delegate;
mod enumeration;
mod evidence;
mod fake;
mod history;
mod lock;
mod memory;
mod oracle;
mod recording;
mod saboteurs;
mod scale;
#[cfg(feature = "servers")]
pub mod servers;
pub mod simulation;
pub mod suite;

pub use crash::{
    Call, CrashAck, CrashBroker, CrashPlan, CrashStore, Life, PlannedFailure, Reaction, Schedule, live,
    schedules,
};
pub use enumeration::{Caught, ConnectionOf, Enumeration, Outcome, POISON, STRATEGIES, World};
pub use evidence::{Evidence, Witness};
pub use fake::{
    Chaos, Cumulative, End, FakeAck, FakeBroker, FakeOptions, FakeQueue, FakeReceipt, LostAnswer, Mode,
    Publish,
};
pub use history::{Entry, History};
pub use memory::{
    COUNTER, ClaimRow, EFFECTS, EffectRow, MemoryConnection, MemoryDatabase, MemoryError, MemoryStore,
    MemoryTx, apply_effect,
};
pub use oracle::{
    Expected, Fate, FinalState, Guarantee, INVARIANTS, Invariant, Oracle, Violation, acknowledged_with_proof,
    applied_once, atomic, conflicts_recorded, discarded_with_letter, duplicates_do_not_run, nothing_covered,
    nothing_lost, order_kept,
};
pub use recording::{RecordingAck, RecordingBroker};
pub use saboteurs::{
    BrokerFault, ClaimElsewhere, Late, LyingCommit, SpoiltAck, SpoiltBroker, SpoiltStore, StoreFault,
    TwistedClaims,
};
pub use scale::scaled;
