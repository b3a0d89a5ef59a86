//! Batch handlers: what they get, and how the message at fault is found.

use crate::rig::*;
use inbox_core::*;
use inbox_testkit::*;
use std::sync::{Arc, Mutex};

/// The ids of each call, in order.
type Calls = Arc<Mutex<Vec<Vec<String>>>>;

/// Applies everything, and then fails if one of the batch is bad.
fn batch_handler(
    calls: &Calls,
    is_bad: impl Fn(&str) -> bool + Send + Sync + 'static,
) -> impl Fn(Vec<Item<Message>>, Tx<HookedStore>) -> futures::Boxed + Send + Sync + 'static {
    let calls = Arc::clone(calls);
    move |items: Vec<Item<Message>>, mut tx: Tx<HookedStore>| {
        let ids: Vec<String> = items.iter().map(|item| item.message.id().to_owned()).collect();
        calls.lock().unwrap().push(ids.clone());
        let bad = ids.iter().any(|id| is_bad(id));
        Box::pin(async move {
            for item in &items {
                assert_eq!(item.value.id(), item.message.id());
                apply_effect(&mut tx, &item.message)?;
            }
            if bad { Err(Failure::message("a bad one")) } else { Ok(()) }
        })
    }
}

fn batched(rig: &Rig, calls: &Calls, is_bad: impl Fn(&str) -> bool + Send + Sync + 'static) -> Builder {
    Runner::builder("billing")
        .broker(rig.queue.connect())
        .store(rig.store())
        .batch_handler(batch_handler(calls, is_bad))
        .seed(7)
}

#[tokio::test(start_paused = true)]
async fn it_gets_all_fresh_messages_in_the_order_of_arrival() {
    let rig = Rig::with(&["a1", "b1", "a2", "c1", "b2"]);
    let calls = Calls::default();
    let summary = rig.run(batched(&rig, &calls, |_| false)).await;
    let calls = calls.lock().unwrap();
    assert_eq!((calls.len(), summary.commits, summary.applied), (1, 1, 5));
    // In the order of each key; a key's messages are taken together.
    for key in ["a", "b", "c"] {
        let of_key: Vec<_> = calls[0].iter().filter(|id| id.starts_with(key)).collect();
        assert!(of_key.is_sorted(), "{calls:?}");
    }
    assert_eq!(rig.applied(), calls[0]);
}

#[tokio::test(start_paused = true)]
async fn it_is_called_with_no_more_than_the_batch_holds() {
    let rig = Rig::with(&["a1", "b1", "c1", "d1", "e1"]);
    let calls = Calls::default();
    rig.run(batched(&rig, &calls, |_| false).batch_max(2)).await;
    assert_eq!(*calls.lock().unwrap(), [vec!["a1", "b1"], vec!["c1", "d1"], vec!["e1"]]);
}

#[tokio::test(start_paused = true)]
async fn duplicates_and_conflicts_are_not_among_them() {
    let rig = Rig::with(&["a1", "b1"]);
    let calls = Calls::default();
    rig.run(batched(&rig, &calls, |_| false)).await;
    // The next run finds a duplicate and a conflict beside a fresh one.
    rig.publish("a1");
    rig.queue.publish(Publish::new("b1").key("b").payload("other"));
    rig.publish("c1");
    let summary = rig.run(batched(&rig, &calls, |_| false)).await;
    assert_eq!(calls.lock().unwrap()[1], ["c1"]);
    assert_eq!((summary.applied, summary.duplicates, summary.conflicts), (1, 1, 1));
    // And with nothing fresh it is not called at all.
    rig.publish("a1");
    rig.run(batched(&rig, &calls, |_| false)).await;
    assert_eq!(calls.lock().unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_one_at_fault_is_found_by_halving_and_only_it_is_charged() {
    let ids = ["a1", "b1", "c1", "d1", "e1", "f1", "g1", "h1"];
    let rig = Rig::with(&ids);
    let (calls, failed) = (Calls::default(), Arc::new(Mutex::new(Vec::new())));
    let seen = Arc::clone(&failed);
    let observer = move |message: &Message, observed: Observed<'_>| {
        if let Observed::Failed { attempt, will_retry, .. } = observed {
            seen.lock().unwrap().push((message.id().to_owned(), attempt, will_retry));
        }
    };
    let builder = batched(&rig, &calls, |id| id == "f1")
        .retry(RetryPolicy::default().attempts_max(2))
        .observer(observer);
    let summary = rig.run(builder).await;
    assert_eq!(*failed.lock().unwrap(), [("f1".to_owned(), 1, true), ("f1".to_owned(), 2, false)]);
    assert_eq!((summary.applied, summary.dead_letters, summary.failed_attempts), (7, 1, 2));
    assert_eq!(rig.letters(), [("f1".into(), "failed".into(), "a bad one".into(), 2)]);
    assert_eq!(rig.database.counter(COUNTER), 7);
    // Eight, its two halves, and so on down to the one.
    let sizes: Vec<usize> = calls.lock().unwrap().iter().map(Vec::len).collect();
    assert_eq!(sizes[0], 8);
    assert!(sizes.len() <= 8, "{sizes:?}");
}

#[tokio::test(start_paused = true)]
async fn a_panic_or_a_kept_transaction_of_a_batch_is_found_the_same_way() {
    let rig = Rig::with(&["a1", "b1", "c1", "d1"]);
    let handler = |items: Vec<Item<Message>>, mut tx: Tx<HookedStore>| async move {
        for item in &items {
            apply_effect(&mut tx, &item.message)?;
            assert_ne!(item.message.id(), "c1", "the third");
        }
        Ok::<(), MemoryError>(())
    };
    let builder =
        Runner::builder("billing").broker(rig.queue.connect()).store(rig.store()).batch_handler(handler);
    let summary = rig.run(builder.retry(RetryPolicy::default().attempts_max(1))).await;
    assert_eq!((summary.applied, summary.dead_letters, summary.failed_attempts), (3, 1, 1));
    assert_eq!(rig.letters()[0].0, "c1");
    assert_eq!(rig.database.open_transactions(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_does_not_decode_becomes_a_letter_and_the_rest_is_handled() {
    let rig = Rig::new(FakeOptions::queue());
    rig.queue.publish(Publish::new("a1").payload("7"));
    rig.queue.publish(Publish::new("b1").payload("seven"));
    rig.queue.publish(Publish::new("c1").payload("9"));
    let sums = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&sums);
    let handler = move |items: Vec<Item<Json<u32>>>, tx: Tx<HookedStore>| {
        seen.lock().unwrap().push(items.iter().map(|item| item.value.0).sum::<u32>());
        async move {
            drop(tx);
            Ok::<(), Failure>(())
        }
    };
    let builder =
        Runner::builder("billing").broker(rig.queue.connect()).store(rig.store()).batch_handler(handler);
    let summary = rig.run(builder).await;
    assert_eq!(*sums.lock().unwrap(), [16]);
    assert_eq!((summary.applied, rig.letters()[0].1.as_str()), (2, "undecodable"));
}
