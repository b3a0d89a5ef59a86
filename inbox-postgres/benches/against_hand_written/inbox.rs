//! The same work by inbox, from a broker that costs nothing.

use crate::work::{Order, Outcome, id, insert_all, insert_one, payload};
use async_trait::async_trait;
use bytes::Bytes;
use inbox_core::{
    Ack, AckError, AckStrength, Broker, BrokerError, Capabilities, Credit, Delivery, Event, Failure, Inbound,
    Item, Json, Order as DeliveryOrder, Partition, Runner, Settled, Settlement, Source,
};
use inbox_postgres::{PostgresStore, Tx};

/// Hands over as much as is asked for.
pub(crate) struct Ready {
    partition: Partition,
    next: u64,
    end: u64,
}

impl Ready {
    pub(crate) fn with(messages: u64) -> Self {
        Self { partition: Partition { source: Source::new("ready"), number: 0 }, next: 0, end: messages }
    }
}

#[derive(Clone)]
pub(crate) struct NoAck;

#[async_trait]
impl Ack for NoAck {
    type Receipt = u64;

    async fn settle(&self, batch: Vec<Settlement<u64>>) -> Vec<Result<Settled, AckError>> {
        batch.iter().map(|_| Ok(Settled::Sent)).collect()
    }
}

#[async_trait]
impl Broker for Ready {
    type Receipt = u64;
    type Ack = NoAck;

    fn capabilities(&self) -> Capabilities {
        Capabilities::new(AckStrength::Sent).order(DeliveryOrder::Partition)
    }

    fn ack_handle(&self) -> NoAck {
        NoAck
    }

    async fn next(&mut self, credit: &Credit) -> Result<Event<u64>, BrokerError> {
        if self.next == self.end {
            return Ok(Event::Ended);
        }
        if credit.is_empty() {
            return std::future::pending().await;
        }
        let until = self.end.min(self.next + credit.messages.min(1000) as u64);
        let deliveries = (self.next..until).map(|n| {
            let mut inbound = Inbound::new(self.partition.clone(), Some(Bytes::from(payload(n))));
            inbound.native_id = Some(id(n).into());
            Delivery::new(inbound, n)
        });
        let deliveries = deliveries.collect();
        self.next = until;
        Ok(Event::Deliveries(deliveries))
    }

    async fn close(self, _: tokio::time::Instant) -> Result<(), BrokerError> {
        Ok(())
    }
}

async fn one_by_one(Json(order): Json<Order>, mut tx: Tx) -> Result<(), Failure> {
    Ok(insert_one(&mut tx, order).await?)
}

async fn set_based(items: Vec<Item<Json<Order>>>, mut tx: Tx) -> Result<(), Failure> {
    Ok(insert_all(&mut tx, items.into_iter().map(|item| item.value.0)).await?)
}

pub(crate) async fn run(
    store: PostgresStore,
    messages: u64,
    batch: usize,
    lanes: usize,
    is_set_based: bool,
) -> Outcome<()> {
    let builder = Runner::builder("bench")
        .broker(Ready::with(messages))
        .store(store)
        .batch_max(batch)
        .lanes(lanes)
        .in_flight_max((4 * batch * lanes).max(1000));
    let summary = if is_set_based {
        builder.batch_handler(set_based).build()?.run().await?
    } else {
        builder.handler(one_by_one).build()?.run().await?
    };
    assert_eq!(summary.applied, messages, "every message is applied");
    Ok(())
}
