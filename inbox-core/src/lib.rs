//! The transactional inbox: one observable effect per message on top of brokers that deliver at least
//! once.
//!
//! This crate knows no driver. It holds the [contract of brokers](Broker), the [contract of
//! stores](InboxStore), the [state machine](machine) between them and the runner.

pub mod machine;

mod attempt_log;
mod batch_handler;
mod broker;
mod checkpoint;
mod extract;
mod failure;
mod fingerprint;
mod handler;
mod identify;
mod identity;
mod json;
mod key_queues;
mod letters;
mod message;
mod middleware;
#[cfg(feature = "planted-mutants")]
#[doc(hidden)]
pub mod mutant;
#[cfg(not(feature = "planted-mutants"))]
mod mutant;
mod observer;
mod probe;
mod router;
mod runner;
mod store;
mod stored;
mod stored_messages;
mod tx;
mod watermark;

pub use attempt_log::AttemptLog;
pub use batch_handler::{BatchHandler, Item};
pub use broker::{
    Ack, AckError, AckStrength, Assignment, Broker, BrokerError, Capabilities, Credit, Delivery, Event,
    Order, Revocation, Settled,
};
pub use checkpoint::{Checkpoint, CheckpointMove, Checkpoints, MoveRule, Moved, RecordMark};
pub use extract::{Attempt, FromRef, IdempotencyKey, Json, Key, State, TimestampMs};
pub use failure::{Backoff, Exhausted, Failure, RetryPolicy, chain_text};
pub use fingerprint::{FINGERPRINT_BYTES, Fingerprint, FingerprintOf, OwnFingerprint, OwnVersionError};
pub use handler::{Call, Context, FromMessage, Handler, Undecodable, WithState, with_state};
pub use identify::{Defect, IdFrom, Identity, MissingId};
pub use identity::{ClaimKey, Group, MessageId, NAME_BYTES_MAX, NameError, RESERVED_SCOPE_PREFIX, Scope};
pub use json::{JsonPointer, PointerError};
pub use letters::{
    Conflict, ERROR_BYTES_MAX, GroupStats, Inspect, Letter, LetterReason, Letters, Page, StoredConflict,
    StoredLetter, cut_error,
};
pub use machine::{
    Answer, Claimed, CommitFailed, Conflicting, Doubt, Finished, Found, Received, Resolved, Settlement,
    StepFailed, Unit, Verdict,
};
pub use message::{Headers, Inbound, Message, Partition, Position, Source};
pub use middleware::{Middleware, Next};
pub use observer::{Observed, Observer};
pub use probe::{Probe, ProbePoint};
pub use router::{Router, TypeFrom, Unknown};
pub use runner::{
    BuildError, Control, Counters, RunError, Runner, RunnerBuilder, StoreParts, Strategy, Summary, Work,
};
pub use store::{
    Claim, ClaimRequest, CommitError, Disposition, FaultClass, InboxStore, Resolution, StoreError, TxLimits,
};
pub use stored::{StoredInbox, StoredMessage};
pub use stored_messages::{StoredAck, StoredMessages};
pub use tx::Tx;
pub use watermark::{Passed, Ticket, Watermark, WatermarkError};
