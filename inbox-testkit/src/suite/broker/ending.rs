//! Contract of ending: by the source, and by the consumer.

use super::{consumer::*, harness::BrokerHarness};
use inbox_core::{Broker, Event};
use tokio::time::timeout;

/// A source that ends says so when all is settled, and goes on to say so. One that does not end stays
/// quiet.
pub async fn ended_stays_ended<H: BrokerHarness>(h: &H) {
    publish(h, &named("m", 3)).await;
    let mut consumer = Consumer::connect(h).await;
    let taken = consumer.take(3).await;
    consumer.acknowledge(taken).await;
    if !h.traits().ends {
        consumer.assert_quiet(&plenty(), "all is settled").await;
        assert!(!consumer.ended, "it says that it ended and its harness that it does not");
        return;
    }
    assert_eq!(texts(&consumer.next(&plenty()).await), Vec::<String>::new());
    assert!(consumer.ended);
    publish(h, &named("late", 1)).await;
    for _ in 0..3 {
        let event = timeout(COMES_WITHIN, consumer.broker().next(&plenty())).await.expect("an answer");
        assert!(matches!(event, Ok(Event::Ended)), "it goes on to answer that it ended");
    }
}

/// Closing gives back what was not settled, and keeps what was.
pub async fn close_gives_back<H: BrokerHarness>(h: &H) {
    let payloads = named("m", 4);
    publish(h, &payloads).await;
    let mut first = Consumer::connect(h).await;
    let mut taken = first.take(3).await;
    let done = taken.remove(0);
    first.acknowledge(vec![done]).await;
    let mut second = first.close().await;
    let got = second.until(&payloads[1..]).await;
    assert!(!texts(&got).contains(&payloads[0]), "it was acknowledged: {:?}", texts(&got));
    second.acknowledge(got).await;
    second.close().await.assert_quiet(&plenty(), "all is settled").await;
}

/// A consumer that took nothing closes, and takes nothing along.
pub async fn close_without_a_delivery<H: BrokerHarness>(h: &H) {
    let payloads = named("m", 2);
    publish(h, &payloads).await;
    Consumer::connect(h).await.close().await.until(&payloads).await;
}

/// What a broker says of itself does not change.
pub async fn capabilities_stay<H: BrokerHarness>(h: &H) {
    publish(h, &named("m", 1)).await;
    let mut consumer = Consumer::connect(h).await;
    let before = consumer.broker().capabilities();
    let taken = consumer.take(1).await;
    consumer.acknowledge(taken).await;
    assert_eq!(consumer.broker().capabilities(), before);
    assert_eq!(consumer.die().await.broker().capabilities(), before);
}
