//! Ending a run: what has started is finished, what has not is given back, a commit is never cut.

use crate::rig::*;
use inbox_testkit::*;
use std::time::Duration;
use tokio::time::Instant;

#[tokio::test(start_paused = true)]
async fn started_work_is_finished_and_the_rest_is_given_back() {
    let rig = Rig::with(&["a1", "a2", "b1", "c1", "a1"]);
    let gate = Gate::new();
    let at_gate = gate.clone();
    let script = move |id: &str, _| if id == "a1" { Act::Wait(at_gate.clone()) } else { Act::Apply };
    let (stop, run, counters) = start(rig.builder(script).batch_max(1));
    gate.reached().await;
    stop.send(()).unwrap();
    pass(Duration::from_secs(1)).await;
    // Intake has stopped: this one is not taken in any more.
    rig.publish("d1");
    gate.open();
    let summary = balanced(ends(run).await.unwrap().unwrap());
    assert_eq!((summary.received, summary.applied, summary.released), (5, 1, 4));
    assert_eq!(counters.read(), summary);
    assert_eq!(rig.applied(), ["a1"]);
    assert_eq!(rig.queue.unsettled(), ["a2", "b1", "c1", "a1", "d1"]);

    let second = rig.run(rig.builder(|_, _| Act::Apply)).await;
    assert_eq!((second.applied, second.duplicates), (4, 1));
    assert_eq!(rig.applied_of("a"), ["a1", "a2"]);
    assert!(rig.queue.is_settled());
}

#[tokio::test(start_paused = true)]
async fn a_message_that_waits_for_its_retry_is_given_back() {
    let rig = Rig::with(&["a1", "a2"]);
    let (stop, run, _) = start(rig.builder(|_, _| Act::FailFor(HOUR)));
    pass(Duration::from_secs(1)).await;
    let begun = Instant::now();
    stop.send(()).unwrap();
    let summary = balanced(ends(run).await.unwrap().unwrap());
    assert_eq!((summary.released, begun.elapsed()), (2, Duration::ZERO));
    assert_eq!(rig.queue.unsettled(), ["a1", "a2"]);
}

#[tokio::test(start_paused = true)]
async fn the_deadline_drops_handlers_and_rolls_back() {
    let rig = Rig::with(&["a1", "b1"]);
    let (stop, run, _) =
        start(rig.builder(|_, _| Act::Hang).handler_timeout(HOUR * 100).lanes(2).batch_max(1));
    pass(Duration::from_secs(1)).await;
    assert_eq!(rig.database.open_transactions(), 2);
    let begun = Instant::now();
    stop.send(()).unwrap();
    let summary = balanced(ends(run).await.unwrap().unwrap());
    assert_eq!(begun.elapsed(), Duration::from_secs(30));
    assert_eq!((summary.released, summary.failed_attempts), (2, 0));
    assert_eq!((rig.database.counter(COUNTER), rig.database.open_transactions()), (0, 0));
    assert_eq!(rig.queue.unsettled(), ["a1", "b1"]);
}

#[tokio::test(start_paused = true)]
async fn a_commit_is_never_cut() {
    let rig = Rig::with(&["a1"]);
    let gate = Gate::new();
    rig.hooks.set().commit_gate = Some(gate.clone());
    let (stop, run, _) = start(rig.builder(|_, _| Act::Apply).shutdown_timeout(Duration::from_secs(1)));
    gate.reached().await;
    stop.send(()).unwrap();
    pass(HOUR).await;
    assert!(!run.is_finished());
    gate.open();
    let summary = balanced(ends(run).await.unwrap().unwrap());
    assert_eq!((summary.applied, summary.released), (1, 0));
    assert!(rig.queue.is_settled());
}

#[tokio::test(start_paused = true)]
async fn it_ends_while_the_store_is_out_of_reach() {
    let rig = Rig::with(&["a1"]);
    rig.database.set_available(false);
    let (stop, run, _) = start(rig.builder(|_, _| Act::Apply));
    pass(HOUR).await;
    stop.send(()).unwrap();
    let summary = balanced(ends(run).await.unwrap().unwrap());
    assert_eq!((summary.released, summary.failed_attempts), (1, 0));
    assert!(summary.outages > 1);
}

#[tokio::test(start_paused = true)]
async fn it_ends_while_checkpoints_cannot_be_read() {
    let rig = Rig::new(FakeOptions::log().mode(Mode::Log { rebalances: true }));
    rig.publish("a1");
    rig.hooks.set().checkpoint_failures = usize::MAX;
    let (stop, run, _) = start(rig.with_checkpoints(|_, _| Act::Apply));
    pass(HOUR).await;
    stop.send(()).unwrap();
    let summary = tokio::time::timeout(HOUR, run).await.unwrap().unwrap().unwrap();
    assert_eq!(summary.received, 0);
}

#[tokio::test(start_paused = true)]
async fn a_doubt_that_is_not_resolved_does_not_hold_up_the_end() {
    let rig = Rig::with(&["a1"]);
    rig.hooks.set().doubts = 1;
    rig.hooks.set().resolve_failures = usize::MAX;
    let (stop, run, _) = start(rig.builder(|_, _| Act::Apply));
    pass(HOUR).await;
    stop.send(()).unwrap();
    let summary = balanced(ends(run).await.unwrap().unwrap());
    assert_eq!((summary.applied, summary.released, summary.doubts), (0, 1, 1));
    rig.hooks.set().resolve_failures = 0;
    let second = rig.run(rig.builder(|_, _| Act::Apply)).await;
    assert_eq!((second.duplicates, rig.database.counter(COUNTER)), (1, 1));
}
