//! Copies of a message: in one batch, in flight over several lanes, under other keys, with other content.

use crate::rig::*;
use inbox_core::*;
use inbox_testkit::*;
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn copies_run_once_whatever_the_lanes() {
    for (lanes, batch_max) in [(1, 1), (1, 100), (4, 1), (4, 3), (8, 100)] {
        let rig = Rig::with(&["a1", "a1", "b1", "a1", "a2", "b1", "a2", "a1"]);
        let summary = rig.run(rig.builder(|_, _| Act::Apply).lanes(lanes).batch_max(batch_max)).await;
        assert_eq!((summary.applied, summary.duplicates), (3, 5));
        assert_eq!(rig.applied_of("a"), ["a1", "a2"]);
        assert_eq!((rig.attempts("a1"), rig.attempts("b1")), (vec![1], vec![1]));
        assert!(rig.queue.is_settled());
    }
}

#[tokio::test(start_paused = true)]
async fn a_copy_under_another_key_waits_for_the_first() {
    for lanes in [1, 4] {
        let rig = Rig::with(&[]);
        let gate = Gate::new();
        let at_gate = gate.clone();
        rig.queue.publish(Publish::new("m").key("a"));
        rig.queue.publish(Publish::new("m").key("b"));
        rig.queue.publish(Publish::new("m"));
        rig.queue.publish(Publish::new("n").key("b"));
        let script = move |id: &str, _| if id == "m" { Act::Wait(at_gate.clone()) } else { Act::Apply };
        let (_stop, run, counters) = start(rig.builder(script).lanes(lanes).batch_max(1));
        gate.reached().await;
        pass(Duration::from_secs(10)).await;
        assert_eq!(counters.read().duplicates, 0);
        gate.open();
        let summary = balanced(ends(run).await.unwrap().unwrap());
        assert_eq!((summary.applied, summary.duplicates), (2, 2));
        assert_eq!(rig.attempts("m"), [1]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_copy_of_a_message_that_is_retried_waits_for_it() {
    for fate in [Act::Apply, Act::Fail] {
        let rig = Rig::with(&["a1", "a1"]);
        let ends_with = fate.clone();
        let script = move |_: &str, attempt| if attempt < 2 { Act::FailFor(HOUR) } else { ends_with.clone() };
        let policy = RetryPolicy::default().attempts_max(2);
        let (_stop, run, counters) = start(rig.builder(script).retry(policy));
        pass(Duration::from_secs(60)).await;
        assert_eq!((rig.attempts("a1"), counters.read().duplicates), (vec![1], 0));
        let summary = balanced(ends(run).await.unwrap().unwrap());
        assert_eq!(rig.attempts("a1"), [1, 2], "the copy was not tried");
        let is_dead = matches!(fate, Act::Fail);
        assert_eq!((summary.duplicates, summary.dead_letters), if is_dead { (0, 2) } else { (1, 0) });
        assert_eq!(rig.letters().len(), usize::from(is_dead));
    }
}

#[tokio::test(start_paused = true)]
async fn other_content_is_a_conflict_and_blocks_nothing() {
    for (lanes, batch_max) in [(1, 1), (1, 100), (4, 2)] {
        let rig = Rig::with(&["a1"]);
        rig.queue.publish(Publish::new("a1").key("a").payload("other"));
        rig.queue.publish(Publish::new("a1").key("b").payload("third"));
        rig.publish("a2");
        rig.publish("a1");
        let summary = rig.run(rig.builder(|_, _| Act::Apply).lanes(lanes).batch_max(batch_max)).await;
        assert_eq!((summary.applied, summary.conflicts, summary.duplicates), (2, 2, 1));
        let refused: Vec<_> = rig.database.conflicts(&group()).into_iter().map(|c| c.refused).collect();
        for text in ["other", "third"] {
            assert!(refused.contains(&Fingerprint::of_payload(Some(text.as_bytes()))), "{text}: {refused:?}");
        }
        assert_eq!(rig.applied_of("a"), ["a1", "a2"]);
    }
}

/// At least once: duplicates run again, in turn, and a dead one has one letter.
#[tokio::test(start_paused = true)]
async fn without_claims_duplicates_run_again_and_letters_are_written_once() {
    for batch_max in [1, 100] {
        let rig = Rig::with(&["a1", "a1", "b1", "c1", "b1", "a1"]);
        let script = |id: &str, _| if id == "b1" { Act::Permanent } else { Act::Apply };
        let builder = rig.builder(script).strategy(Strategy::AtLeastOnce).batch_max(batch_max);
        let summary = rig.run(builder).await;
        assert_eq!((summary.applied, summary.duplicates, summary.dead_letters), (4, 0, 2));
        assert_eq!(rig.database.counter(COUNTER), 4);
        assert_eq!(rig.letters(), [("b1".into(), "failed".into(), "told to fail".into(), 1)]);
        let claims = rig.database.claims(&group());
        assert_eq!(claims.len(), 1, "only the dead have rows: {claims:?}");
    }
}

/// Two undecodable copies in one batch, without claims.
#[tokio::test(start_paused = true)]
async fn without_claims_undecodable_copies_have_one_letter() {
    let rig = Rig::with(&["x1", "x1", "x1"]);
    let handler = |_: Json<u64>, _tx: Tx<HookedStore>| async { Ok::<(), Failure>(()) };
    let builder = Runner::builder("billing").broker(rig.queue.connect()).store(rig.store()).handler(handler);
    let summary = rig.run(builder.strategy(Strategy::AtLeastOnce)).await;
    assert_eq!((summary.dead_letters, rig.letters().len()), (3, 1));
}
