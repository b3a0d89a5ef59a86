//! Many messages, many lanes, seeded trouble: the promises hold for every seed.

use crate::rig::*;
use inbox_core::*;
use inbox_testkit::*;
use std::time::Duration;

/// Of a hundred, three always fail and ten fail at first, in ways that differ.
fn script(id: &str, attempt: u32) -> Act {
    let number: u64 = id[1..].parse().unwrap();
    match (number.wrapping_mul(2_654_435_761) >> 7) % 100 {
        0 => Act::Fail,
        1 => Act::FailCommit,
        2 => Act::Permanent,
        3..8 if attempt == 1 => Act::Fail,
        8..10 if attempt < 3 => Act::FailFor(Duration::from_secs(5)),
        10 if attempt == 1 => Act::Abort,
        11 if attempt == 1 => Act::PanicLater,
        12 if attempt == 1 => Act::Hang,
        _ => Act::Apply,
    }
}

fn chaotic(options: FakeOptions, seed: u64) -> FakeOptions {
    options.chaos(Chaos::new(fastrand::Rng::with_seed(seed), 300)).deliveries_max(200)
}

fn publish(rig: &Rig, count: u64) -> Expected {
    let mut expected = Expected::new();
    for n in 0..count {
        let (id, key) = (format!("m{n}"), format!("k{}", n % 50));
        rig.queue.publish(Publish::new(id.clone()).key(&key).partition((n % 50 % 4) as u32));
        expected = match script(&id, u32::MAX) {
            Act::Apply => expected.applied(&id, Some(&key)),
            _ => expected.dead(&id, Some(&key)),
        };
    }
    expected
}

fn settings(builder: Builder) -> Builder {
    builder.lanes(8).batch_max(7).in_flight_max(300)
}

/// Panics of handlers are part of it: their messages would bury everything else.
fn quietly() {
    let others = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if panic.payload().downcast_ref() != Some(&"later") {
            others(panic);
        }
    }));
}

/// What can be judged without a history, which for thousands of messages takes too long to write.
fn judge(rig: &Rig, expected: &Expected, seed: u64) {
    let state = FinalState::of(&rig.database, &group()).and_queue(&rig.queue);
    for promise in [applied_once, atomic, conflicts_recorded, order_kept] {
        assert_eq!(promise(&[], expected, &state), Ok(()), "seed {seed}");
    }
    for (id, fate) in expected.fates() {
        let disposition = if *fate == Fate::Dead { Disposition::Dead } else { Disposition::Applied };
        assert_eq!(state.claims.get(id), Some(&disposition), "seed {seed}: {id}");
    }
    assert_eq!(state.letters.len(), expected.fates().values().filter(|fate| **fate == Fate::Dead).count());
    assert!(rig.queue.is_settled() && rig.queue.covered().is_empty(), "seed {seed}");
    assert_eq!(rig.database.open_transactions(), 0, "seed {seed}");
}

#[tokio::test(start_paused = true)]
async fn five_thousand_messages_from_a_queue() {
    quietly();
    for seed in 0..30 {
        let rig = Rig::new(chaotic(FakeOptions::queue(), seed));
        let expected = publish(&rig, 5000);
        rig.run(settings(rig.builder(script)).seed(seed)).await;
        judge(&rig, &expected, seed);
    }
}

#[tokio::test(start_paused = true)]
async fn the_whole_history_of_three_hundred_messages() {
    quietly();
    for seed in 0..30 {
        for (options, with_checkpoints) in [(FakeOptions::queue(), false), (FakeOptions::log(), true)] {
            let rig = Rig::new(chaotic(options, seed));
            let expected = publish(&rig, 300);
            let history = History::new(rig.database.witness(&group()));
            let parts = Runner::builder("billing")
                .broker(RecordingBroker::fake(rig.queue.connect(), &history))
                .store(rig.store());
            let parts = if with_checkpoints { parts_with(parts) } else { parts };
            let runner = parts.handler(rig.handler(script)).lanes(8).batch_max(7).seed(seed).build().unwrap();
            balanced(ends(runner.run()).await.unwrap());
            let state = FinalState::of(&rig.database, &group()).and_queue(&rig.queue);
            let violations = Oracle::violations(&history.entries(), &expected, &state);
            assert_eq!(violations, [], "{}", history.render(&format!("seed {seed}")));
        }
    }
}

type Parts<B> = RunnerBuilder<B, StoreParts<HookedStore>>;

fn parts_with<B: Broker>(parts: Parts<B>) -> Parts<B> {
    parts.checkpoints()
}

/// Reordering by the broker: nothing about order is promised, everything else is.
#[tokio::test(start_paused = true)]
async fn a_broker_without_order() {
    quietly();
    for seed in 0..10 {
        let chaos = Chaos::new(fastrand::Rng::with_seed(seed), 300).reorder(0.5);
        let rig = Rig::new(FakeOptions::queue().chaos(chaos));
        let expected = publish(&rig, 1000).unordered();
        rig.run(settings(rig.builder(script)).seed(seed)).await;
        judge(&rig, &expected, seed);
    }
}
