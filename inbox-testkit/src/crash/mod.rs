//! Crashes and faults at the k-th call.

mod broker;
mod life;
mod plan;
mod reaction;
mod store;

pub use broker::{CrashAck, CrashBroker};
pub use life::{Life, live};
pub use plan::{CrashPlan, PlannedFailure};
pub use reaction::{Call, Reaction, Schedule, schedules};
pub use store::CrashStore;
