//! Failing messages: their key waits, the others flow; attempts, letters and halts.

use crate::rig::*;
use inbox_core::*;
use inbox_testkit::*;
use std::time::Duration;
use tokio::time::Instant;

const MINUTES: Duration = Duration::from_secs(600);

fn patient(attempts_max: u32) -> RetryPolicy {
    RetryPolicy::default().attempts_max(attempts_max).backoff(Backoff::new(MINUTES, MINUTES))
}

fn ten_and_ten() -> Vec<String> {
    (0..10).flat_map(|n| [format!("a{n}"), format!("b{n}")]).collect()
}

#[tokio::test(start_paused = true)]
async fn a_failing_key_waits_and_another_flows() {
    for (lanes, batch_max) in [(1, 1), (1, 100), (4, 1), (4, 100)] {
        let rig = Rig::new(FakeOptions::queue().redeliver_after(None));
        ten_and_ten().iter().for_each(|id| rig.publish(id));
        let script = |id: &str, attempt| if id == "a3" && attempt < 3 { Act::Fail } else { Act::Apply };
        let begun = Instant::now();
        let (_stop, run, _) = start(rig.builder(script).lanes(lanes).batch_max(batch_max).retry(patient(5)));
        pass(Duration::from_secs(1)).await;
        assert_eq!(rig.applied_of("b").len(), 10, "{lanes} lanes, {batch_max} a batch");
        assert_eq!(rig.applied_of("a"), ["a0", "a1", "a2"]);
        balanced(ends(run).await.unwrap().unwrap());
        assert!(begun.elapsed() >= MINUTES);
        let in_order = |key: &str| (0..10).map(|n| format!("{key}{n}")).collect::<Vec<_>>();
        assert_eq!(rig.applied_of("a"), in_order("a"));
        assert_eq!(rig.applied_of("b"), in_order("b"));
    }
}

