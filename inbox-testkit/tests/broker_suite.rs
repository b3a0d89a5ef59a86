//! The fake broker in its modes, and the wrappers around it, pass the broker suite.

use crate::harness::broker::OverFake;
use inbox_core::{AckStrength, Broker};
use inbox_testkit::*;

/// A log whose partitions are assigned and whose progress is the consumer's checkpoint.
fn checkpointed() -> FakeOptions {
    FakeOptions::log().mode(Mode::Log { rebalances: true }).ack(AckStrength::Checkpoint)
}

mod queue {
    use super::*;
    broker_suite!(paused, OverFake::new(FakeOptions::queue().counts_deliveries(true), |broker| broker));
}

mod endless_queue {
    use super::*;
    broker_suite!(paused, OverFake::new(FakeOptions::queue().end(End::OnDemand), |broker| broker));
}

mod queue_in_real_time {
    use super::*;
    broker_suite!(OverFake::new(FakeOptions::queue().deliveries_max(2), |broker| broker));
}

mod log {
    use super::*;
    broker_suite!(paused, OverFake::new(FakeOptions::log().position_step(7), |broker| broker));
}

mod rebalancing_log {
    use super::*;
    broker_suite!(
        paused,
        OverFake::new(FakeOptions::log().mode(Mode::Log { rebalances: true }), |broker| broker)
    );
}

mod checkpointed_log {
    use super::*;
    broker_suite!(paused, OverFake::new(checkpointed(), |broker| broker));
}

fn recorded<B: Broker<Receipt = FakeReceipt>>(broker: B) -> RecordingBroker<B> {
    let history = History::new(MemoryDatabase::new().witness(&inbox_core::Group::new("any").unwrap()));
    RecordingBroker::new(broker, &history, ToString::to_string)
}

mod recording_broker {
    use super::*;
    broker_suite!(paused, OverFake::new(FakeOptions::queue(), recorded));
}

mod crash_broker {
    use super::*;
    broker_suite!(
        paused,
        OverFake::new(FakeOptions::log(), |broker| CrashBroker::new(recorded(broker), &CrashPlan::dry()))
    );
}
