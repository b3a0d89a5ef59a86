//! A consumer as the cases see it: events that are not under test are dealt with.

use super::{
    harness::{BrokerHarness, ReceiptOf, Record, by_checkpoint},
    settling::{acknowledgement, release},
};
use inbox_core::{
    Ack, Broker, Checkpoint, Credit, Delivery, Event, Fingerprint, Inbound, Partition, RecordMark, Settled,
    Settlement,
};
use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};
use tokio::time::timeout;

/// What comes at all comes sooner than this.
pub(super) const COMES_WITHIN: Duration = Duration::from_secs(30);

pub(super) type Got<H> = Delivery<ReceiptOf<H>>;

/// Checkpoints of the group, as a store would keep them for it: up to the lowest unfinished record.
#[derive(Debug, Default)]
pub(super) struct Books {
    checkpoints: HashMap<Partition, Checkpoint>,
    /// Records that were delivered to this consumer, by position, and whether they are finished.
    seen: HashMap<Partition, BTreeMap<u64, (Checkpoint, bool)>>,
}

impl Books {
    fn mark_of(inbound: &Inbound) -> Option<Checkpoint> {
        let position = inbound.position?;
        let digest = Fingerprint::of_payload(inbound.payload.as_deref());
        let mark = RecordMark { at: position.at, digest, timestamp_ms: inbound.timestamp_ms };
        Some(Checkpoint::new(position.next, 1, Some(mark)))
    }

    fn delivered(&mut self, inbound: &Inbound) {
        if let (Some(position), Some(checkpoint)) = (inbound.position, Self::mark_of(inbound)) {
            let seen = self.seen.entry(inbound.partition.clone()).or_default();
            seen.insert(position.at, (checkpoint, false));
        }
    }

    fn finished(&mut self, partition: &Partition, at: u64) {
        let Some(seen) = self.seen.get_mut(partition) else { return };
        if let Some((_, finished)) = seen.get_mut(&at) {
            *finished = true;
        }
        while let Some(first) = seen.first_entry().filter(|first| first.get().1) {
            self.checkpoints.insert(partition.clone(), first.remove().0);
        }
    }
}

/// A connected consumer.
pub(super) struct Consumer<'h, H: BrokerHarness> {
    h: &'h H,
    broker: H::Broker,
    books: Books,
    assigned: bool,
    pub(super) ended: bool,
}

impl<'h, H: BrokerHarness> Consumer<'h, H> {
    /// The first consumer of the group, or one that begins where the broker would by itself.
    pub(super) async fn connect(h: &'h H) -> Self {
        Self::connect_at(h, HashMap::new()).await
    }

    pub(super) async fn connect_at(h: &'h H, checkpoints: HashMap<Partition, Checkpoint>) -> Self {
        let books = Books { checkpoints, seen: HashMap::new() };
        Self { h, broker: h.connect().await, books, assigned: false, ended: false }
    }

    /// Dies; where the group would go on.
    pub(super) async fn gone(self) -> HashMap<Partition, Checkpoint> {
        self.h.kill(self.broker).await;
        self.books.checkpoints
    }

    /// Dies; another consumer of the group comes.
    pub(super) async fn die(self) -> Self {
        let h = self.h;
        Self::connect_at(h, self.gone().await).await
    }

    /// Closes; another consumer of the group comes.
    pub(super) async fn close(self) -> Self {
        let (h, checkpoints) = (self.h, self.books.checkpoints);
        let by = tokio::time::Instant::now() + COMES_WITHIN;
        self.broker.close(by).await.expect("it closes");
        Self::connect_at(h, checkpoints).await
    }

    pub(super) fn broker(&mut self) -> &mut H::Broker {
        &mut self.broker
    }

    pub(super) fn by_checkpoint(&self) -> bool {
        by_checkpoint(&self.broker)
    }

    /// Whether partitions came with an assignment.
    pub(super) fn was_assigned(&self) -> bool {
        self.assigned
    }

    pub(super) fn ack(&self) -> <H::Broker as Broker>::Ack {
        self.broker.ack_handle()
    }

    /// Takes an event apart; deliveries come out.
    pub(super) fn hear(&mut self, event: Event<ReceiptOf<H>>) -> Vec<Got<H>> {
        match event {
            Event::Deliveries(deliveries) => {
                assert!(!deliveries.is_empty(), "deliveries are never an empty list");
                deliveries.iter().for_each(|delivery| self.books.delivered(&delivery.inbound));
                return deliveries;
            }
            Event::Assigned(assignment) => {
                self.assigned = true;
                assignment.start_at(self.books.checkpoints.clone());
            }
            Event::Ended => self.ended = true,
            // Dropping a revocation hands the partitions over.
            _ => {}
        }
        Vec::new()
    }

