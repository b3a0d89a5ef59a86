//! Contract of settling: each for itself, answered one by one, harmless when it comes twice.

use super::{consumer::*, harness::BrokerHarness, settling::acknowledgement, settling::release};
use inbox_core::{Ack, AckStrength, Broker, Delivery, Settled};
use std::time::Duration;

/// Settling some in any order never covers the others: after a crash they come again.
pub async fn settling_covers_nothing_else<H: BrokerHarness>(h: &H) {
    let orders: [&[usize]; 8] =
        [&[2, 3, 4], &[4, 3, 2], &[0, 2, 4], &[4, 0, 2], &[1, 3], &[3, 1, 0], &[4], &[2, 0, 1]];
    let mut checkpoints = Default::default();
    for (round, order) in orders.iter().enumerate() {
        let payloads = named(&format!("r{round}"), 5);
        publish(h, &payloads).await;
        let mut first = Consumer::connect_at(h, checkpoints).await;
        // A log may still redeliver what was finished in the rounds before.
        let (mut taken, old): (Vec<_>, Vec<_>) = first
            .until(&payloads)
            .await
            .into_iter()
            .partition(|delivery| payloads.contains(&texts(std::slice::from_ref(delivery))[0]));
        first.acknowledge(old).await;
        let mut open = payloads.clone();
        for &index in *order {
            let is_it = |delivery: &Got<H>| texts(std::slice::from_ref(delivery))[0] == payloads[index];
            let place = taken.iter().position(is_it).expect("it was delivered");
            open.retain(|payload| *payload != payloads[index]);
            first.acknowledge(vec![taken.remove(place)]).await;
        }
        let mut second = first.die().await;
        let again = second.until(&open).await;
        second.acknowledge(again).await;
        checkpoints = second.gone().await;
    }
}

/// In one call it is the same.
pub async fn settling_in_one_call_covers_nothing_else<H: BrokerHarness>(h: &H) {
    let payloads = named("m", 6);
    publish(h, &payloads).await;
    let mut consumer = Consumer::connect(h).await;
    let taken = consumer.take(6).await;
    let settled: Vec<Got<H>> =
        taken.into_iter().enumerate().filter(|(i, _)| i % 2 == 1).map(|(_, delivery)| delivery).collect();
    let done = texts(&settled);
    consumer.acknowledge(settled).await;
    let open: Vec<String> = payloads.iter().filter(|payload| !done.contains(payload)).cloned().collect();
    consumer.die().await.until(&open).await;
}

/// One answer per settlement, in order, none for none; and no more is promised than the capabilities say.
pub async fn one_answer_per_settlement<H: BrokerHarness>(h: &H) {
    publish(h, &named("m", 5)).await;
    let mut consumer = Consumer::connect(h).await;
    assert_eq!(consumer.acknowledge(Vec::new()).await, []);
    let mut taken = consumer.take(5).await;
    let last = taken.remove(4);
    let answers = consumer.acknowledge(taken).await;
    assert_eq!(answers.len(), 4);
    let strength = consumer.broker().capabilities().ack;
    for answer in answers {
        match answer {
            Settled::Confirmed => assert_ne!(strength, AckStrength::Sent, "nobody confirms it"),
            Settled::Sent => assert_ne!(strength, AckStrength::Confirmed, "it can be confirmed"),
            Settled::Deferred => {}
            other => panic!("a settlement of this consumer is answered with {other:?}"),
        }
    }
    let answer = consumer.release(last, None).await;
    assert_ne!(answer, Settled::Stale);
}

/// What is released comes again: to the same consumer, or to the next one.
pub async fn released_comes_again<H: BrokerHarness>(h: &H) {
    let payloads = named("m", 3);
    publish(h, &payloads).await;
    let mut consumer = Consumer::connect(h).await;
    let mut taken = consumer.take(3).await;
    let released = taken.remove(1);
    let name = texts(std::slice::from_ref(&released));
    consumer.acknowledge(taken).await;
    consumer.release(released, None).await;
    if h.traits().released_again {
        let again = consumer.until(&name).await;
        consumer.acknowledge(again).await;
        consumer.die().await.assert_quiet(&plenty(), "everything is settled").await;
    } else {
        consumer.die().await.until(&name).await;
    }
}

