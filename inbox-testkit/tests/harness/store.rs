//! Stores over a memory database.

use async_trait::async_trait;
use bytes::Bytes;
use inbox_core::*;
use inbox_testkit::{
    suite::store::{EffectError, StoreHarness, StoreTraits},
    *,
};

/// A memory database whose stores are wrapped.
pub struct OverMemory<S> {
    database: MemoryDatabase,
    wrap: Box<dyn Fn(MemoryStore) -> S + Send + Sync>,
}

impl<S> OverMemory<S> {
    pub fn new(wrap: impl Fn(MemoryStore) -> S + Send + Sync + 'static) -> Self {
        Self { database: MemoryDatabase::new(), wrap: Box::new(wrap) }
    }
}

/// The text is the key of a message, because keys have no limit.
fn carrying(text: &str) -> Message {
    let partition = Partition { source: Source::new("test"), number: 0 };
    let mut inbound = Inbound::new(partition, None);
    inbound.key = Some(Bytes::copy_from_slice(text.as_bytes()));
    let claim = ClaimKey { scope: Scope::default(), id: MessageId::new("any").unwrap() };
    Message::new(claim, Fingerprint::off(), inbound)
}

#[async_trait]
impl<S: Inspect + Checkpoints + InboxStore<Tx = MemoryTx>> StoreHarness for OverMemory<S> {
    type Store = S;

    fn traits(&self) -> StoreTraits {
        StoreTraits::server().ended_by_hand(false)
    }

    async fn open(&self) -> S {
        (self.wrap)(self.database.store())
    }

    async fn effect(&self, tx: &mut MemoryTx, text: &str) -> Result<(), EffectError> {
        Ok(tx.append(EFFECTS, &carrying(text))?)
    }

    async fn effects(&self) -> Vec<String> {
        self.database.rows(EFFECTS).into_iter().filter_map(|row| row.key).collect()
    }

    async fn fail_statement(&self, tx: &mut MemoryTx) {
        tx.abort();
    }

    async fn rollback_by_hand(&self, _tx: &mut MemoryTx) {}

    async fn commit_by_hand(&self, _tx: &mut MemoryTx) {}

    async fn violate_at_commit(&self, tx: &mut MemoryTx) {
        tx.fail_commit("invoices_total_check");
    }

    async fn cut_connections(&self) {
        self.database.cut_connections();
    }
}
