//! Checkpoints beside rows: they never pass an unfinished delivery, and their span is bounded.

use crate::rig::*;
use inbox_core::*;
use inbox_testkit::*;
use std::{sync::Arc, time::Duration};

fn partition(number: u32) -> Partition {
    Partition { source: Source::new("fake"), number }
}

async fn checkpoint(rig: &Rig, number: u32) -> Option<u64> {
    let found = rig.database.store().checkpoints(&group(), &[partition(number)]).await.unwrap();
    found[0].as_ref().map(|checkpoint| checkpoint.next)
}

/// Asks after every commit whether everything below each checkpoint has a committed row.
fn watch(rig: &Rig, published: Vec<(u32, u64, String)>) {
    let database = rig.database.clone();
    rig.hooks.set().committed = Some(Arc::new(move || {
        let store = database.store();
        let listed = futures_now(async move { store.list_checkpoints(&group(), &Source::new("fake")).await });
        for (partition, checkpoint) in listed.unwrap() {
            for (_, at, id) in published.iter().filter(|(number, ..)| *number == partition.number) {
                let content = Fingerprint::of_payload(Some(id.as_bytes()));
                let is_finished = database.evidence(&group(), id, content).claim.is_some();
                assert!(*at >= checkpoint.next || is_finished, "{} passed {id} at {at}", checkpoint.next);
            }
        }
    }));
}

/// The memory store answers at once.
fn futures_now<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match future.as_mut().poll(&mut context) {
        std::task::Poll::Ready(value) => value,
        std::task::Poll::Pending => panic!("it waits"),
    }
}

#[tokio::test(start_paused = true)]
async fn no_checkpoint_passes_an_unfinished_delivery() {
    for seed in 0..20 {
        let rig = Rig::new(FakeOptions::log().position_step(3).deliveries_max(20));
        let mut published = Vec::new();
        for n in 0..200u64 {
            let (number, id) = ((n % 2) as u32, format!("m{n}"));
            rig.queue.publish(Publish::new(id.clone()).key(format!("k{}", n % 9)).partition(number));
            published.push((number, n / 2 * 3, id));
        }
        watch(&rig, published);
        let script = move |id: &str, attempt| {
            let mut random = fastrand::Rng::with_seed(seed * 1000 + id[1..].parse::<u64>().unwrap());
            match random.u32(0..20) {
                0 => Act::Fail,
                1 => Act::FailCommit,
                2..5 if attempt == 1 => Act::Fail,
                5 if attempt == 1 => Act::Abort,
                _ => Act::Apply,
            }
        };
        let builder = rig.with_checkpoints(script).lanes(4).batch_max(5).in_flight_max(40).seed(seed);
        rig.run(builder).await;
        for number in [0, 1] {
            assert_eq!(checkpoint(&rig, number).await, Some(99 * 3 + 1), "seed {seed}");
            assert_eq!(rig.queue.committed(number), Some(99 * 3 + 1), "seed {seed}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn intake_waits_when_too_much_is_finished_behind_a_stuck_delivery() {
    let rig = Rig::new(FakeOptions::log());
    (0..300).for_each(|n| rig.publish(&format!("{}{n}", if n == 0 { 'a' } else { 'b' })));
    let gate = Gate::new();
    let at_gate = gate.clone();
    let script = move |id: &str, _| if id == "a0" { Act::Wait(at_gate.clone()) } else { Act::Apply };
    let builder = rig.with_checkpoints(script).lanes(2).batch_max(1).in_flight_max(5).handler_timeout(HOUR);
    let (_stop, run, counters) = start(builder);
    pass(Duration::from_secs(60)).await;
    // Sixteen times what may be open.
    assert_eq!(counters.read().received, 80);
    assert_eq!(checkpoint(&rig, 0).await, None);
    gate.open();
    assert_eq!(balanced(ends(run).await.unwrap().unwrap()).applied, 300);
    assert_eq!(checkpoint(&rig, 0).await, Some(300));
}

/// A partition that waits for its checkpoint holds up only itself; when it is lost it waits for nothing.
#[tokio::test(start_paused = true)]
async fn a_full_partition_does_not_hold_up_another() {
    for is_lost in [false, true] {
        let rig = Rig::new(FakeOptions::log().mode(Mode::Log { rebalances: true }));
        let publish = |n: u32, partition, key: &str| {
            rig.queue.publish(Publish::new(format!("{key}{n}")).key(key).partition(partition));
        };
        (0..300).for_each(|n| publish(n, 0, if n == 0 { "a" } else { "b" }));
        publish(0, 1, "c");
        let gate = Gate::new();
        let at_gate = gate.clone();
        let script = move |id: &str, _| if id == "a0" { Act::Wait(at_gate.clone()) } else { Act::Apply };
        let builder = rig.with_checkpoints(script).lanes(2).batch_max(1).in_flight_max(5);
        let (_stop, run, _) = start(builder.handler_timeout(HOUR * 10));
        pass(Duration::from_secs(60)).await;
        if is_lost {
            rig.queue.lose(&[0]);
        }
        (1..200).for_each(|n| publish(n, 1, "c"));
        pass(Duration::from_secs(60)).await;
        assert_eq!(rig.applied_of("c").len(), 200, "lost: {is_lost}");
        assert_eq!(checkpoint(&rig, 1).await, Some(200));
        gate.open();
        pass(Duration::from_secs(60)).await;
        if is_lost {
            rig.queue.assign(&[0]);
        }
        balanced(ends(run).await.unwrap().unwrap());
        assert_eq!(rig.database.counter(COUNTER), 500);
        assert_eq!(checkpoint(&rig, 0).await, Some(300));
    }
}

/// After a partition has come back, the watermark begins at the checkpoint, not at where it was.
#[tokio::test(start_paused = true)]
async fn a_partition_that_comes_back_begins_at_its_checkpoint() {
    let options = FakeOptions::log().mode(Mode::Log { rebalances: true }).ack(AckStrength::Checkpoint);
    let rig = Rig::new(options.end(End::OnDemand));
    ["a1", "a2", "b1", "a3"].iter().for_each(|id| rig.publish(id));
    let gate = Gate::new();
    let at_gate = gate.clone();
    let script = move |id: &str, _| if id == "b1" { Act::Wait(at_gate.clone()) } else { Act::Apply };
    let (_stop, run, counters) = start(rig.with_checkpoints(script).lanes(2).batch_max(1));
    gate.reached().await;
    pass(Duration::from_secs(10)).await;
    assert_eq!(checkpoint(&rig, 0).await, Some(2), "b1 is open, a3 behind it is finished");
    rig.queue.lose(&[0]);
    rig.queue.assign(&[0]);
    pass(Duration::from_secs(10)).await;
    assert_eq!(counters.read().received, 6, "b1 and a3 came again");
    assert_eq!(checkpoint(&rig, 0).await, Some(2));
    gate.open();
    pass(Duration::from_secs(10)).await;
    assert_eq!(checkpoint(&rig, 0).await, Some(4));
    rig.publish("a4");
    pass(Duration::from_secs(10)).await;
    rig.queue.end();
    let summary = balanced(ends(run).await.unwrap().unwrap());
    assert_eq!((summary.applied, summary.duplicates), (5, 2));
    assert_eq!(checkpoint(&rig, 0).await, Some(5));
}
