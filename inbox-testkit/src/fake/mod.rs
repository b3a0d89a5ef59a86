//! A broker in memory whose state outlives its consumers.

mod broker;
mod chaos;
mod deliver;
mod log;
mod look;
mod options;
mod publish;
mod queue;
mod ready;
mod settle;
mod state;

pub use broker::{FakeAck, FakeBroker, FakeReceipt};
pub use chaos::Chaos;
pub use options::{Cumulative, End, FakeOptions, Mode};
pub use publish::Publish;
pub use queue::FakeQueue;
pub use state::LostAnswer;
