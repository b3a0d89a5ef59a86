//! What is taken in is bounded, and a run that may take nothing in does not spin.

use crate::rig::*;
use inbox_core::*;
use inbox_testkit::*;
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

fn stuck() -> (Gate, impl Fn(&str, u32) -> Act) {
    let gate = Gate::new();
    let at_gate = gate.clone();
    (gate, move |_: &str, _| Act::Wait(at_gate.clone()))
}

#[tokio::test(start_paused = true)]
async fn open_deliveries_are_bounded_in_number() {
    let rig = Rig::new(FakeOptions::queue().redeliver_after(None));
    (0..100_000).for_each(|n| rig.publish(&format!("{}{n}", n % 7)));
    let (gate, script) = stuck();
    let (stop, run, counters) = start(rig.builder(script).in_flight_max(50).batch_max(10).lanes(3));
    gate.reached().await;
    pass(Duration::from_secs(20)).await;
    assert_eq!(counters.read().received, 50);
    stop.send(()).unwrap();
    gate.open();
    balanced(ends(run).await.unwrap().unwrap());
}

#[tokio::test(start_paused = true)]
async fn open_deliveries_are_bounded_in_bytes() {
    let rig = Rig::new(FakeOptions::queue().redeliver_after(None));
    (0..1000).for_each(|n| rig.queue.publish(Publish::new(format!("{n}")).payload([b'x'; 100])));
    let (gate, script) = stuck();
    let (stop, run, counters) = start(rig.builder(script).in_flight_bytes_max(1000));
    gate.reached().await;
    pass(Duration::from_secs(20)).await;
    assert_eq!(counters.read().received, 10);
    stop.send(()).unwrap();
    gate.open();
    balanced(ends(run).await.unwrap().unwrap());
}

#[tokio::test(start_paused = true)]
async fn deliveries_larger_than_the_bound_flow_one_at_a_time() {
    let rig = Rig::new(FakeOptions::queue().redeliver_after(None));
    (0..3).for_each(|n| rig.queue.publish(Publish::new(format!("{n}")).payload([b'x'; 5000])));
    let (gate, script) = stuck();
    let (_stop, run, counters) = start(rig.builder(script).in_flight_bytes_max(1000));
    gate.reached().await;
    pass(Duration::from_secs(20)).await;
    assert_eq!(counters.read().received, 1);
    gate.open();
    assert_eq!(balanced(ends(run).await.unwrap().unwrap()).applied, 3);
}

#[tokio::test(start_paused = true)]
async fn one_deliveries_room_is_enough() {
    let rig = Rig::new(FakeOptions::queue().redeliver_after(None));
    (0..50).for_each(|n| rig.publish(&format!("{}{n}", n % 3)));
    let summary = rig.run(rig.builder(|_, _| Act::Apply).in_flight_max(1).lanes(4)).await;
    assert_eq!((summary.applied, summary.commits), (50, 50));
}

/// Counts how often it is asked.
struct Asked(FakeBroker, Arc<AtomicUsize>);

#[async_trait::async_trait]
impl Broker for Asked {
    type Receipt = FakeReceipt;
    type Ack = FakeAck;

    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn ack_handle(&self) -> FakeAck {
        self.0.ack_handle()
    }

    async fn next(&mut self, credit: &Credit) -> Result<Event<FakeReceipt>, BrokerError> {
        self.1.fetch_add(1, Relaxed);
        self.0.next(credit).await
    }

    async fn close(self, by: tokio::time::Instant) -> Result<(), BrokerError> {
        self.0.close(by).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_without_credit_does_not_spin() {
    let rig = Rig::with(&["a1", "b1", "c1", "d1"]);
    let asked = Arc::new(AtomicUsize::new(0));
    let (gate, script) = stuck();
    let runner = Runner::builder("billing")
        .broker(Asked(rig.queue.connect(), Arc::clone(&asked)))
        .store(rig.store())
        .handler(rig.handler(script))
        .handler_timeout(HOUR * 1000)
        .in_flight_max(2)
        .build()
        .unwrap();
    let run = tokio::spawn(runner.run());
    gate.reached().await;
    pass(HOUR * 100).await;
    assert!(asked.load(Relaxed) < 10, "asked {asked:?} times");
    gate.open();
    assert_eq!(balanced(ends(run).await.unwrap().unwrap()).applied, 4);
}

/// A flood without keys does not starve one key, nor the other way round.
#[tokio::test(start_paused = true)]
async fn a_flood_starves_nobody() {
    for flood_has_a_key in [false, true] {
        let rig = Rig::new(FakeOptions::queue().redeliver_after(None));
        for n in 0..500 {
            let flood = Publish::new(format!("f{n}"));
            rig.queue.publish(if flood_has_a_key { flood.key("f") } else { flood });
        }
        let single = Publish::new("s0");
        rig.queue.publish(if flood_has_a_key { single } else { single.key("s") });
        (500..900).for_each(|n| rig.queue.publish(Publish::new(format!("f{n}")).key("f")));
        rig.run(rig.builder(|_, _| Act::Apply).batch_max(10)).await;
        let place = rig.applied().iter().position(|id| id == "s0").unwrap();
        assert!(place <= 500, "s0 came after {place} others");
    }
}
