//! What the runner itself costs: a broker and a store that do nothing, on one thread.
//!
//! `cargo bench -p inbox-core`

#![allow(clippy::print_stdout)]

use async_trait::async_trait;
use bytes::Bytes;
use inbox_core::*;
use std::{error::Error, time::Instant};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Gives messages as fast as they are taken.
struct Source1 {
    partition: Partition,
    payload: Bytes,
    next: u64,
    end: u64,
    keys: u64,
}

#[derive(Clone)]
struct NoAck;

#[async_trait]
impl Ack for NoAck {
    type Receipt = u64;

    async fn settle(&self, batch: Vec<Settlement<u64>>) -> Vec<Result<Settled, AckError>> {
        batch.iter().map(|_| Ok(Settled::Sent)).collect()
    }
}

#[async_trait]
impl Broker for Source1 {
    type Receipt = u64;
    type Ack = NoAck;

    fn capabilities(&self) -> Capabilities {
        Capabilities::new(AckStrength::Sent).order(Order::Partition)
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
        let deliveries = (self.next..until)
            .map(|n| {
                let mut inbound = Inbound::new(self.partition.clone(), Some(self.payload.clone()));
                inbound.native_id = Some(format!("{n:036}").into());
                if self.keys > 0 {
                    inbound.key = Some(Bytes::from(format!("key-{}", n % self.keys)));
                }
                Delivery::new(inbound, n)
            })
            .collect();
        self.next = until;
        Ok(Event::Deliveries(deliveries))
    }

    async fn close(self, _: tokio::time::Instant) -> Result<(), BrokerError> {
        Ok(())
    }
}

struct NoStore;

#[async_trait]
impl InboxStore for NoStore {
    type Tx = Box<u64>;

    async fn begin(&self, _: &TxLimits) -> Result<Box<u64>, StoreError> {
        Ok(Box::new(0))
    }

    async fn claim(
        &self,
        _: &mut Box<u64>,
        _: &Group,
        requests: &[ClaimRequest],
    ) -> Result<Vec<Claim>, StoreError> {
        Ok(vec![Claim::Fresh; requests.len()])
    }

    async fn commit(&self, _: Box<u64>) -> Result<(), CommitError> {
        Ok(())
    }

    async fn rollback(&self, _: Box<u64>) -> Result<(), StoreError> {
        Ok(())
    }

    async fn resolve(&self, _: &Group, keys: &[ClaimKey]) -> Result<Vec<Resolution>, StoreError> {
        Ok(vec![Resolution::Absent; keys.len()])
    }

    fn classify(&self, _: &(dyn Error + 'static)) -> FaultClass {
        FaultClass::HandlerFault
    }

    fn describe(&self) -> String {
        "nothing".into()
    }
}

async fn handle(payload: Bytes, mut tx: Tx<NoStore>) -> Result<(), Failure> {
    *tx += payload.len() as u64;
    Ok(())
}

fn run(messages: u64, batch: usize, keys: u64) -> Outcome<f64> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let payload = Bytes::from_static(br#"{"order_id": 17, "customer": "ann", "amount": 12500}"#);
        let partition = Partition { source: Source::new("nothing"), number: 0 };
        let runner = Runner::builder("bench")
            .broker(Source1 { partition, payload, next: 0, end: messages, keys })
            .store_without_letters(NoStore)
            .handler(handle)
            .batch_max(batch)
            .build()?;
        let begun = Instant::now();
        let summary = runner.run().await?;
        assert_eq!(summary.applied, messages);
        Ok(messages as f64 / begun.elapsed().as_secs_f64())
    })
}

fn main() -> Outcome<()> {
    for (name, messages, batch, keys, target) in [
        ("batches of 100", 1_000_000, 100, 0, 500_000.0),
        ("batches of 100, 1,000 keys", 1_000_000, 100, 1000, 500_000.0),
        ("batches of one", 300_000, 1, 0, 100_000.0),
        ("batches of one, 1,000 keys", 300_000, 1, 1000, 100_000.0),
    ] {
        let mut rates = (0..5).map(|_| run(messages, batch, keys)).collect::<Outcome<Vec<f64>>>()?;
        rates.sort_by(f64::total_cmp);
        println!("{name}: {:.0} messages/s on one thread (target {target:.0})", rates[2]);
    }
    Ok(())
}
