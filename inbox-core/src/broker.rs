//! The contract of brokers: where messages come from, and where settlements go.

use crate::{Checkpoint, ClaimKey, Fingerprint, Inbound, Partition, Settlement};
use async_trait::async_trait;
use std::{collections::HashMap, error::Error, time::Duration};
use tokio::{sync::oneshot, time::Instant};

/// A source of deliveries.
///
/// Anyone may implement this trait for a queue, a log or a file. New methods come only with a default;
/// new events only behind `#[non_exhaustive]`.
///
/// # Contract
/// Each clause names the cases of `inbox_testkit::suite::broker` that check it.
///
/// 1. *At least once.* A delivery that was not settled as acknowledged is delivered again, at the
///    latest by the next consumer of the same group. (`unsettled_comes_again`, `close_gives_back`,
///    `close_without_a_delivery`; what was acknowledged does not: `acknowledged_does_not_come_again`)
/// 2. *Cancel safety.* Dropping the future of [`next`](Broker::next) may cause redelivery, never loss.
///    (`cancelled_next_loses_nothing`)
/// 3. *Credit.* One answer holds at most [`Credit::messages`] deliveries and, but for a single one that
///    is larger by itself, at most [`Credit::bytes`]. With no credit only other events are returned.
///    (`credit_counts_messages`, `credit_counts_bytes`, `no_credit_no_deliveries`)
/// 4. *Order.* Deliveries of one partition come with rising positions inside one assignment.
///    (`order_is_kept`, `positions_rise`)
/// 5. *Assignment.* A broker with partitions delivers from one only after it returned
///    [`Event::Assigned`] for it and the assignment was answered or dropped, and not after
///    [`Event::Revoked`] or [`Event::Lost`]. (`nothing_before_the_assignment`,
///    `assignment_begins_at_the_checkpoint`)
/// 6. *Settlements.* A [`Settlement`] that is not acknowledged leads to redelivery, or to nothing where
///    redelivery comes by itself; it never loses the message. (`released_comes_again`,
///    `delayed_release_comes_again`)
/// 7. *End.* After [`Event::Ended`] nothing more comes; `next` goes on to answer `Ended`. (`ended_stays_ended`)
/// 8. *Content.* A record comes as it was published, as far as the format can carry it; a tombstone is
///    not an empty payload. (`payloads_are_exact`, `large_payload`, `tombstones`, `keys`, `headers`)
/// 9. *Capabilities.* What a broker says of itself is true and does not change. (`capabilities_stay`,
///    `deliveries_are_counted`)
#[async_trait]
pub trait Broker: Send + 'static {
    /// What names a delivery to this broker.
    type Receipt: Send + 'static;
    /// The handle that takes settlements.
    type Ack: Ack<Receipt = Self::Receipt>;

    /// What this broker can do. The same answer for the whole life of the value.
    fn capabilities(&self) -> Capabilities;

    /// A handle for settlements; it works while the broker lives.
    fn ack_handle(&self) -> Self::Ack;

    /// What happened next; waits until something did.
    ///
    /// # Errors
    /// [`BrokerError`]: when it is [transient](BrokerError::is_transient) the caller waits and calls
    /// again, otherwise the run ends with it.
    async fn next(&mut self, credit: &Credit) -> Result<Event<Self::Receipt>, BrokerError>;

    /// Ends consumption: gives back what was delivered and not settled, and disconnects, until `by`.
    ///
    /// # Errors
    /// [`BrokerError`] when it could not be ended cleanly; nothing is lost by that.
    async fn close(self, by: Instant) -> Result<(), BrokerError>
    where
        Self: Sized;
}

/// How many deliveries may come with the next answer.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Credit {
    /// At most this many deliveries.
    pub messages: usize,
    /// At most this many bytes, counted by [`Inbound::bytes`].
    pub bytes: usize,
    /// Partitions that must not deliver now.
    pub held: Vec<Partition>,
}

impl Credit {
    /// So many messages and bytes, from every partition.
    pub fn new(messages: usize, bytes: usize) -> Self {
        Self { messages, bytes, held: Vec::new() }
    }

    /// Whether nothing may be delivered.
    pub fn is_empty(&self) -> bool {
        self.messages == 0 || self.bytes == 0
    }
}

