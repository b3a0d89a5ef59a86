//! A queue in memory whose consumers compete.

use async_trait::async_trait;
use inbox_core::*;
use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard},
};
use tokio::{sync::Notify, time::Instant};

/// The queue. Clones are handles on the same one.
#[derive(Debug, Clone, Default)]
pub struct ToyQueue {
    state: Arc<Mutex<State>>,
    changed: Arc<Notify>,
}

#[derive(Debug, Default)]
struct State {
    records: Vec<Inbound>,
    ready: BTreeSet<usize>,
    /// Delivered and not settled: the record, and to whom. What is not here is stale.
    out: HashMap<ToyReceipt, (usize, u64)>,
    numbers: u64,
}

/// Names one delivery; never used twice, so a late settlement can be told from a good one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ToyReceipt(u64);

impl ToyQueue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics with the lock")
    }

    pub fn publish(&self, inbound: Inbound) {
        let mut state = self.state();
        let record = state.records.len();
        state.records.push(inbound);
        state.ready.insert(record);
        drop(state);
        self.changed.notify_waiters();
    }

    pub fn connect(&self) -> ToyBroker {
        let mut state = self.state();
        state.numbers += 1;
        ToyBroker { connection: state.numbers, queue: self.clone() }
    }
}

impl State {
    /// As much of what is ready as the credit allows.
    fn deliver(&mut self, connection: u64, credit: &Credit) -> Vec<Delivery<ToyReceipt>> {
        let (mut deliveries, mut bytes) = (Vec::new(), 0);
        for record in self.ready.clone() {
            let inbound = &self.records[record];
            bytes += inbound.bytes();
            // A single one may be larger than the credit, or it would never come.
            let is_too_much = bytes > credit.bytes && !deliveries.is_empty();
            if credit.is_empty() || deliveries.len() == credit.messages || is_too_much {
                break;
            }
            if credit.held.contains(&inbound.partition) {
                bytes -= inbound.bytes();
                continue;
            }
            self.numbers += 1;
            deliveries.push(Delivery::new(inbound.clone(), ToyReceipt(self.numbers)));
            self.ready.remove(&record);
            self.out.insert(ToyReceipt(self.numbers), (record, connection));
        }
        deliveries
    }
}

/// A consumer. Dropping it gives back what it did not settle.
#[derive(Debug)]
pub struct ToyBroker {
    queue: ToyQueue,
    connection: u64,
}

#[async_trait]
impl Broker for ToyBroker {
    type Receipt = ToyReceipt;
    type Ack = ToyAck;

    fn capabilities(&self) -> Capabilities {
        Capabilities::new(AckStrength::Confirmed).order(Order::Partition)
    }

    fn ack_handle(&self) -> ToyAck {
        ToyAck(self.queue.clone())
    }

    async fn next(&mut self, credit: &Credit) -> Result<Event<ToyReceipt>, BrokerError> {
        loop {
            // Registered before looking, so that no change between looking and waiting is missed.
            let changed = self.queue.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            // Nothing is awaited between taking deliveries and returning them: cancelling loses nothing.
            let deliveries = self.queue.state().deliver(self.connection, credit);
            if !deliveries.is_empty() {
                return Ok(Event::Deliveries(deliveries));
            }
            changed.await;
        }
    }

    async fn close(self, _by: Instant) -> Result<(), BrokerError> {
        Ok(())
    }
}

impl Drop for ToyBroker {
    fn drop(&mut self) {
        let mut state = self.queue.state();
        let State { out, ready, .. } = &mut *state;
        out.retain(|_, (record, connection)| {
            let is_other = *connection != self.connection;
            is_other || !ready.insert(*record)
        });
        drop(state);
        self.queue.changed.notify_waiters();
    }
}

/// Takes settlements.
#[derive(Debug, Clone)]
pub struct ToyAck(ToyQueue);

#[async_trait]
impl Ack for ToyAck {
    type Receipt = ToyReceipt;

    async fn settle(&self, batch: Vec<Settlement<ToyReceipt>>) -> Vec<Result<Settled, AckError>> {
        let mut state = self.0.state();
        let settle = |settlement: Settlement<ToyReceipt>| {
            let (receipt, verdict) = settlement.into_parts();
            let Some((record, _)) = state.out.remove(&receipt) else { return Ok(Settled::Stale) };
            if !verdict.is_acknowledgement() {
                state.ready.insert(record);
            }
            Ok(Settled::Confirmed)
        };
        let answers = batch.into_iter().map(settle).collect();
        drop(state);
        self.0.changed.notify_waiters();
        answers
    }
}