#[tokio::test(start_paused = true)]
async fn attempts_are_used_up_and_then_there_is_one_letter() {
    let rig = Rig::with(&["a1", "a2"]);
    let script = |id: &str, _| if id == "a1" { Act::Fail } else { Act::Apply };
    let summary = rig.run(rig.builder(script).retry(RetryPolicy::default().attempts_max(4))).await;
    assert_eq!(rig.attempts("a1"), [1, 2, 3, 4]);
    assert_eq!(rig.letters(), [("a1".into(), "failed".into(), "told to fail".into(), 4)]);
    assert_eq!(rig.applied(), ["a2"]);
    assert_eq!((summary.failed_attempts, summary.dead_letters, summary.applied), (4, 1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_permanent_failure_has_one_attempt() {
    let rig = Rig::with(&["a1", "a2"]);
    let script = |id: &str, _| if id == "a1" { Act::Permanent } else { Act::Apply };
    rig.run(rig.builder(script)).await;
    assert_eq!(rig.attempts("a1"), [1]);
    assert_eq!(rig.letters(), [("a1".into(), "failed".into(), "told to fail".into(), 1)]);
}

#[tokio::test(start_paused = true)]
async fn a_handler_may_say_when_it_wants_to_be_called_again() {
    let rig = Rig::with(&["a1"]);
    let begun = Instant::now();
    rig.run(rig.builder(|_, attempt| if attempt == 1 { Act::FailFor(MINUTES) } else { Act::Apply })).await;
    assert!(begun.elapsed() >= MINUTES && begun.elapsed() < MINUTES * 2);
    assert_eq!(rig.applied(), ["a1"]);
}

#[tokio::test(start_paused = true)]
async fn never_again_is_a_time_too() {
    let rig = Rig::with(&["a1", "b1"]);
    let script = |id: &str, _| if id == "a1" { Act::FailFor(Duration::MAX) } else { Act::Apply };
    let builder = rig.builder(script).shutdown_timeout(Duration::MAX).handler_timeout(Duration::MAX);
    let (stop, run, _) = start(builder);
    pass(HOUR).await;
    assert_eq!(rig.applied(), ["b1"]);
    stop.send(()).unwrap();
    let summary = balanced(ends(run).await.unwrap().unwrap());
    assert_eq!(summary.released, 1);
}

#[tokio::test(start_paused = true)]
async fn halting_ends_the_run_and_harms_nobody_else() {
    let rig = Rig::with(&["a1", "b1", "c1"]);
    let policy = RetryPolicy::default().attempts_max(2).exhausted(Exhausted::Halt);
    let script = |id: &str, _| if id == "b1" { Act::Fail } else { Act::Apply };
    let error = ends(rig.builder(script).retry(policy).build().unwrap().run()).await.unwrap_err();
    assert_eq!(error.to_string(), "message b1 failed 2 time(s) and the policy is to halt: told to fail");
    assert_eq!(rig.applied(), ["a1", "c1"]);
    assert_eq!(rig.queue.unsettled(), ["b1"]);
    assert!(rig.letters().is_empty());
    assert_eq!((rig.attempts("a1").iter().max(), rig.attempts("c1").iter().max()), (Some(&1), Some(&1)));
}

#[tokio::test(start_paused = true)]
async fn innocents_run_again_without_being_charged() {
    let ids: Vec<String> = (0..10).map(|n| format!("{}1", (b'a' + n) as char)).collect();
    let rig = Rig::new(FakeOptions::queue().redeliver_after(None));
    ids.iter().for_each(|id| rig.publish(id));
    let guilty = |id: &str| id == "d1" || id == "h1";
    let script = move |id: &str, _| if guilty(id) { Act::Fail } else { Act::Apply };
    let summary = rig.run(rig.builder(script).retry(RetryPolicy::default().attempts_max(2))).await;
    for id in &ids {
        let attempts = rig.attempts(id);
        assert!(guilty(id) || attempts.iter().all(|&attempt| attempt == 1), "{id}: {attempts:?}");
        assert_eq!(rig.applied_of(id).len(), usize::from(!guilty(id)), "{id}");
    }
    assert_eq!((summary.applied, summary.dead_letters, summary.failed_attempts), (8, 2, 4));
    assert_eq!(rig.database.counter(COUNTER), 8);
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_fails_is_traced_to_its_message() {
    for act in [Act::FailCommit, Act::Abort] {
        let rig = Rig::with(&["a1", "b1", "c1", "d1", "e1", "f1", "g1"]);
        let told = act.clone();
        let script = move |id: &str, _| if id == "e1" { told.clone() } else { Act::Apply };
        let summary = rig.run(rig.builder(script).retry(RetryPolicy::default().attempts_max(3))).await;
        let letters = rig.letters();
        assert_eq!(letters.len(), 1);
        // A violated constraint stays violated; an aborted transaction may have been bad luck.
        let (attempts, error) = match act {
            Act::Abort => (3, "the transaction is aborted"),
            _ => (1, "constraint violated at the commit: no such order"),
        };
        assert_eq!((letters[0].0.as_str(), letters[0].3), ("e1", attempts), "{letters:?}");
        assert!(letters[0].2.contains(error), "{letters:?}");
        assert_eq!((summary.applied, summary.failed_attempts), (6, u64::from(attempts)));
        for innocent in ["a1", "b1", "c1", "d1", "f1", "g1"] {
            assert_eq!(rig.attempts(innocent).iter().max(), Some(&1), "{innocent}");
        }
    }
}

/// The second of a key fails first, then the first one does: the second must not come back before it.
#[tokio::test(start_paused = true)]
async fn two_failures_of_one_key_keep_their_order() {
    let rig = Rig::with(&["a1", "a2", "a3", "b1"]);
    let calls = std::sync::atomic::AtomicU32::new(0);
    let script = move |id: &str, attempt| match id {
        // Well at first; when it runs again because of a2, it fails, and needs long.
        "a1" if calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 1 => Act::FailFor(MINUTES),
        "a2" if attempt == 1 => Act::FailFor(Duration::from_secs(1)),
        _ => Act::Apply,
    };
    let summary = rig.run(rig.builder(script)).await;
    assert_eq!(rig.applied_of("a"), ["a1", "a2", "a3"]);
    assert_eq!(summary.failed_attempts, 2);
    assert_eq!(rig.attempts("a2").last(), Some(&2), "the charge stays");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_source_waits_for_retries() {
    let rig = Rig::new(FakeOptions::queue().end(End::OnDemand).redeliver_after(None));
    rig.publish("a1");
    rig.publish("a2");
    let begun = Instant::now();
    let script = |id: &str, attempt| if id == "a1" && attempt < 3 { Act::Fail } else { Act::Apply };
    let (_stop, run, _) = start(rig.builder(script).retry(patient(5)));
    pass(Duration::from_secs(1)).await;
    rig.queue.end();
    balanced(ends(run).await.unwrap().unwrap());
    assert_eq!(rig.applied(), ["a1", "a2"]);
    assert!(begun.elapsed() >= MINUTES);
}