/// What a broker reports.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<R> {
    /// Messages to handle; never an empty list.
    Deliveries(Vec<Delivery<R>>),
    /// Partitions became ours. Nothing comes from them until the assignment is answered or dropped.
    Assigned(Assignment),
    /// Partitions are being taken away in order. The broker waits until the revocation is dropped, or
    /// its deadline passes, before it lets them go.
    Revoked(Revocation),
    /// Partitions were lost: others may already own them. No settlement of theirs counts any more.
    Lost(Vec<Partition>),
    /// Nothing to deliver now.
    Idle,
    /// The source has ended.
    Ended,
}

/// One hand-over of a message.
#[derive(Debug)]
#[non_exhaustive]
pub struct Delivery<R> {
    /// The record.
    pub inbound: Inbound,
    /// What names this delivery to the broker.
    pub receipt: R,
    /// How often it was delivered before, when the broker counts; at least this often.
    pub deliveries_before: Option<u32>,
    /// Claim key and fingerprint, when inbox itself gave them to the record before; otherwise the
    /// runner's rules do.
    pub known: Option<(ClaimKey, Fingerprint)>,
}

impl<R> Delivery<R> {
    /// A delivery of `inbound`.
    pub fn new(inbound: Inbound, receipt: R) -> Self {
        Self { inbound, receipt, deliveries_before: None, known: None }
    }
}

/// Partitions that became ours, and the reply that says where to begin.
#[derive(Debug)]
pub struct Assignment {
    partitions: Vec<Partition>,
    reply: Option<oneshot::Sender<HashMap<Partition, Checkpoint>>>,
}

impl Assignment {
    /// An assignment and the end where the broker receives the positions. It receives an error when the
    /// assignment is dropped unanswered: then it begins where it would by itself.
    pub fn new(partitions: Vec<Partition>) -> (Self, oneshot::Receiver<HashMap<Partition, Checkpoint>>) {
        let (reply, positions) = oneshot::channel();
        (Self { partitions, reply: Some(reply) }, positions)
    }

    /// The partitions.
    pub fn partitions(&self) -> &[Partition] {
        &self.partitions
    }

    /// Begins each partition at its checkpoint; those without one begin where the broker would by itself.
    pub fn start_at(mut self, checkpoints: HashMap<Partition, Checkpoint>) {
        if let Some(reply) = self.reply.take() {
            // The broker may be gone already; then there is nothing to begin.
            let _gone = reply.send(checkpoints);
        }
    }
}

/// Partitions that are being taken away. Dropping it hands them over.
#[derive(Debug)]
pub struct Revocation {
    partitions: Vec<Partition>,
    by: Instant,
    _done: oneshot::Sender<()>,
}

impl Revocation {
    /// A revocation and the end that resolves (with an error) when the consumer has let go.
    pub fn new(partitions: Vec<Partition>, by: Instant) -> (Self, oneshot::Receiver<()>) {
        let (done, released) = oneshot::channel();
        (Self { partitions, by, _done: done }, released)
    }

    /// The partitions.
    pub fn partitions(&self) -> &[Partition] {
        &self.partitions
    }

    /// How long the broker waits.
    pub fn deadline(&self) -> Instant {
        self.by
    }
}

/// How far a broker keeps order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Order {
    /// Not at all.
    None,
    /// Inside a partition, redeliveries apart.
    Partition,
}

/// What an acknowledgement is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AckStrength {
    /// There is none: progress is a position, kept as a checkpoint in the store.
    Checkpoint,
    /// It was written to the connection; nobody confirms it.
    Sent,
    /// The broker confirmed it.
    Confirmed,
}

/// What a broker can do: the runner's builder refuses what it cannot honour, the conformance suite
/// checks that it is true.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// How far order is kept.
    pub order: Order,
    /// What an acknowledgement is worth.
    pub ack: AckStrength,
    /// Whether a released delivery can come back after a chosen time.
    pub delayed_retry: bool,
    /// Whether deliveries are counted by the broker.
    pub counts_deliveries: bool,
    /// Whether every record has a position that stays the same, from which reading can begin again.
    pub positional: bool,
    /// Whether partitions are assigned and revoked while it runs.
    pub rebalances: bool,
    /// Whether it reads what an inbox keeps, see [`StoredMessages`](crate::StoredMessages): the rows are
    /// taken instead of claimed.
    pub reads_stored: bool,
}