/// A release with a delay comes again after it, where the broker can delay; otherwise it comes again.
pub async fn delayed_release_comes_again<H: BrokerHarness>(h: &H) {
    let payloads = named("m", 1);
    publish(h, &payloads).await;
    let mut consumer = Consumer::connect(h).await;
    let delay = Duration::from_millis(300);
    let can_delay = consumer.broker().capabilities().delayed_retry;
    let delivery = consumer.take(1).await.remove(0);
    let released_at = tokio::time::Instant::now();
    consumer.release(delivery, Some(delay)).await;
    if h.traits().released_again {
        consumer.until(&payloads).await;
        assert!(!can_delay || released_at.elapsed() >= delay, "it came after {:?}", released_at.elapsed());
    } else {
        assert!(!can_delay, "what does not come again cannot be delayed");
        consumer.die().await.until(&payloads).await;
    }
}

/// Settling the same delivery twice changes nothing for it, nor for others.
pub async fn settling_twice_is_harmless<H: BrokerHarness>(h: &H) {
    let payloads = named("m", 3);
    publish(h, &payloads).await;
    let mut consumer = Consumer::connect(h).await;
    let mut taken = consumer.take(3).await;
    let first = taken.remove(0);
    let copy = Delivery::new(first.inbound.clone(), h.copy_receipt(&first.receipt));
    let third = Delivery::new(first.inbound.clone(), h.copy_receipt(&first.receipt));
    consumer.acknowledge(vec![first]).await;
    // Whether this one is an error is the broker's choice.
    let answers = consumer.ack().settle(vec![acknowledgement(copy).await]).await;
    assert_eq!(answers.len(), 1);
    // A release that comes too late does not bring it back.
    let answers = consumer.ack().settle(vec![release(third, None)]).await;
    assert_eq!(answers.len(), 1);
    let mut next = consumer.die().await;
    let got = next.until(&payloads[1..]).await;
    assert!(!texts(&got).contains(&payloads[0]), "it was acknowledged: {:?}", texts(&got));
}

/// A receipt of a consumer that is gone changes nothing, through the old handle and through a new one:
/// the delivery of now stays unsettled.
pub async fn stale_receipts_change_nothing<H: BrokerHarness>(h: &H) {
    let payloads = named("m", 3);
    publish(h, &payloads).await;
    let mut first = Consumer::connect(h).await;
    let taken = first.take(3).await;
    let old = first.ack();
    let copy = |delivery: &Got<H>| Delivery::new(delivery.inbound.clone(), h.copy_receipt(&delivery.receipt));
    let copies: Vec<Got<H>> = taken.iter().map(copy).collect();
    let mut second = first.die().await;
    second.until(&payloads).await;
    for (handle, deliveries) in [(old, taken), (second.ack(), copies)] {
        let mut batch = Vec::new();
        for delivery in deliveries {
            batch.push(acknowledgement(delivery).await);
        }
        let answers = handle.settle(batch).await;
        assert_eq!(answers.len(), 3);
        for answer in answers {
            let is_known = second.by_checkpoint() && matches!(answer, Ok(Settled::Deferred));
            let is_refused = matches!(answer, Ok(Settled::Stale) | Err(_));
            assert!(is_refused || is_known, "a receipt of before was answered with {answer:?}");
        }
    }
    second.die().await.until(&payloads).await;
}

/// Settlements whose future is dropped leave each delivery settled or to come again.
pub async fn cancelled_settle_loses_nothing<H: BrokerHarness>(h: &H) {
    let payloads = named("m", 4);
    publish(h, &payloads).await;
    let mut first = Consumer::connect(h).await;
    let mut taken = first.take(4).await;
    let settled = taken.remove(3);
    let done = texts(std::slice::from_ref(&settled));
    let settlement = acknowledgement(settled).await;
    let ack = first.ack();
    tokio::select! {
        biased;
        _answers = ack.settle(vec![settlement]) => {}
        () = std::future::ready(()) => {}
    }
    let open: Vec<String> = payloads.iter().filter(|payload| !done.contains(payload)).cloned().collect();
    first.die().await.until(&open).await;
}
