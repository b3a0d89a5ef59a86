//! Handlers that misbehave: panics, time-outs, transactions kept, extractors that panic.

use crate::rig::*;
use inbox_core::*;
use inbox_testkit::*;
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

#[tokio::test(start_paused = true)]
async fn panics_are_failed_attempts_wherever_they_happen() {
    for (act, text) in [
        (Act::PanicAtOnce, "the handler panicked: at once"),
        (Act::PanicInFuture, "the handler panicked: in the future"),
        (Act::PanicLater, "the handler panicked: later"),
    ] {
        let rig = Rig::with(&["a1", "b1", "a2"]);
        let script = move |id: &str, _| if id == "a1" { act.clone() } else { Act::Apply };
        let summary = rig.run(rig.builder(script).retry(RetryPolicy::default().attempts_max(2))).await;
        assert_eq!(rig.letters(), [("a1".into(), "failed".into(), text.into(), 2)]);
        assert_eq!((rig.applied(), summary.failed_attempts), (vec!["b1".into(), "a2".into()], 2));
        assert_eq!(rig.database.open_transactions(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_does_not_end_is_dropped_in_time() {
    let rig = Rig::with(&["a1", "b1"]);
    let begun = Instant::now();
    let script = |id: &str, _| if id == "a1" { Act::Hang } else { Act::Apply };
    let builder = rig.builder(script).handler_timeout(HOUR).retry(RetryPolicy::default().attempts_max(2));
    rig.run(builder).await;
    let text = "the handler did not end within its time-out of 3600s";
    assert_eq!(rig.letters(), [("a1".into(), "failed".into(), text.into(), 2)]);
    assert_eq!(rig.applied(), ["b1"]);
    assert!(begun.elapsed() >= 2 * HOUR && begun.elapsed() < 3 * HOUR);
    assert_eq!(rig.database.open_transactions(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_transaction_that_is_kept_stores_nothing() {
    let rig = Rig::with(&["a1", "b1"]);
    let place = Leaked::default();
    let kept = Arc::clone(&place);
    let script = move |id: &str, attempt| match (id, attempt) {
        ("a1", 1) => Act::Leak(Arc::clone(&kept)),
        _ => Act::Apply,
    };
    let (_stop, run, counters) = start(rig.builder(script));
    pass(Duration::from_secs(60)).await;
    // Everything in it is undecided as long as it is open: nobody else can tell what becomes of it.
    assert_eq!(rig.database.counter(COUNTER), 0);
    let count = counters.read();
    assert_eq!(count.failed_attempts, 1, "those who wait for it are not charged: {count:?}");
    assert!(count.busy > 0);
    let mut leaked = place.lock().unwrap().take().unwrap();
    leaked.add(COUNTER, 100).unwrap();
    drop(leaked);
    balanced(ends(run).await.unwrap().unwrap());
    assert_eq!((rig.database.counter(COUNTER), rig.database.open_transactions()), (2, 0));
    assert_eq!(rig.attempts("a1").last(), Some(&2));
    assert!(rig.letters().is_empty());
}

/// An extractor that panics for one message.
struct Fragile;

impl<App> FromMessage<App> for Fragile {
    fn from_message(context: &Context<'_, App>) -> Result<Self, Undecodable> {
        assert_ne!(context.message.id(), "a1", "cannot read it");
        Ok(Self)
    }
}

#[tokio::test(start_paused = true)]
async fn an_extractor_that_panics_makes_a_letter() {
    let rig = Rig::with(&["a1", "b1"]);
    let handler = |_: Fragile, message: Message, mut tx: Tx<HookedStore>| async move {
        apply_effect(&mut tx, &message)
    };
    let builder = Runner::builder("billing").broker(rig.queue.connect()).store(rig.store()).handler(handler);
    rig.run(builder).await;
    let letters = rig.letters();
    assert_eq!((letters[0].0.as_str(), letters[0].1.as_str(), letters[0].3), ("a1", "undecodable", 0));
    assert!(letters[0].2.contains("cannot read it"), "{letters:?}");
    assert_eq!(rig.applied(), ["b1"]);
}

/// A handler whose own state panics when it is let go.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "dropped");
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_while_a_late_handler_is_dropped_is_its_own_failure() {
    let rig = Rig::with(&["a1", "b1"]);
    let handler = |message: Message, mut tx: Tx<HookedStore>| async move {
        apply_effect(&mut tx, &message)?;
        if message.id() == "a1" {
            let _bomb = Bomb;
            std::future::pending::<()>().await;
        }
        Ok::<(), Failure>(())
    };
    let builder = Runner::builder("billing").broker(rig.queue.connect()).store(rig.store()).handler(handler);
    rig.run(builder.retry(RetryPolicy::default().attempts_max(2))).await;
    assert_eq!((rig.applied(), rig.letters().len()), (vec!["b1".to_owned()], 1));
}