impl Capabilities {
    /// No order, nothing counted, nothing positional, and this worth of an acknowledgement.
    pub const fn new(ack: AckStrength) -> Self {
        Self {
            order: Order::None,
            ack,
            delayed_retry: false,
            counts_deliveries: false,
            positional: false,
            rebalances: false,
            reads_stored: false,
        }
    }

    /// Sets how far order is kept.
    #[must_use]
    pub const fn order(self, order: Order) -> Self {
        Self { order, ..self }
    }

    /// Sets whether records have lasting positions.
    #[must_use]
    pub const fn positional(self, positional: bool) -> Self {
        Self { positional, ..self }
    }

    /// Sets whether partitions come and go.
    #[must_use]
    pub const fn rebalances(self, rebalances: bool) -> Self {
        Self { rebalances, ..self }
    }

    /// Sets whether it reads what an inbox keeps.
    #[must_use]
    pub const fn reads_stored(self, reads_stored: bool) -> Self {
        Self { reads_stored, ..self }
    }

    /// Sets whether deliveries are counted.
    #[must_use]
    pub const fn counts_deliveries(self, counts_deliveries: bool) -> Self {
        Self { counts_deliveries, ..self }
    }

    /// Sets whether a released delivery can be delayed.
    #[must_use]
    pub const fn delayed_retry(self, delayed_retry: bool) -> Self {
        Self { delayed_retry, ..self }
    }
}

/// Takes settlements. Clones settle for the same broker.
///
/// # Contract
/// Each clause names the cases of `inbox_testkit::suite::broker` that check it.
///
/// 1. One answer per settlement, in order. (`one_answer_per_settlement`)
/// 2. A settlement never covers a delivery that is not itself settled, also with cumulative
///    acknowledgements. (`settling_covers_nothing_else`, `settling_in_one_call_covers_nothing_else`)
/// 3. A receipt from before a rebalance or reconnect changes nothing and is answered with
///    [`Settled::Stale`]. (`stale_receipts_change_nothing`; settled twice: `settling_twice_is_harmless`)
/// 4. Dropping the future leaves each delivery settled or to be redelivered.
///    (`cancelled_settle_loses_nothing`)
#[async_trait]
pub trait Ack: Clone + Send + Sync + 'static {
    /// What names a delivery.
    type Receipt: Send + 'static;

    /// Tells the broker what became of deliveries.
    async fn settle(&self, batch: Vec<Settlement<Self::Receipt>>) -> Vec<Result<Settled, AckError>>;
}

/// How far a settlement got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Settled {
    /// The broker confirmed it.
    Confirmed,
    /// It was sent; this broker confirms nothing.
    Sent,
    /// It is noted, and goes out with a later one or as a checkpoint.
    Deferred,
    /// The receipt is from before a rebalance or reconnect: nothing was changed.
    Stale,
}

/// A settlement that failed. After a commit this is harmless: the message is redelivered and found.
#[derive(Debug, thiserror::Error)]
#[error("acknowledging to {target}: {why}")]
pub struct AckError {
    target: String,
    why: String,
}

impl AckError {
    /// A failure at `target` (the queue, topic or file).
    pub fn new(target: impl Into<String>, why: impl Into<String>) -> Self {
        Self { target: target.into(), why: why.into() }
    }
}

/// A broker that failed to deliver.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct BrokerError {
    message: String,
    transient: bool,
    retry_after: Option<Duration>,
    #[source]
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl BrokerError {
    /// An error that waiting can mend (a lost connection, say). `message` says in one line what was
    /// being done, to what, and what to do next.
    pub fn transient(message: impl Into<String>) -> Self {
        Self { message: message.into(), transient: true, retry_after: None, source: None }
    }

    /// An error that ends the run. `message` as above.
    pub fn fatal(message: impl Into<String>) -> Self {
        Self { message: message.into(), transient: false, retry_after: None, source: None }
    }

    /// Adds the cause.
    #[must_use]
    pub fn caused_by(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Whether waiting can mend it.
    pub fn is_transient(&self) -> bool {
        self.transient
    }
}
