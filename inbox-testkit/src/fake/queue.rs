//! The handle on a fake broker's state: publishing, scripting, looking.

use super::{
    FakeBroker, FakeOptions, FakeReceipt, Mode, Publish,
    state::{FakeQueueState, LostAnswer, Scripted},
};
use crate::lock::lock;
use inbox_core::{AckError, Settled, Settlement};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::sync::Notify;

/// A broker's state. It belongs to no runtime: a crash that drops runtime, runner and consumer leaves
/// it as it is. Clones are handles on the same state.
#[derive(Debug, Clone)]
pub struct FakeQueue(pub(super) Arc<Shared>);

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) state: Mutex<FakeQueueState>,
    pub(super) changed: Notify,
}

impl FakeQueue {
    /// An empty broker.
    pub fn new(options: FakeOptions) -> Self {
        Self(Arc::new(Shared { state: Mutex::new(FakeQueueState::new(options)), changed: Notify::new() }))
    }

    fn change<T>(&self, change: impl FnOnce(&mut FakeQueueState) -> T) -> T {
        let result = change(&mut lock(&self.0.state));
        self.0.changed.notify_waiters();
        result
    }

    /// Publishes a message.
    pub fn publish(&self, message: Publish) {
        self.change(|state| state.publish(message));
    }

    /// A new consumer. In a queue it competes with the others that are still there; a log is taken over.
    /// A consumer that is dropped is disconnected.
    pub fn connect(&self) -> FakeBroker {
        let (connection, capabilities) =
            self.change(|state| (state.connect(), state.options().capabilities()));
        FakeBroker::new(self.clone(), connection, capabilities)
    }

    /// Makes every consumer find the source ended, whatever is left.
    pub fn end(&self) {
        self.change(FakeQueueState::end);
    }

    /// Cuts all connections: each consumer's `next` fails once, and receipts of before are stale.
    pub fn sever(&self) {
        self.change(FakeQueueState::sever_all);
    }

    /// Delivers everything unsettled again; the old receipts are stale.
    pub fn redeliver_unsettled(&self) {
        self.change(FakeQueueState::redeliver_unsettled);
    }

    /// Puts the first message with this id in once more, behind the others. `false` when there is none.
    pub fn duplicate(&self, id: &str) -> bool {
        self.change(|state| state.duplicate(id))
    }

    /// Shuffles what waits (queue mode).
    pub fn shuffle(&self, rng: &mut fastrand::Rng) {
        self.change(|state| state.shuffle(rng));
    }

    /// Loses so many of the next settlements. The deliveries stay unsettled.
    pub fn lose_settlements(&self, count: usize, answer: LostAnswer) {
        self.change(|state| state.lose_settlements(count, answer));
    }

    /// Assigns partitions to the consumer of a log that [rebalances](Mode::Log).
    pub fn assign(&self, partitions: &[u32]) {
        self.change(|state| state.script(Scripted::Assign(partitions.to_vec())));
    }

    /// Takes partitions away in order; the broker waits so long.
    pub fn revoke(&self, partitions: &[u32], wait: Duration) {
        self.change(|state| state.script(Scripted::Revoke(partitions.to_vec(), wait)));
    }

    /// Takes partitions away without asking.
    pub fn lose(&self, partitions: &[u32]) {
        self.change(|state| state.lose_partitions(partitions));
    }

    /// Gives all partitions of a log to another consumer, the `nth` of those connected (counted around,
    /// the oldest first); the owner before finds them lost.
    pub fn rebalance(&self, nth: usize) {
        self.change(|state| state.rebalance(nth));
    }

    /// What names the consumer that owns a log's partitions; never the same for two.
    pub fn owner(&self) -> Option<u64> {
        lock(&self.0.state).log.owner
    }

    pub(super) fn pause(&self, partitions: &[u32]) {
        self.change(|state| state.pause(partitions));
    }

    pub(super) fn disconnect(&self, connection: u64) {
        self.change(|state| state.disconnect(connection));
    }

    pub(super) fn settle(&self, batch: Vec<Settlement<FakeReceipt>>) -> Vec<Result<Settled, AckError>> {
        self.change(|state| {
            let parts: Vec<_> = batch.into_iter().map(Settlement::into_parts).collect();
            // Acknowledgements first: in a log a release makes the receipts behind it stale.
            let mut order: Vec<usize> = (0..parts.len()).collect();
            order.sort_by_key(|&i| !parts[i].1.is_acknowledgement());
            let mut answers: Vec<_> = order
                .into_iter()
                .filter_map(|i| parts.get(i).map(|(receipt, verdict)| (i, state.settle(receipt, *verdict))))
                .collect();
            answers.sort_by_key(|(i, _)| *i);
            answers.into_iter().map(|(_, answer)| answer).collect()
        })
    }

    /// Whether nothing is left to deliver and nothing delivered is unsettled.
    pub fn is_settled(&self) -> bool {
        lock(&self.0.state).is_settled()
    }

    /// Ids of messages that the broker would still deliver, in publish order.
    pub fn unsettled(&self) -> Vec<String> {
        lock(&self.0.state).unsettled()
    }

    /// Ids of messages that the broker will not deliver any more though nobody acknowledged them: what
    /// an acknowledgement of others covered.
    pub fn covered(&self) -> Vec<String> {
        lock(&self.0.state).covered()
    }

    /// Ids of messages that the broker will not deliver any more because an assignment was answered with a
    /// checkpoint behind them.
    pub fn skipped(&self) -> Vec<String> {
        lock(&self.0.state).skipped()
    }

    /// How often each message was handed over, in publish order.
    pub fn deliveries(&self) -> Vec<(String, u32)> {
        lock(&self.0.state).deliveries()
    }

    /// How far a log's group has come in a partition: the position where reading would go on.
    pub fn committed(&self, partition: u32) -> Option<u64> {
        lock(&self.0.state).committed(partition)
    }

    /// Queue or log.
    pub fn mode(&self) -> Mode {
        lock(&self.0.state).options().mode
    }
}