    /// The next deliveries; none when the source has ended.
    pub(super) async fn next(&mut self, credit: &Credit) -> Vec<Got<H>> {
        let wait = async {
            loop {
                let event = self.broker.next(credit).await.expect("the broker answers");
                let deliveries = self.hear(event);
                if !deliveries.is_empty() || self.ended {
                    return deliveries;
                }
            }
        };
        timeout(COMES_WITHIN, wait).await.expect("deliveries come")
    }

    /// Exactly so many, one answer after the other.
    pub(super) async fn take(&mut self, count: usize) -> Vec<Got<H>> {
        let mut taken = Vec::new();
        while taken.len() < count {
            let more = self.next(&Credit::new(count - taken.len(), usize::MAX)).await;
            assert!(!self.ended, "it ended after {} of {count}", taken.len());
            taken.extend(more);
        }
        assert_eq!(taken.len(), count, "no more than the credit");
        taken
    }

    /// Everything until all of these payloads have come, redeliveries of others included.
    pub(super) async fn until(&mut self, payloads: &[String]) -> Vec<Got<H>> {
        let mut got: Vec<Got<H>> = Vec::new();
        let missing = |got: &[Got<H>]| -> Vec<String> {
            let came = texts(got);
            payloads.iter().filter(|payload| !came.contains(payload)).cloned().collect()
        };
        let wait = async {
            while !missing(&got).is_empty() && !self.ended {
                let more = self.next(&plenty()).await;
                got.extend(more);
            }
        };
        let in_time = timeout(COMES_WITHIN, wait).await.is_ok();
        assert!(missing(&got).is_empty(), "{:?} did not come (in time: {in_time})", missing(&got));
        got
    }

    /// Nothing is delivered for as long as nothing takes to count.
    pub(super) async fn assert_quiet(&mut self, credit: &Credit, why: &str) {
        let quiet = self.h.traits().quiet;
        let wait = async {
            while !self.ended {
                let event = self.broker.next(credit).await.expect("the broker answers");
                assert_eq!(texts(&self.hear(event)), Vec::<String>::new(), "{why}");
            }
        };
        let _nothing_came = timeout(quiet, wait).await;
    }

    /// Sends settlements; one answer each.
    pub(super) async fn settle(&mut self, batch: Vec<Settlement<ReceiptOf<H>>>) -> Vec<Settled> {
        let count = batch.len();
        let answers = timeout(COMES_WITHIN, self.ack().settle(batch)).await.expect("settling is answered");
        assert_eq!(answers.len(), count, "one answer per settlement");
        answers.into_iter().map(|answer| answer.expect("it is settled")).collect()
    }

    /// Acknowledges, each after its own commit, in one call.
    pub(super) async fn acknowledge(&mut self, deliveries: Vec<Got<H>>) -> Vec<Settled> {
        let places: Vec<_> = deliveries.iter().map(|delivery| place(&delivery.inbound)).collect();
        let mut batch = Vec::new();
        for delivery in deliveries {
            batch.push(acknowledgement(delivery).await);
        }
        let answers = self.settle(batch).await;
        // The checkpoint moves in the transaction of the effects; for the broker it is moved here.
        places.into_iter().flatten().for_each(|(partition, at)| self.books.finished(&partition, at));
        answers
    }

    /// Gives one back.
    pub(super) async fn release(&mut self, delivery: Got<H>, after: Option<Duration>) -> Settled {
        self.settle(vec![release(delivery, after)]).await.remove(0)
    }

    /// Where the group would go on.
    pub(super) fn checkpoints(&self) -> &HashMap<Partition, Checkpoint> {
        &self.books.checkpoints
    }
}

fn place(inbound: &Inbound) -> Option<(Partition, u64)> {
    Some((inbound.partition.clone(), inbound.position?.at))
}

pub(super) fn plenty() -> Credit {
    Credit::new(1000, usize::MAX)
}

/// Payloads as text.
pub(super) fn texts<R>(deliveries: &[Delivery<R>]) -> Vec<String> {
    let text = |delivery: &Delivery<R>| {
        String::from_utf8_lossy(delivery.inbound.payload.as_deref().unwrap_or_default()).into_owned()
    };
    deliveries.iter().map(text).collect()
}

/// Payloads that are told apart by a number, and can be lines.
pub(super) fn named(name: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("\"{name}-{number}\"")).collect()
}

pub(super) async fn publish<H: BrokerHarness>(h: &H, payloads: &[String]) {
    h.publish(payloads.iter().map(|payload| Record::new(payload.clone())).collect()).await;
}
