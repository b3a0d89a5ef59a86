//! Middleware and observers.

use crate::rig::*;
use inbox_core::*;
use inbox_testkit::*;
use std::sync::{Arc, Mutex};

type Log = Arc<Mutex<Vec<String>>>;

/// Says when it is entered and left, and leaves a row.
fn layer(
    name: &'static str,
    log: &Log,
) -> impl Fn(Message, Tx<HookedStore>, Next<HookedStore>) -> futures::Boxed + Send + Sync + 'static {
    let log = Arc::clone(log);
    move |message, mut tx, next| {
        let log = Arc::clone(&log);
        Box::pin(async move {
            log.lock().unwrap().push(format!("{name} in"));
            tx.append(name, &message)?;
            let outcome = next.run(tx).await;
            log.lock().unwrap().push(format!("{name} out"));
            outcome
        })
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_layer_is_outermost_and_all_write_in_one_transaction() {
    let rig = Rig::with(&["a1"]);
    let log = Log::default();
    let seen = Arc::clone(&log);
    let script = move |_: &str, _| {
        seen.lock().unwrap().push("handler".to_owned());
        Act::Apply
    };
    let builder = rig.builder(script).around(layer("outer", &log)).around(layer("inner", &log));
    let summary = rig.run(builder).await;
    assert_eq!(*log.lock().unwrap(), ["outer in", "inner in", "handler", "inner out", "outer out"]);
    assert_eq!(summary.commits, 1);
    for table in ["outer", "inner", EFFECTS] {
        assert_eq!(rig.database.rows(table).len(), 1, "{table}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_layer_wrote_goes_with_a_failed_handler() {
    let rig = Rig::with(&["a1"]);
    let log = Log::default();
    let script = |_: &str, attempt| if attempt == 1 { Act::Fail } else { Act::Apply };
    rig.run(rig.builder(script).around(layer("outer", &log))).await;
    assert_eq!(*log.lock().unwrap(), ["outer in", "outer out", "outer in", "outer out"]);
    assert_eq!((rig.database.rows("outer").len(), rig.database.counter(COUNTER)), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_layer_that_does_not_go_on_skips_the_handler_and_the_message_is_applied() {
    let rig = Rig::with(&["a1", "b1"]);
    let skip = |message: Message, tx: Tx<HookedStore>, next: Next<HookedStore>| async move {
        if message.id() == "a1" {
            return Ok(());
        }
        next.run(tx).await
    };
    let summary = rig.run(rig.builder(|_, _| Act::Apply).around(skip)).await;
    assert_eq!((summary.applied, rig.applied()), (2, vec!["b1".to_owned()]));
    assert_eq!(rig.database.claims(&group()).len(), 2);
    assert!(rig.attempts("a1").is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_error_or_a_panic_of_a_layer_is_a_failed_attempt() {
    let rig = Rig::with(&["a1", "b1", "c1"]);
    let refuse = |message: Message, tx: Tx<HookedStore>, next: Next<HookedStore>| async move {
        assert_ne!(message.id(), "b1", "not this one");
        next.run(tx).await?;
        if message.id() == "a1" {
            return Err(Failure::message("refused behind the handler").permanent());
        }
        Ok(())
    };
    let builder = rig.builder(|_, _| Act::Apply).around(refuse).retry(RetryPolicy::default().attempts_max(2));
    let summary = rig.run(builder).await;
    assert_eq!((summary.applied, summary.dead_letters, summary.failed_attempts), (1, 2, 3));
    let letters = rig.letters();
    assert_eq!((letters[0].2.as_str(), letters[0].3), ("refused behind the handler", 1));
    assert!(letters[1].2.starts_with("the handler panicked"), "{letters:?}");
    assert_eq!((rig.applied(), rig.database.counter(COUNTER)), (vec!["c1".to_owned()], 1));
}

#[tokio::test(start_paused = true)]
async fn observers_see_outcomes_after_their_commit() {
    let rig = Rig::with(&["a1", "b1", "a1"]);
    rig.queue.publish(Publish::new("b1").key("b").payload("other"));
    let (log, database) = (Log::default(), rig.database.clone());
    let seen = Arc::clone(&log);
    let observer = move |message: &Message, observed: Observed<'_>| {
        // Asked from outside of the run: what is observed as applied is committed by then.
        let evidence = database.evidence(&group(), message.id(), message.fingerprint());
        let (word, is_true) = match observed {
            Observed::Applied => ("applied", evidence.claim.is_some()),
            Observed::Duplicate => ("duplicate", evidence.claim.is_some()),
            Observed::Conflict => ("conflict", evidence.conflict),
            Observed::DeadLettered => ("dead", evidence.letter),
            Observed::Failed { .. } => ("failed", evidence.claim.is_none()),
            _ => ("other", false),
        };
        assert!(is_true, "{} as {word}: {evidence:?}", message.id());
        seen.lock().unwrap().push(format!("{} {word}", message.id()));
    };
    rig.publish("c1");
    let script = |id: &str, _| if id == "c1" { Act::Permanent } else { Act::Apply };
    rig.run(rig.builder(script).observer(observer)).await;
    let mut log = log.lock().unwrap().clone();
    log.sort();
    assert_eq!(log, ["a1 applied", "a1 duplicate", "b1 applied", "b1 conflict", "c1 dead", "c1 failed"]);
}

#[tokio::test(start_paused = true)]
async fn an_observer_that_panics_does_no_harm_and_the_next_one_is_told() {
    let rig = Rig::with(&["a1", "b1"]);
    let log = Log::default();
    let seen = Arc::clone(&log);
    let builder = rig
        .builder(|_, _| Act::Apply)
        .observer(|_: &Message, _: Observed<'_>| panic!("an observer"))
        .observer(move |message: &Message, _: Observed<'_>| {
            seen.lock().unwrap().push(message.id().to_owned());
        });
    let summary = rig.run(builder).await;
    assert_eq!((summary.applied, rig.database.counter(COUNTER)), (2, 2));
    assert_eq!(*log.lock().unwrap(), ["a1", "b1"]);
    assert!(rig.queue.is_settled());
}
