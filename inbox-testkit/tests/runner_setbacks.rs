//! What each refusal of a store means, and what a doubt means under each strategy.

use crate::rig::*;
use inbox_core::*;
use inbox_testkit::{Call, *};
use std::time::Duration;
use tokio::time::Instant;

/// How often a unit is run again because of contention before that counts as something else.
const RERUNS: usize = 10;

fn refusing(ids: &[&str], call: Call, class: FaultClass, times: usize) -> Rig {
    let rig = Rig::with(ids);
    rig.hooks.set().refused.extend(std::iter::repeat_n((call, class), times));
    rig
}

#[tokio::test(start_paused = true)]
async fn contention_before_the_handler_is_run_again_and_then_waits_as_after_an_outage() {
    for call in [Call::Begin, Call::Claim] {
        for (times, outages) in [(RERUNS, 0), (RERUNS + 1, 1)] {
            let rig = refusing(&["a1", "b1"], call, FaultClass::Contention, times);
            let summary = rig.run(rig.builder(|_, _| Act::Apply)).await;
            assert_eq!((summary.applied, summary.failed_attempts), (2, 0), "{call:?} {times}");
            assert_eq!(summary.outages, outages, "{call:?} {times}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn contention_at_the_commit_is_run_again_and_then_is_a_failed_attempt() {
    for (times, failed) in [(RERUNS, 0), (RERUNS + 1, 1)] {
        let rig = refusing(&["a1"], Call::Commit, FaultClass::Contention, times);
        let summary = rig.run(rig.builder(|_, _| Act::Apply)).await;
        assert_eq!((summary.applied, summary.outages), (1, 0), "{times}");
        assert_eq!(summary.failed_attempts, failed, "{times}");
        assert_eq!(rig.applied(), ["a1"]);
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_for_good_before_the_handler_ends_the_run() {
    for (call, doing) in [(Call::Begin, "opening a transaction"), (Call::Claim, "claiming messages")] {
        let rig = refusing(&["a1", "b1"], call, FaultClass::Permanent, 1);
        let error = ends(rig.builder(|_, _| Act::Apply).build().unwrap().run()).await.unwrap_err();
        assert_eq!(error.to_string(), format!("{doing} in memory database: told to refuse"));
        assert_eq!(rig.queue.unsettled(), ["a1", "b1"]);
        assert!(rig.attempts("a1").is_empty() && rig.letters().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_for_good_at_the_commit_is_a_failed_attempt_of_the_one_that_it_is_about() {
    let rig = refusing(&["a1", "b1"], Call::Commit, FaultClass::Permanent, 2);
    let policy = RetryPolicy::default().attempts_max(1);
    let summary = rig.run(rig.builder(|_, _| Act::Apply).retry(policy)).await;
    // The batch, and then the first of the two alone.
    assert_eq!((summary.failed_attempts, summary.dead_letters, summary.applied), (1, 1, 1));
    assert_eq!(rig.letters()[0].0, "a1");
}

/// Alone in its transaction, nobody else can be at fault: its failure stays as the handler told it.
#[tokio::test(start_paused = true)]
async fn an_aborted_transaction_of_one_message_is_its_own_failure() {
    let rig = Rig::with(&["a1"]);
    let handler = |_: Message, _: Tx<HookedStore>| async {
        Err::<(), _>(Failure::from(MemoryError::Aborted).permanent())
    };
    let parts = Runner::builder("billing").broker(rig.queue.connect()).store(rig.store());
    let summary = ends(parts.handler(handler).build().unwrap().run()).await.unwrap();
    assert_eq!((summary.failed_attempts, summary.dead_letters), (1, 1));
    let said = "the transaction is aborted";
    assert_eq!(rig.letters(), [("a1".into(), "failed".into(), said.into(), 1)]);
}

#[tokio::test(start_paused = true)]
async fn whatever_fails_is_rolled_back() {
    let rig = Rig::with(&["a1"]);
    let summary = rig.run(rig.builder(|_, attempt| if attempt < 3 { Act::Fail } else { Act::Apply })).await;
    assert_eq!((summary.applied, summary.failed_attempts), (1, 2));
    assert_eq!(rig.hooks.set().rollbacks, 2);
}

/// The commit is done and its reply lost; how often the handler ran, and its effect is there.
async fn doubt(strategy: Strategy) -> (Summary, Vec<u32>, i64) {
    let rig = Rig::with(&["a1"]);
    rig.hooks.set().doubts = 1;
    let summary = ends(rig.builder(|_, _| Act::Apply).strategy(strategy).build().unwrap().run()).await;
    let summary = summary.unwrap();
    assert_eq!(summary.doubts, 1);
    (summary, rig.attempts("a1"), rig.database.counter(COUNTER))
}

#[tokio::test(start_paused = true)]
async fn exactly_once_a_doubt_is_answered_by_the_row() {
    let (summary, attempts, effects) = doubt(Strategy::ExactlyOnce).await;
    assert_eq!((summary.applied, summary.outages, attempts, effects), (1, 0, vec![1], 1));
}

#[tokio::test(start_paused = true)]
async fn at_least_once_a_doubt_is_run_again() {
    let (summary, attempts, effects) = doubt(Strategy::AtLeastOnce).await;
    assert_eq!((summary.applied, summary.outages, attempts, effects), (1, 1, vec![1, 1], 2));
}

#[tokio::test(start_paused = true)]
async fn at_most_once_a_doubt_is_not_run_again() {
    let (summary, attempts, effects) = doubt(Strategy::AtMostOnce).await;
    assert_eq!((summary.applied, summary.outages, attempts, effects), (0, 0, vec![1], 1));
}

/// At the deadline the store stops the handler's statement. That is not a failure of the message.
#[tokio::test(start_paused = true)]
async fn a_statement_that_the_shutdown_stops_is_no_failed_attempt() {
    let rig = Rig::with(&["a1"]);
    let gate = Gate::new();
    rig.hooks.set().interrupted = Some(gate.clone());
    let at_gate = gate.clone();
    let builder = rig.builder(move |_, _| Act::WaitAndFail(at_gate.clone())).handler_timeout(HOUR);
    let (stop, run, _) = start(builder.retry(RetryPolicy::default().attempts_max(1)));
    gate.reached().await;
    stop.send(()).unwrap();
    let summary = balanced(ends(run).await.unwrap().unwrap());
    assert_eq!((summary.released, summary.failed_attempts, summary.dead_letters), (1, 0, 0));
    assert_eq!(rig.queue.unsettled(), ["a1"]);
}

/// Virtual time that a run with some back-offs takes.
async fn time_with(seed: u64) -> Duration {
    let rig = refusing(&["a1"], Call::Begin, FaultClass::Contention, RERUNS + 3);
    let begun = Instant::now();
    rig.run(rig.builder(|_, _| Act::Apply).seed(seed)).await;
    begun.elapsed()
}

#[tokio::test(start_paused = true)]
async fn back_offs_are_those_of_the_seed() {
    assert_eq!(time_with(7).await, time_with(7).await);
    assert_ne!(time_with(7).await, time_with(8).await);
}
