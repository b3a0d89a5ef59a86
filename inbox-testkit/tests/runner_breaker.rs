//! The breaker: when distinct messages keep failing, intake pauses and nothing becomes a letter.

use inbox_core::*;

use crate::rig::*;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// A service that the handler depends on.
#[derive(Clone, Default)]
struct Downstream(Arc<AtomicBool>);

impl Downstream {
    fn heal(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn act(&self, failing: Act) -> Act {
        if self.0.load(Ordering::Relaxed) { Act::Apply } else { failing }
    }
}

fn ids(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("{}{n}", ["a", "b", "c", "d"][n % 4])).collect()
}

fn rig_with(count: usize) -> Rig {
    let ids = ids(count);
    Rig::with(&ids.iter().map(String::as_str).collect::<Vec<_>>())
}

#[tokio::test(start_paused = true)]
async fn while_everything_fails_nothing_is_given_up_or_taken_in() {
    for (failing, lanes) in [(Act::Fail, 1), (Act::Permanent, 1), (Act::PanicLater, 4), (Act::FailCommit, 4)]
    {
        let rig = rig_with(40);
        let downstream = Downstream::default();
        let (asked, told) = (downstream.clone(), failing.clone());
        let builder = rig
            .builder(move |_, _| asked.act(told.clone()))
            .retry(RetryPolicy::default().attempts_max(2))
            .breaker_after(3)
            .batch_max(5)
            .in_flight_max(20)
            .lanes(lanes);
        let (_stop, run, counters) = start(builder);
        pass(HOUR * 24).await;
        let count = counters.read();
        assert_eq!(count.received, 20, "{failing:?}: {count:?}");
        // Those that failed before it opened may have been given up already.
        assert!(rig.letters().len() < 3, "{failing:?}: {:?}", rig.letters());
        assert!((10..10_000).contains(&count.failed_attempts), "{failing:?}: {count:?}");
        downstream.heal();
        let summary = balanced(ends(run).await.unwrap().unwrap());
        assert_eq!(summary.applied + summary.dead_letters, 40);
        assert!(summary.dead_letters < 3);
        for key in ["a", "b", "c", "d"] {
            let mut sorted = rig.applied_of(key);
            sorted.sort_by_key(|id| id[1..].parse::<usize>().unwrap());
            assert_eq!(rig.applied_of(key), sorted, "the order of a key is kept");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_fails_among_others_does_not_open_it() {
    let rig = rig_with(12);
    let script = |id: &str, _| if id == "a0" { Act::Fail } else { Act::Apply };
    let builder = rig.builder(script).retry(RetryPolicy::default().attempts_max(4)).breaker_after(2);
    let summary = rig.run(builder).await;
    assert_eq!((summary.applied, summary.dead_letters), (11, 1));
    assert_eq!(rig.attempts("a0"), [1, 2, 3, 4]);
}

#[tokio::test(start_paused = true)]
async fn a_success_closes_it_and_attempts_are_counted_again() {
    let rig = rig_with(12);
    let downstream = Downstream::default();
    let asked = downstream.clone();
    let script = move |id: &str, _| if id == "b1" { Act::Fail } else { asked.act(Act::Fail) };
    let builder = rig.builder(script).retry(RetryPolicy::default().attempts_max(3)).breaker_after(2);
    let (_stop, run, counters) = start(builder);
    pass(HOUR).await;
    assert_eq!((counters.read().applied, rig.letters().len()), (0, 0));
    downstream.heal();
    let summary = balanced(ends(run).await.unwrap().unwrap());
    // Only the one that fails by itself is given up, after as many attempts as it has.
    assert_eq!((summary.applied, summary.dead_letters), (11, 1));
    assert_eq!(rig.letters()[0].3, 3);
}

#[tokio::test(start_paused = true)]
async fn behind_an_open_breaker_a_good_message_is_found() {
    // Three that fail for good stand before one that does not.
    let rig = Rig::with(&["a0", "b0", "c0", "d0"]);
    let script = |id: &str, _| if id == "d0" { Act::Apply } else { Act::Permanent };
    let summary = rig.run(rig.builder(script).breaker_after(3).batch_max(1)).await;
    assert_eq!((summary.applied, summary.dead_letters), (1, 3));
}

/// The first of the two has used up its attempts when the second opens the breaker.
#[tokio::test(start_paused = true)]
async fn what_was_given_up_in_the_unit_that_opened_it_is_tried_again() {
    let rig = Rig::with(&["a0", "b0"]);
    let downstream = Downstream::default();
    let asked = downstream.clone();
    let (_stop, run, _) = start(rig.builder(move |_, _| asked.act(Act::Permanent)).breaker_after(2));
    pass(HOUR).await;
    assert!(rig.letters().is_empty(), "{:?}", rig.letters());
    downstream.heal();
    let summary = balanced(ends(run).await.unwrap().unwrap());
    assert_eq!((summary.applied, summary.dead_letters), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_a_run_whose_breaker_is_open() {
    let rig = rig_with(8);
    let (stop, run, _) = start(rig.builder(|_, _| Act::Fail).breaker_after(2));
    pass(HOUR).await;
    stop.send(()).unwrap();
    let summary = balanced(ends(run).await.unwrap().unwrap());
    assert_eq!((summary.applied, summary.released), (0, 8));
    assert_eq!(rig.queue.unsettled().len(), 8);
}

#[test]
fn a_bound_of_none_is_refused() {
    let rig = rig_with(0);
    let error = rig.builder(|_, _| Act::Apply).breaker_after(0).build().unwrap_err();
    assert_eq!(error.to_string(), "option `breaker_after` is 0; it has to be at least 1");
}
