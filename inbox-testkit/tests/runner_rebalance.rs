//! Partitions that are taken away and come back.

use crate::rig::*;
use inbox_core::*;
use inbox_testkit::*;
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

fn log() -> Rig {
    Rig::new(FakeOptions::log().mode(Mode::Log { rebalances: true }).redeliver_after(None))
}

/// One lane is stuck with a1; a2, b1 and b2 wait.
async fn stuck_with_a1(act: fn(Gate) -> Act) -> (Rig, Gate, Run, std::sync::Arc<Counters>) {
    let rig = log();
    ["a1", "a2", "b1", "b2"].iter().for_each(|id| rig.publish(id));
    let gate = Gate::new();
    let at_gate = gate.clone();
    let calls = std::sync::atomic::AtomicU32::new(0);
    let script = move |id: &str, _| match id {
        "a1" if calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 0 => act(at_gate.clone()),
        _ => Act::Apply,
    };
    let (stop, run, counters) = start(rig.builder(script).batch_max(1).handler_timeout(HOUR * 100));
    // Nobody stops it.
    drop(stop);
    gate.reached().await;
    (rig, gate, run, counters)
}

#[tokio::test(start_paused = true)]
async fn queued_work_is_dropped_and_started_work_is_finished_before_the_hand_over() {
    let (rig, gate, run, counters) = stuck_with_a1(Act::Wait).await;
    rig.queue.revoke(&[0], MINUTE);
    pass(MINUTE / 2).await;
    assert_eq!(counters.read().released, 3);
    gate.open();
    pass(Duration::from_secs(1)).await;
    // It was acknowledged before the partition went, and nothing else was started.
    assert_eq!(rig.queue.committed(0), Some(1));
    assert_eq!((rig.applied(), counters.read().stale), (vec!["a1".to_owned()], 0));
    rig.queue.assign(&[0]);
    let summary = balanced(ends(run).await.unwrap().unwrap());
    assert_eq!((summary.received, summary.applied, summary.released), (7, 4, 3));
    assert_eq!(rig.applied_of("a"), ["a1", "a2"]);
}

#[tokio::test(start_paused = true)]
async fn the_deadline_hands_over_and_a_late_end_does_no_harm() {
    for (act, applied, duplicates) in [(Act::Wait as fn(Gate) -> Act, 4, 1), (Act::WaitAndFail, 4, 0)] {
        let (rig, gate, run, counters) = stuck_with_a1(act).await;
        rig.queue.revoke(&[0], MINUTE);
        pass(MINUTE * 2).await;
        rig.queue.assign(&[0]);
        pass(MINUTE).await;
        // All came again; what is new of a waits for the first a1.
        assert_eq!(counters.read().received, 8);
        gate.open();
        let summary = balanced(ends(run).await.unwrap().unwrap());
        assert_eq!((summary.applied, summary.duplicates), (applied, duplicates), "{summary:?}");
        assert_eq!(summary.stale, duplicates, "the late settlement changed nothing");
        assert_eq!(rig.applied_of("a"), ["a1", "a2"]);
        assert_eq!(rig.applied_of("b"), ["b1", "b2"]);
        assert_eq!(rig.database.counter(COUNTER), 4);
        assert!(rig.queue.is_settled());
    }
}

#[tokio::test(start_paused = true)]
async fn lost_partitions_are_not_waited_for() {
    for act in [Act::Wait as fn(Gate) -> Act, Act::WaitAndFail] {
        let (rig, gate, run, counters) = stuck_with_a1(act).await;
        rig.queue.lose(&[0]);
        pass(Duration::from_secs(1)).await;
        assert_eq!(counters.read().released, 3);
        rig.queue.assign(&[0]);
        pass(Duration::from_secs(1)).await;
        assert_eq!(counters.read().received, 8);
        gate.open();
        balanced(ends(run).await.unwrap().unwrap());
        assert_eq!(rig.applied_of("a"), ["a1", "a2"]);
        assert_eq!(rig.database.counter(COUNTER), 4);
    }
}

/// A retry whose time has come waits for a lane while its partition is lost: its key must not stay shut.
#[tokio::test(start_paused = true)]
async fn a_key_is_not_held_by_a_retry_that_was_lost() {
    // The retry is due and waits for a lane; or it is not due yet.
    for wait in [Duration::from_secs(1), HOUR] {
        let rig = log();
        rig.publish("a1");
        rig.publish("a2");
        rig.queue.publish(Publish::new("b1").key("b").partition(1));
        rig.queue.publish(Publish::new("a9").key("a").partition(1));
        let gate = Gate::new();
        let at_gate = gate.clone();
        let calls = std::sync::atomic::AtomicU32::new(0);
        let script = move |id: &str, _| match id {
            "a1" if calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 0 => Act::FailFor(wait),
            "b1" => Act::Wait(at_gate.clone()),
            _ => Act::Apply,
        };
        let (_stop, run, counters) = start(rig.builder(script).batch_max(1).handler_timeout(HOUR * 100));
        gate.reached().await;
        pass(MINUTE).await;
        assert_eq!(counters.read().failed_attempts, 1);
        rig.queue.lose(&[0]);
        pass(MINUTE).await;
        gate.open();
        pass(MINUTE).await;
        assert_eq!(rig.applied(), ["b1", "a9"]);
        rig.queue.assign(&[0]);
        let summary = balanced(ends(run).await.unwrap().unwrap());
        assert_eq!((summary.applied, summary.released), (4, 2));
        assert_eq!(rig.applied_of("a"), ["a9", "a1", "a2"]);
    }
}

/// The first of two copies is lost while it waits: the second takes its place before what came after it.
#[tokio::test(start_paused = true)]
async fn a_copy_that_steps_in_keeps_its_place() {
    let rig = log();
    rig.publish("a1");
    for id in ["a1", "a2"] {
        rig.queue.publish(Publish::new(id).key("a").partition(1));
    }
    let (_stop, run, _) =
        start(rig.builder(
            |_, attempt| {
                if attempt == 1 { Act::FailFor(Duration::from_secs(5)) } else { Act::Apply }
            },
        ));
    pass(Duration::from_secs(1)).await;
    rig.queue.lose(&[0]);
    pass(MINUTE).await;
    assert_eq!(rig.applied(), ["a1", "a2"]);
    rig.queue.assign(&[0]);
    let summary = balanced(ends(run).await.unwrap().unwrap());
    assert_eq!((summary.applied, summary.duplicates), (2, 1));
}

/// A rebalance during an outage of the store does not wait for its end.
#[tokio::test(start_paused = true)]
async fn partitions_go_during_an_outage() {
    let rig = log();
    ["a1", "b1"].iter().for_each(|id| rig.publish(id));
    rig.database.set_available(false);
    let builder = rig.builder(|_, _| Act::Apply).outage_backoff(Backoff::new(HOUR, HOUR));
    let (_stop, run, counters) = start(builder);
    pass(MINUTE).await;
    rig.queue.revoke(&[0], HOUR * 10);
    pass(MINUTE).await;
    assert_eq!(counters.read().released, 2);
    rig.database.set_available(true);
    rig.queue.assign(&[0]);
    balanced(ends(run).await.unwrap().unwrap());
    assert_eq!(rig.database.counter(COUNTER), 2);
}
