//! Steering a run: pause, resume, drain, shut down, and waiting for its end.

use crate::rig::*;
use inbox_core::*;
use inbox_testkit::*;
use std::time::Duration;
use tokio::time::Instant;

const MINUTE: Duration = Duration::from_secs(60);

/// A source that never ends by itself.
fn endless() -> Rig {
    Rig::new(FakeOptions::queue().end(End::OnDemand).redeliver_after(None))
}

fn steered(builder: Builder) -> (Control, Run, std::sync::Arc<Counters>) {
    let runner = builder.build().unwrap();
    let (control, counters) = (runner.control(), runner.counters());
    (control, tokio::spawn(runner.run()), counters)
}

#[tokio::test(start_paused = true)]
async fn nothing_is_taken_in_or_started_while_it_is_paused() {
    let rig = endless();
    ["a1", "b1"].iter().for_each(|id| rig.publish(id));
    let gate = Gate::new();
    let at_gate = gate.clone();
    let script = move |id: &str, _| if id == "a1" { Act::Wait(at_gate.clone()) } else { Act::Apply };
    let (control, run, counters) = steered(rig.builder(script).batch_max(1).handler_timeout(HOUR * 100));
    gate.reached().await;
    control.pause();
    pass(MINUTE).await;
    rig.publish("c1");
    gate.open();
    pass(HOUR).await;
    // What had started was finished and acknowledged; nothing else has happened.
    assert_eq!((rig.applied(), counters.read().received), (vec!["a1".to_owned()], 2));
    assert_eq!(rig.queue.unsettled(), ["b1", "c1"]);
    control.resume();
    pass(MINUTE).await;
    assert_eq!(rig.applied(), ["a1", "b1", "c1"]);
    control.drain();
    balanced(ends(run).await.unwrap().unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_retry_that_is_due_waits_for_the_end_of_the_pause() {
    let rig = endless();
    rig.publish("a1");
    let (control, run, counters) =
        steered(rig.builder(|_, attempt| if attempt == 1 { Act::FailFor(MINUTE) } else { Act::Apply }));
    pass(MINUTE / 2).await;
    control.pause();
    pass(HOUR).await;
    assert_eq!((counters.read().failed_attempts, rig.applied().len()), (1, 0));
    control.resume();
    pass(MINUTE).await;
    assert_eq!(rig.applied(), ["a1"]);
    control.shutdown(None);
    balanced(ends(run).await.unwrap().unwrap());
}

#[tokio::test(start_paused = true)]
async fn rebalances_are_answered_during_a_pause() {
    let options = FakeOptions::log().mode(Mode::Log { rebalances: true }).end(End::OnDemand);
    let rig = Rig::new(options.redeliver_after(None));
    rig.publish("a1");
    let (control, run, counters) = steered(rig.builder(|_, _| Act::Apply));
    pass(MINUTE).await;
    control.pause();
    rig.publish("a2");
    pass(MINUTE).await;
    let begun = Instant::now();
    rig.queue.revoke(&[0], HOUR);
    rig.queue.assign(&[0]);
    pass(MINUTE).await;
    // Assigned again before the hour was over: the revocation was let go at once.
    assert!(begun.elapsed() < HOUR);
    assert_eq!(counters.read().applied, 1);
    control.resume();
    pass(MINUTE).await;
    assert_eq!(rig.applied(), ["a1", "a2"]);
    rig.queue.end();
    ends(run).await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn draining_finishes_retries_and_ends() {
    let rig = endless();
    ["a1", "a2", "b1"].iter().for_each(|id| rig.publish(id));
    let script = |id: &str, attempt| match id {
        "a1" if attempt < 3 => Act::FailFor(HOUR),
        _ => Act::Apply,
    };
    let (control, run, _) = steered(rig.builder(script));
    pass(MINUTE).await;
    control.drain();
    // Taken in after it was asked to: not by this run.
    pass(MINUTE).await;
    rig.publish("c1");
    let summary = balanced(ends(run).await.unwrap().unwrap());
    assert_eq!((summary.applied, summary.failed_attempts, summary.released), (3, 2, 0));
    assert_eq!(rig.applied_of("a"), ["a1", "a2"]);
    assert_eq!(rig.queue.unsettled(), ["c1"]);
}

#[tokio::test(start_paused = true)]
async fn draining_ends_a_pause() {
    let rig = endless();
    rig.publish("a1");
    let (control, run, _) = steered(rig.builder(|_, _| Act::FailFor(MINUTE)));
    pass(Duration::from_secs(1)).await;
    control.pause();
    pass(HOUR).await;
    control.drain();
    let summary = balanced(ends(run).await.unwrap().unwrap());
    assert_eq!((summary.dead_letters, summary.failed_attempts), (1, 5));
}

#[tokio::test(start_paused = true)]
async fn shutting_down_obeys_the_shortest_deadline_that_was_named() {
    let rig = endless();
    rig.publish("a1");
    let (control, run, _) = steered(rig.builder(|_, _| Act::Hang).handler_timeout(HOUR * 100));
    pass(MINUTE).await;
    let begun = Instant::now();
    control.shutdown(Some(HOUR));
    pass(MINUTE).await;
    control.shutdown(Some(MINUTE));
    // A longer one does not put it off.
    control.shutdown(Some(HOUR));
    let summary = balanced(ends(run).await.unwrap().unwrap());
    assert_eq!((summary.released, summary.failed_attempts), (1, 0));
    assert_eq!(begun.elapsed(), 2 * MINUTE);
    assert_eq!((rig.queue.unsettled(), rig.database.open_transactions()), (vec!["a1".to_owned()], 0));
}

#[tokio::test(start_paused = true)]
async fn the_end_is_told_whoever_asks_and_however_it_came() {
    let rig = endless();
    let (control, run, _) = steered(rig.builder(|_, _| Act::Apply));
    let waiting = tokio::spawn({
        let control = control.clone();
        async move { control.ended().await }
    });
    pass(HOUR).await;
    assert!(!waiting.is_finished());
    control.shutdown(None);
    ends(waiting).await.unwrap();
    ends(run).await.unwrap().unwrap();
    ends(control.ended()).await;
    // Nobody listens any more, and nothing happens.
    control.pause();
    control.drain();

    let (control, run, _) = steered(rig.builder(|_, _| Act::Apply));
    pass(MINUTE).await;
    run.abort();
    ends(control.ended()).await;

    let never_run = rig.builder(|_, _| Act::Apply).build().unwrap();
    let control = never_run.control();
    drop(never_run);
    ends(control.ended()).await;
}

#[tokio::test(start_paused = true)]
async fn groups_in_one_process_get_each_message_once_each() {
    let database = MemoryDatabase::new();
    let ids = ["a1", "b1", "a1", "c1"];
    let mut runs = Vec::new();
    for name in ["billing", "shipping", "audit"] {
        let queue = FakeQueue::new(FakeOptions::queue());
        ids.iter().for_each(|id| queue.publish(Publish::new(*id).key(&id[..1])));
        let handler =
            move |message: Message, mut tx: Tx<MemoryStore>| async move { tx.append(name, &message) };
        let runner =
            Runner::builder(name).broker(queue.connect()).store(database.store()).handler(handler).lanes(2);
        runs.push((name, tokio::spawn(runner.build().unwrap().run())));
    }
    for (name, run) in runs {
        let summary = balanced(ends(run).await.unwrap().unwrap());
        assert_eq!((summary.applied, summary.duplicates), (3, 1), "{name}");
        let mut applied: Vec<String> = database.rows(name).into_iter().map(|row| row.id).collect();
        applied.sort();
        assert_eq!(applied, ["a1", "b1", "c1"], "{name}");
        assert_eq!(database.claims(&Group::new(name).unwrap()).len(), 3, "{name}");
    }
}
