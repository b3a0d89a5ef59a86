//! The backends of `docs/implementing-a-backend.md`: they pass the suites, they run, and the page quotes
//! them as they are.

#![allow(clippy::unwrap_used, clippy::expect_used, unreachable_pub)]

#[path = "toy/broker.rs"]
mod broker;
#[path = "toy/store.rs"]
mod store;

use async_trait::async_trait;
use broker::{ToyBroker, ToyQueue, ToyReceipt};
use inbox_core::{Inbound, Message, Partition, Runner, Source, Tx};
use inbox_testkit::suite::{
    broker::{BrokerHarness, BrokerTraits, Record},
    store::{EffectError, StoreHarness, StoreTraits, Writers},
};
use std::time::Duration;
use store::{ToyStore, ToyTx};

struct Stores(ToyStore);

#[async_trait]
impl StoreHarness for Stores {
    type Store = ToyStore;

    fn traits(&self) -> StoreTraits {
        StoreTraits::server()
            .writers(Writers::OneAtATime)
            .failed_statement_aborts(false)
            .ended_by_hand(false)
            .deferred_constraints(false)
            .connections_cut(false)
    }

    async fn open(&self) -> ToyStore {
        self.0.clone()
    }

    async fn effect(&self, tx: &mut ToyTx, text: &str) -> Result<(), EffectError> {
        tx.effects.push(text.to_owned());
        Ok(())
    }

    async fn effects(&self) -> Vec<String> {
        self.0.read().effects
    }

    // What cannot be done to this store, as its traits say.
    async fn fail_statement(&self, _tx: &mut ToyTx) {}
    async fn rollback_by_hand(&self, _tx: &mut ToyTx) {}
    async fn commit_by_hand(&self, _tx: &mut ToyTx) {}
    async fn violate_at_commit(&self, _tx: &mut ToyTx) {}
    async fn cut_connections(&self) {}
}

struct Queues(ToyQueue);

fn inbound(payload: Option<bytes::Bytes>) -> Inbound {
    Inbound::new(Partition { source: Source::new("toy"), number: 0 }, payload)
}

#[async_trait]
impl BrokerHarness for Queues {
    type Broker = ToyBroker;

    fn traits(&self) -> BrokerTraits {
        BrokerTraits::everything().quiet(Duration::from_millis(50))
    }

    async fn publish(&self, records: Vec<Record>) {
        for record in records {
            let mut inbound = inbound(record.payload);
            (inbound.key, inbound.headers) = (record.key, record.headers);
            self.0.publish(inbound);
        }
    }

    async fn connect(&self) -> ToyBroker {
        self.0.connect()
    }

    fn copy_receipt(&self, receipt: &ToyReceipt) -> ToyReceipt {
        receipt.clone()
    }
}

mod store_suite {
    use super::*;
    inbox_testkit::store_suite!(paused, Stores(ToyStore::default()));
}

mod broker_suite {
    use super::*;
    inbox_testkit::broker_suite!(paused, Queues(ToyQueue::default()));
}

#[tokio::test(start_paused = true)]
async fn they_run_together() {
    let (queue, store) = (ToyQueue::default(), ToyStore::default());
    for id in ["a", "b", "a"] {
        let mut inbound = inbound(None);
        inbound.native_id = Some(id.into());
        queue.publish(inbound);
    }
    let handler = |message: Message, mut tx: Tx<ToyStore>| async move {
        tx.effects.push(message.id().to_owned());
        Ok::<(), inbox_core::Failure>(())
    };
    let runner = Runner::builder("toys").broker(queue.connect()).store(store.clone()).handler(handler);
    let runner = runner.build().unwrap();
    let control = runner.control();
    let run = tokio::spawn(runner.run());
    tokio::time::sleep(Duration::from_secs(1)).await;
    control.drain();
    let summary = run.await.unwrap().unwrap();
    assert_eq!((summary.applied, summary.duplicates), (2, 1));
    assert_eq!(store.read().effects, ["a", "b"]);
}

#[test]
fn the_page_quotes_what_is_compiled() {
    let page = include_str!("../../docs/implementing-a-backend.md");
    for (name, code) in
        [("store.rs", include_str!("toy/store.rs")), ("broker.rs", include_str!("toy/broker.rs"))]
    {
        assert!(page.contains(&format!("```rust\n{code}```\n")), "toy/{name} is not on the page as it is");
    }
}
