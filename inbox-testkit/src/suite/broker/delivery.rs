//! Contract of delivering: at least once, cancel safety, credit, order, assignment.

use super::{consumer::*, harness::BrokerHarness};
use inbox_core::{Broker, Credit, Event, Order, Position};
use std::{future::Future, time::Duration};
use tokio::time::timeout;

/// What was delivered and not settled comes to the next consumer.
pub async fn unsettled_comes_again<H: BrokerHarness>(h: &H) {
    let payloads = named("m", 5);
    publish(h, &payloads).await;
    let mut first = Consumer::connect(h).await;
    first.take(3).await;
    let mut second = first.die().await;
    second.until(&payloads).await;
    // Also when it was never asked for its deliveries again.
    let mut third = second.die().await;
    third.until(&payloads).await;
}

/// What was acknowledged does not come again. Where the group's checkpoint is its progress, reading
/// goes on behind it.
pub async fn acknowledged_does_not_come_again<H: BrokerHarness>(h: &H) {
    let payloads = named("m", 5);
    publish(h, &payloads).await;
    let mut first = Consumer::connect(h).await;
    let taken = first.take(3).await;
    let settled = texts(&taken);
    first.acknowledge(taken).await;
    let mut second = first.die().await;
    let rest: Vec<String> = payloads.iter().filter(|payload| !settled.contains(payload)).cloned().collect();
    let got = second.until(&rest).await;
    assert_eq!(texts(&got).iter().filter(|text| settled.contains(text)).count(), 0, "{:?}", texts(&got));
    second.acknowledge(got).await;
    let mut third = second.die().await;
    third.assert_quiet(&plenty(), "everything was acknowledged").await;
}

/// Polls a future once and drops it: a call that is cancelled at its first wait.
async fn poll_once<F: Future>(future: F) -> Option<F::Output> {
    tokio::select! {
        biased;
        output = future => Some(output),
        () = std::future::ready(()) => None,
    }
}

/// Calls of `next` that are dropped lose nothing, wherever they are dropped.
pub async fn cancelled_next_loses_nothing<H: BrokerHarness>(h: &H) {
    let payloads = named("m", 20);
    publish(h, &payloads).await;
    let mut consumer = Consumer::connect(h).await;
    let mut came = Vec::new();
    let credit = Credit::new(2, usize::MAX);
    for round in 0..400 {
        let event = if round % 4 == 3 {
            // Time for threads and sockets to have something ready.
            timeout(Duration::from_micros(500), consumer.broker().next(&credit)).await.ok()
        } else {
            poll_once(consumer.broker().next(&credit)).await
        };
        if let Some(event) = event {
            let deliveries = consumer.hear(event.expect("the broker answers"));
            came.extend(texts(&deliveries));
            consumer.acknowledge(deliveries).await;
        }
        if consumer.ended {
            break;
        }
    }
    let missing: Vec<String> = payloads.iter().filter(|payload| !came.contains(payload)).cloned().collect();
    if !missing.is_empty() {
        consumer.until(&missing).await;
    }
}

/// One answer holds no more messages than the credit.
pub async fn credit_counts_messages<H: BrokerHarness>(h: &H) {
    let payloads = named("m", 10);
    publish(h, &payloads).await;
    let mut consumer = Consumer::connect(h).await;
    let mut came = Vec::new();
    for messages in [1, 3, 2, 4] {
        let got = consumer.next(&Credit::new(messages, usize::MAX)).await;
        assert!(got.len() <= messages, "{} with a credit for {messages}", got.len());
        came.extend(texts(&got));
    }
    let missing: Vec<String> = payloads.iter().filter(|payload| !came.contains(payload)).cloned().collect();
    if !missing.is_empty() {
        consumer.until(&missing).await;
    }
}

/// One answer holds no more bytes than the credit, but for one message that is larger by itself.
pub async fn credit_counts_bytes<H: BrokerHarness>(h: &H) {
    let payloads: Vec<String> = (0..9).map(|number| format!("{:>100}", format!("\"{number}\""))).collect();
    publish(h, &payloads).await;
    let mut consumer = Consumer::connect(h).await;
    let mut left = payloads.len();
    // The last one takes each in an answer of its own.
    for bytes in [1000, 350, 99, 1, 1, 1] {
        let credit = Credit::new(if bytes == 1000 { 1 } else { 100 }, bytes);
        let got = consumer.next(&credit).await;
        let sum: usize = got.iter().map(|delivery| delivery.inbound.bytes()).sum();
        assert!(sum <= bytes || got.len() == 1, "{} messages of {sum} bytes for {bytes}", got.len());
        left -= got.len();
    }
    consumer.take(left).await;
}

