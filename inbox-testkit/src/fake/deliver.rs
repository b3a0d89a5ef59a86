//! Delivering: what goes out next, within the credit and with the trouble that chaos wants.

use super::{
    Chaos, End, FakeReceipt,
    state::{FakeQueueState, Out, Place, Step},
};
use inbox_core::{Credit, Delivery, Inbound};
use tokio::time::Instant;

impl FakeQueueState {
    pub(super) fn step(&mut self, id: u64, credit: &Credit, now: Instant) -> Step {
        self.return_expired(now);
        let Some(connection) = self.connections.get_mut(&id) else { return Step::Ended };
        if std::mem::take(&mut connection.severed) {
            return Step::Severed;
        }
        if connection.ended || self.ended {
            return Step::Ended;
        }
        if let Some(event) = connection.next_event() {
            return Step::Report(event);
        }
        if self.options.end == End::WhenSettled && self.is_settled() {
            if let Some(connection) = self.connections.get_mut(&id) {
                connection.ended = true;
            }
            return Step::Ended;
        }
        let picked = self.pick(id, credit);
        if picked.is_empty() {
            let oldest = self.out.values().map(|out| out.since).min();
            let expires = oldest.zip(self.options.redeliver_after).map(|(since, after)| since + after);
            return Step::Wait(expires);
        }
        if self.trouble(id) {
            // What was picked may have changed: look again.
            return self.step(id, credit, now);
        }
        let deliveries = picked.into_iter().filter_map(|pick| self.hand_over(id, pick, now)).collect();
        self.rebalance_when_planned();
        Step::Deliver(deliveries)
    }

    fn return_expired(&mut self, now: Instant) {
        if let Some(after) = self.options.redeliver_after {
            self.return_all(|out| out.since + after <= now);
        }
    }

    /// Rolls for trouble before a delivery; `true` when something changed that `next` has to see.
    fn trouble(&mut self, id: u64) -> bool {
        let Some(mut chaos) = self.options.chaos.take() else { return false };
        let severs = chaos.strikes(chaos.sever);
        let redelivers = !severs && chaos.strikes(chaos.redeliver);
        self.options.chaos = Some(chaos);
        if severs {
            self.sever(id);
        }
        if redelivers {
            self.redeliver_unsettled();
        }
        severs || redelivers
    }

    /// What would be delivered now: the place, and the record.
    fn pick(&mut self, id: u64, credit: &Credit) -> Vec<(Pick, usize)> {
        let mut room = Room { credit, left: credit.messages.min(self.options.deliveries_max), bytes: 0 };
        if room.is_full() || credit.bytes == 0 {
            return Vec::new();
        }
        if !self.is_log() {
            return self.pick_from_queue(&mut room);
        }
        if self.log.owner == Some(id) { self.pick_from_log(&mut room) } else { Vec::new() }
    }

    fn pick_from_queue(&mut self, room: &mut Room<'_>) -> Vec<(Pick, usize)> {
        if let Some(rng) = reordering(&mut self.options.chaos).filter(|_| !self.ready.is_empty()) {
            self.ready.shuffle(rng);
        }
        let mut picked = Vec::new();
        for (place, record) in self.ready.iter() {
            if room.takes(&self.records[record].inbound) {
                picked.push((Pick::Queue(place), record));
            } else if room.is_full() {
                break;
            }
        }
        picked
    }

    fn pick_from_log(&mut self, room: &mut Room<'_>) -> Vec<(Pick, usize)> {
        let mut numbers: Vec<u32> = self.log.partitions.keys().copied().collect();
        if let Some(rng) = reordering(&mut self.options.chaos) {
            rng.shuffle(&mut numbers);
        }
        let mut picked = Vec::new();
        for number in numbers {
            let Some(partition) = self.log.partitions.get(&number).filter(|p| p.open) else { continue };
            for &record in &partition.records[partition.read..] {
                if !room.takes(&self.records[record].inbound) {
                    break;
                }
                picked.push((Pick::Log(number), record));
            }
        }
        picked
    }

    fn hand_over(
        &mut self,
        connection: u64,
        (pick, record): (Pick, usize),
        since: Instant,
    ) -> Option<Delivery<FakeReceipt>> {
        let position = self.records[record].inbound.position;
        let place = match pick {
            Pick::Queue(place) => {
                self.ready.remove(place);
                Place::Queue(place)
            }
            Pick::Log(number) => {
                let partition = self.log.partitions.get_mut(&number)?;
                Place::Log(number, partition.deliver(position?)?)
            }
        };
        self.deliveries += 1;
        let number = self.deliveries;
        self.out.insert(number, Out { record, connection, since, place });
        let counts = self.options.counts_deliveries;
        let entry = &mut self.records[record];
        let before = entry.deliveries;
        entry.deliveries += 1;
        let inbound = entry.inbound.clone();
        let mut delivery = Delivery::new(inbound.clone(), FakeReceipt { number, connection });
        delivery.deliveries_before = counts.then_some(before);
        if self.options.chaos.as_mut().is_some_and(|chaos| chaos.strikes(chaos.duplicate)) {
            self.add(inbound);
        }
        Some(delivery)
    }
}

/// The generator, when chaos wants another order now.
fn reordering(chaos: &mut Option<Chaos>) -> Option<&mut fastrand::Rng> {
    chaos.as_mut().and_then(|chaos| (chaos.rng.f64() < chaos.reorder).then_some(&mut chaos.rng))
}

#[derive(Debug, Clone, Copy)]
enum Pick {
    Queue(u64),
    Log(u32),
}

/// What still fits into one answer.
struct Room<'c> {
    credit: &'c Credit,
    left: usize,
    bytes: usize,
}

impl Room<'_> {
    fn is_full(&self) -> bool {
        self.left == 0
    }

    fn takes(&mut self, inbound: &Inbound) -> bool {
        if self.left == 0 || self.credit.held.contains(&inbound.partition) {
            return false;
        }
        let bytes = self.bytes.saturating_add(inbound.bytes());
        // A single one may be larger than the credit, or it would never come.
        if self.bytes > 0 && bytes > self.credit.bytes {
            self.left = 0;
            return false;
        }
        self.left -= 1;
        self.bytes = bytes;
        true
    }
}
