//! What the builder refuses, and in which words.

use crate::rig::*;
use inbox_core::*;
use inbox_testkit::*;
use std::time::Duration;

fn refusal(change: impl FnOnce(Builder) -> Builder) -> String {
    let rig = Rig::with(&[]);
    change(rig.builder(|_, _| Act::Apply)).build().unwrap_err().to_string()
}

#[test]
fn numbers_have_bounds() {
    let retry = |attempts| RetryPolicy::default().attempts_max(attempts);
    assert_eq!(refusal(|b| b.batch_max(0)), "option `batch_max` is 0; it has to be 1 to 10,000");
    assert_eq!(refusal(|b| b.batch_max(10_001)), "option `batch_max` is 10001; it has to be 1 to 10,000");
    assert_eq!(refusal(|b| b.lanes(0)), "option `lanes` is 0; it has to be 1 to 1,024");
    assert_eq!(refusal(|b| b.lanes(1025)), "option `lanes` is 1025; it has to be 1 to 1,024");
    assert_eq!(refusal(|b| b.in_flight_max(0)), "option `in_flight_max` is 0; it has to be at least 1");
    assert_eq!(
        refusal(|b| b.in_flight_bytes_max(0)),
        "option `in_flight_bytes_max` is 0; it has to be at least 1"
    );
    assert_eq!(refusal(|b| b.retry(retry(0))), "option `attempts_max` is 0; it has to be at least 1");
    assert_eq!(
        refusal(|b| b.handler_timeout(Duration::ZERO)),
        "option `handler_timeout` is 0 s; it has to be more than nothing"
    );
    let rig = Rig::with(&[]);
    assert!(rig.builder(|_, _| Act::Apply).batch_max(10_000).lanes(1024).retry(retry(1)).build().is_ok());
}

#[test]
fn groups_are_checked() {
    let refused = |group: &str| {
        let rig = Rig::with(&[]);
        let builder = Runner::builder(group).broker(rig.queue.connect()).store(rig.store());
        builder.handler(rig.handler(|_, _| Act::Apply)).build().unwrap_err().to_string()
    };
    assert_eq!(refused(""), "consumer group \"\": it is empty");
    assert_eq!(refused("a\0"), "consumer group \"a\\0\": it contains a NUL character");
    let shown = "é".repeat(80);
    assert_eq!(
        refused(&"é".repeat(200)),
        format!("consumer group {shown:?}: it is 400 bytes long; the limit is 255")
    );
}

#[test]
fn checkpoints_need_positions_and_brokers_without_progress_need_checkpoints() {
    let rig = Rig::with(&[]);
    let refused = rig.with_checkpoints(|_, _| Act::Apply).build().unwrap_err();
    assert_eq!(refused, BuildError::NotPositional { option: "checkpoints" });
    assert_eq!(
        refused.to_string(),
        "option `checkpoints`: this broker's deliveries have no lasting positions"
    );
    let rig = Rig::new(FakeOptions::log());
    let lossy = rig.with_checkpoints(|_, _| Act::Apply).strategy(Strategy::AtMostOnce);
    assert_eq!(lossy.build().unwrap_err(), BuildError::NoCheckpoints);
    let rig = Rig::new(FakeOptions::log().ack(AckStrength::Checkpoint));
    let refused = rig.builder(|_, _| Act::Apply).build().unwrap_err();
    assert_eq!(refused, BuildError::NeedsCheckpoints);
    assert_eq!(
        refused.to_string(),
        "this broker keeps no progress of its own: add `.checkpoints()`, with a store that keeps them"
    );
    assert!(rig.with_checkpoints(|_, _| Act::Apply).build().is_ok());
}