/// Without credit nothing is delivered; what waits comes with the next credit.
pub async fn no_credit_no_deliveries<H: BrokerHarness>(h: &H) {
    let payloads = named("m", 3);
    publish(h, &payloads).await;
    let mut consumer = Consumer::connect(h).await;
    consumer.assert_quiet(&Credit::new(0, 1000), "no credit for messages").await;
    consumer.assert_quiet(&Credit::new(1000, 0), "no credit for bytes").await;
    assert!(!consumer.ended, "it ended with messages left");
    let got = consumer.take(1).await;
    consumer.assert_quiet(&Credit::new(0, 0), "no credit").await;
    let mut held = plenty();
    held.held.push(got[0].inbound.partition.clone());
    consumer.assert_quiet(&held, "the partition is held").await;
    consumer.take(2).await;
}

/// Where order is kept, messages of a partition come as they were published.
pub async fn order_is_kept<H: BrokerHarness>(h: &H) {
    let payloads = named("m", 50);
    publish(h, &payloads).await;
    let mut consumer = Consumer::connect(h).await;
    let got = texts(&consumer.take(50).await);
    match consumer.broker().capabilities().order {
        Order::Partition => assert_eq!(got, payloads),
        _ => {
            let sorted = |mut texts: Vec<String>| {
                texts.sort_unstable();
                texts
            };
            assert_eq!(sorted(got), sorted(payloads), "each of them, in any order");
        }
    }
}

/// Positions rise inside a partition; a positional broker gives every record one, the same each time.
pub async fn positions_rise<H: BrokerHarness>(h: &H) {
    publish(h, &named("m", 10)).await;
    let mut consumer = Consumer::connect(h).await;
    let is_positional = consumer.broker().capabilities().positional;
    let got = consumer.take(10).await;
    let positions: Vec<Position> = got.iter().filter_map(|delivery| delivery.inbound.position).collect();
    if is_positional {
        assert_eq!(positions.len(), 10, "every record has one");
    }
    let one_partition = got.iter().all(|delivery| delivery.inbound.partition == got[0].inbound.partition);
    assert!(one_partition, "all were published into one partition");
    assert!(positions.iter().all(|position| position.at < position.next), "{positions:?}");
    assert!(positions.windows(2).all(|pair| pair[0].next <= pair[1].at), "{positions:?}");
    if is_positional {
        let again = consumer.die().await.take(10).await;
        let of = |delivery: &Got<H>| (texts(std::slice::from_ref(delivery)), delivery.inbound.position);
        assert_eq!(again.iter().map(of).collect::<Vec<_>>(), got.iter().map(of).collect::<Vec<_>>());
    }
}

/// Nothing comes from a partition before its assignment is answered. A broker that rebalances assigns.
pub async fn nothing_before_the_assignment<H: BrokerHarness>(h: &H) {
    let payloads = named("m", 3);
    publish(h, &payloads).await;
    let mut consumer = Consumer::connect(h).await;
    let first = loop {
        let event = timeout(COMES_WITHIN, consumer.broker().next(&plenty())).await.expect("an event comes");
        match event.expect("the broker answers") {
            Event::Idle => {}
            other => break other,
        }
    };
    let Event::Assigned(assignment) = first else {
        assert!(!consumer.broker().capabilities().rebalances, "it rebalances and does not assign");
        let came = texts(&consumer.hear(first));
        assert!(!came.is_empty() && came.iter().all(|payload| payloads.contains(payload)), "{came:?}");
        return;
    };
    assert!(!assignment.partitions().is_empty());
    consumer.assert_quiet(&plenty(), "the assignment is not answered").await;
    // Dropped unanswered, it begins where it would by itself.
    drop(assignment);
    consumer.until(&payloads).await;
}

/// An assignment that is answered with a checkpoint begins there. What is not assigned, or has no
/// positions, begins where the broker would by itself.
pub async fn assignment_begins_at_the_checkpoint<H: BrokerHarness>(h: &H) {
    let payloads = named("m", 5);
    publish(h, &payloads).await;
    let mut first = Consumer::connect(h).await;
    let taken = first.take(5).await;
    let (assigns, knows) = (first.was_assigned(), first.by_checkpoint());
    first.acknowledge(taken.into_iter().take(2).collect()).await;
    let checkpoints = first.checkpoints().clone();
    assert_eq!(checkpoints.is_empty(), !first.broker().capabilities().positional);
    first.gone().await;
    if assigns && !checkpoints.is_empty() {
        let mut second = Consumer::connect_at(h, checkpoints).await;
        assert_eq!(texts(&second.take(3).await), payloads[2..]);
    } else {
        assert!(!knows, "a broker that keeps no progress must ask for it");
        Consumer::connect(h).await.until(&payloads[2..]).await;
    }
}

/// Deliveries are counted, from none before the first, or not at all.
pub async fn deliveries_are_counted<H: BrokerHarness>(h: &H) {
    let payloads = named("m", 1);
    publish(h, &payloads).await;
    let mut first = Consumer::connect(h).await;
    let counts = first.broker().capabilities().counts_deliveries;
    let before = first.take(1).await.remove(0).deliveries_before;
    assert_eq!(before, counts.then_some(0));
    let again = first.die().await.take(1).await.remove(0).deliveries_before;
    if counts {
        assert!(again >= Some(1), "{again:?}");
    } else {
        assert_eq!(again, None);
    }
}
