//! The state of a fake broker, without any waiting: every change is one step under its lock.

use super::{
    Chaos, Cumulative, End, FakeOptions, FakeReceipt, Mode, Publish,
    log::{Log, LogPartition},
    ready::Ready,
};
use inbox_core::{
    AckError, AckStrength, Checkpoint, Credit, Delivery, Inbound, Partition, Position, Settled, Ticket,
    Verdict,
};
use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    time::Duration,
};
use tokio::time::Instant;

/// How a settlement that gets lost is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LostAnswer {
    /// As if it had arrived.
    Well,
    /// With an error.
    Failed,
}

/// An event that a test has asked for.
#[derive(Debug)]
pub(super) enum Scripted {
    Assign(Vec<u32>),
    Revoke(Vec<u32>, Duration),
    Lost(Vec<u32>),
}

/// What `next` does now.
#[derive(Debug)]
pub(super) enum Step {
    Deliver(Vec<Delivery<FakeReceipt>>),
    Report(Scripted),
    Severed,
    Ended,
    /// Nothing, until a change or this time.
    Wait(Option<Instant>),
}

#[derive(Debug)]
struct Record {
    inbound: Inbound,
    deliveries: u32,
    acknowledged: bool,
    /// A checkpoint of the consumer said that it is finished.
    skipped: bool,
}

#[derive(Debug)]
struct Out {
    record: usize,
    connection: u64,
    since: Instant,
    place: Place,
}

#[derive(Debug, Clone, Copy)]
enum Place {
    Queue(u64),
    Log(u32, Ticket),
}

#[derive(Debug, Default)]
struct Connection {
    severed: bool,
    ended: bool,
    events: VecDeque<Scripted>,
}

#[derive(Debug)]
pub(super) struct FakeQueueState {
    options: FakeOptions,
    records: Vec<Record>,
    ready: Ready,
    log: Log,
    /// Delivered and unsettled, by the number in the receipt. A number that is not here is stale.
    out: BTreeMap<u64, Out>,
    deliveries: u64,
    connections: BTreeMap<u64, Connection>,
    connected: u64,
    losing: VecDeque<LostAnswer>,
    ended: bool,
}

impl FakeQueueState {
    pub(super) fn new(options: FakeOptions) -> Self {
        Self {
            options,
            records: Vec::new(),
            ready: Ready::default(),
            log: Log::default(),
            out: BTreeMap::new(),
            deliveries: 0,
            connections: BTreeMap::new(),
            connected: 0,
            losing: VecDeque::new(),
            ended: false,
        }
    }

    pub(super) fn options(&self) -> &FakeOptions {
        &self.options
    }

    fn is_log(&self) -> bool {
        matches!(self.options.mode, Mode::Log { .. })
    }

    fn rebalances(&self) -> bool {
        matches!(self.options.mode, Mode::Log { rebalances: true })
    }

    // Publishing and scripting.

    pub(super) fn publish(&mut self, message: Publish) {
        let inbound = message.into_inbound(&self.options.source);
        self.add(inbound);
    }

    fn add(&mut self, mut inbound: Inbound) {
        let record = self.records.len();
        if self.is_log() {
            let open = !self.rebalances();
            let index = self.log.push(inbound.partition.number, record, open);
            let at = index as u64 * self.options.position_step;
            inbound.position = Some(Position { at, next: at + 1 });
        } else {
            self.ready.push(record);
        }
        self.records.push(Record { inbound, deliveries: 0, acknowledged: false, skipped: false });
    }

    pub(super) fn duplicate(&mut self, id: &str) -> bool {
        let found = self.records.iter().find(|r| r.inbound.native_id.as_deref() == Some(id));
        let copy = found.map(|r| r.inbound.clone());
        copy.map(|inbound| self.add(inbound)).is_some()
    }

    pub(super) fn shuffle(&mut self, rng: &mut fastrand::Rng) {
        self.ready.shuffle(rng);
    }

    pub(super) fn lose_settlements(&mut self, count: usize, answer: LostAnswer) {
        self.losing.extend(std::iter::repeat_n(answer, count));
    }

    pub(super) fn script(&mut self, event: Scripted) {
        let owner = self.log.owner.and_then(|owner| self.connections.get_mut(&owner));
        if let Some(connection) = owner {
            connection.events.push_back(event);
        }
    }

    pub(super) fn lose_partitions(&mut self, numbers: &[u32]) {
        numbers.iter().for_each(|&number| self.close_partition(number));
        self.script(Scripted::Lost(numbers.to_vec()));
    }

    pub(super) fn end(&mut self) {
        self.ended = true;
    }

    // Connections.

    pub(super) fn connect(&mut self) -> u64 {
        self.connected += 1;
        let id = self.connected;
        self.connections.insert(id, Connection::default());
        if self.is_log() {
            self.take_over(id);
        }
        id
    }

    fn take_over(&mut self, id: u64) {
        let numbers: Vec<u32> = self.log.partitions.keys().copied().collect();
        if self.log.owner.is_some() {
            self.script(Scripted::Lost(numbers.clone()));
        }
        self.log.owner = Some(id);
        let forgets = self.options.ack == AckStrength::Checkpoint;
        let open = !self.rebalances();
        for &number in &numbers {
            self.close_partition(number);
            if let Some(partition) = self.log.partitions.get_mut(&number) {
                partition.open = open;
                if forgets {
                    partition.begin_at(0);
                }
            }
        }
        if !open && !numbers.is_empty() {
            self.script(Scripted::Assign(numbers));
        }
    }

    pub(super) fn disconnect(&mut self, id: u64) {
        if self.connections.remove(&id).is_some() {
            self.return_all(|out| out.connection == id);
            if self.log.owner == Some(id) {
                self.log.owner = None;
            }
        }
    }

    pub(super) fn sever_all(&mut self) {
        let ids: Vec<u64> = self.connections.keys().copied().collect();
        ids.into_iter().for_each(|id| self.sever(id));
    }

    fn sever(&mut self, id: u64) {
        self.return_all(|out| out.connection == id);
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.severed = true;
        }
    }

    pub(super) fn redeliver_unsettled(&mut self) {
        self.return_all(|_| true);
    }

    // Partitions.

    /// The partition delivers nothing, and receipts of it are stale.
    pub(super) fn close_partition(&mut self, number: u32) {
        self.rewind(number);
        if let Some(partition) = self.log.partitions.get_mut(&number) {
            partition.open = false;
        }
    }

    /// The partitions deliver nothing for now; receipts stay good.
    pub(super) fn pause(&mut self, numbers: &[u32]) {
        for number in numbers {
            if let Some(partition) = self.log.partitions.get_mut(number) {
                partition.open = false;
            }
        }
    }

    /// The partition delivers, from the checkpoint if there is one.
    pub(super) fn open_partition(&mut self, number: u32, checkpoint: Option<&Checkpoint>) {
        let step = self.options.position_step;
        self.rewind(number);
        let Some(partition) = self.log.partitions.get_mut(&number) else { return };
        partition.open = true;
        if let Some(checkpoint) = checkpoint {
            partition.begin_at(usize::try_from(checkpoint.next.div_ceil(step)).unwrap_or(usize::MAX));
            for &record in &partition.records[..partition.committed] {
                self.records[record].skipped = true;
            }
        }
    }

    pub(super) fn partition(&self, number: u32) -> Partition {
        Partition { source: self.options.source.clone(), number }
    }

    fn rewind(&mut self, number: u32) {
        self.out.retain(|_, out| !matches!(out.place, Place::Log(n, _) if n == number));
        if let Some(partition) = self.log.partitions.get_mut(&number) {
            partition.rewind();
        }
    }

    fn return_all(&mut self, which: impl Fn(&Out) -> bool) {
        let numbers: Vec<u64> = self.out.iter().filter(|(_, out)| which(out)).map(|(&n, _)| n).collect();
        numbers.into_iter().for_each(|number| self.give_back(number));
    }

    /// Makes one unsettled delivery come again. In a log everything behind it comes again too.
    fn give_back(&mut self, number: u64) {
        let Some(out) = self.out.remove(&number) else { return };
        match out.place {
            Place::Queue(place) => self.ready.put_back(place, out.record),
            Place::Log(partition, _) => self.rewind(partition),
        }
    }

    // Delivering.

    pub(super) fn step(&mut self, id: u64, credit: &Credit, now: Instant) -> Step {
        self.return_expired(now);
        let Some(connection) = self.connections.get_mut(&id) else { return Step::Ended };
        if std::mem::take(&mut connection.severed) {
            return Step::Severed;
        }
        if connection.ended || self.ended {
            return Step::Ended;
        }
        if let Some(event) = connection.events.pop_front() {
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
        Step::Deliver(picked.into_iter().filter_map(|pick| self.hand_over(id, pick, now)).collect())
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
        let mut picked = Vec::new();
        if room.left == 0 || credit.bytes == 0 {
            return picked;
        }
        let reorders = |chaos: &mut Chaos| chaos.rng.f64() < chaos.reorder;
        let chaos = self.options.chaos.as_mut();
        if self.is_log_owned_by(id) {
            let mut numbers: Vec<u32> = self.log.partitions.keys().copied().collect();
            if let Some(chaos) = self.options.chaos.as_mut() {
                if reorders(chaos) {
                    chaos.rng.shuffle(&mut numbers);
                }
            }
            for number in numbers {
                let Some(partition) = self.log.partitions.get(&number) else { continue };
                let unread: &[usize] = if partition.open { &partition.records[partition.read..] } else { &[] };
                for &record in unread {
                    if !room.takes(&self.records[record].inbound) {
                        break;
                    }
                    picked.push((Pick::Log(number), record));
                }
            }
        } else if !self.is_log() {
            if let Some(chaos) = chaos {
                if !self.ready.is_empty() && reorders(chaos) {
                    self.ready.shuffle(&mut chaos.rng);
                }
            }
            for (place, record) in self.ready.iter() {
                if room.takes(&self.records[record].inbound) {
                    picked.push((Pick::Queue(place), record));
                } else if room.is_full() {
                    break;
                }
            }
        }
        picked
    }

    fn is_log_owned_by(&self, id: u64) -> bool {
        self.is_log() && self.log.owner == Some(id)
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

    // Settling.

    pub(super) fn settle(&mut self, receipt: &FakeReceipt, verdict: Verdict) -> Result<Settled, AckError> {
        let Some(out) = self.out.get(&receipt.number) else { return Ok(Settled::Stale) };
        let (record, place) = (out.record, out.place);
        if let Some(answer) = self.loses() {
            return match answer {
                LostAnswer::Well => Ok(Settled::Confirmed),
                LostAnswer::Failed => Err(AckError::new(self.options.source.as_str(), "the connection is gone")),
            };
        }
        if !verdict.is_acknowledgement() {
            self.give_back(receipt.number);
            return Ok(Settled::Confirmed);
        }
        self.out.remove(&receipt.number);
        self.records[record].acknowledged = true;
        let Place::Log(number, ticket) = place else { return Ok(Settled::Confirmed) };
        let highest = self.options.cumulative == Cumulative::PlantedHighest;
        let Some(partition) = self.log.partitions.get_mut(&number) else { return Ok(Settled::Stale) };
        let mut moved = partition.finish(ticket);
        if highest {
            let behind = partition.records.iter().position(|&r| r == record).map_or(0, |index| index + 1);
            moved |= behind > partition.committed;
            partition.committed = partition.committed.max(behind);
        }
        Ok(if moved { Settled::Confirmed } else { Settled::Deferred })
    }

    fn loses(&mut self) -> Option<LostAnswer> {
        self.losing.pop_front().or_else(|| {
            let chaos = self.options.chaos.as_mut()?;
            let answer = if chaos.rng.bool() { LostAnswer::Well } else { LostAnswer::Failed };
            chaos.strikes(chaos.lose).then_some(answer)
        })
    }

    // Looking.

    pub(super) fn is_settled(&self) -> bool {
        self.out.is_empty()
            && self.ready.is_empty()
            && self.log.partitions.values().all(LogPartition::is_finished)
    }

    pub(super) fn unsettled(&self) -> Vec<String> {
        let open = self.open_records();
        (0..self.records.len()).filter(|record| open.contains_key(record)).map(|r| self.id(r)).collect()
    }

    pub(super) fn covered(&self) -> Vec<String> {
        let open = self.open_records();
        let is_covered = |&record: &usize| {
            let entry = &self.records[record];
            !open.contains_key(&record) && !entry.acknowledged && !entry.skipped
        };
        (0..self.records.len()).filter(is_covered).map(|r| self.id(r)).collect()
    }

    /// Records that would still be delivered.
    fn open_records(&self) -> HashMap<usize, ()> {
        let unfinished = |p: &LogPartition| p.records.get(p.committed..).unwrap_or_default().to_vec();
        let in_log = self.log.partitions.values().flat_map(unfinished);
        let in_queue = self.ready.iter().map(|(_, record)| record);
        // What is out in a log is beyond the group's position, or covered by a planted fault.
        let out = self.out.values().filter(|out| matches!(out.place, Place::Queue(_))).map(|out| out.record);
        in_queue.chain(in_log).chain(out).map(|record| (record, ())).collect()
    }

    pub(super) fn deliveries(&self) -> Vec<(String, u32)> {
        (0..self.records.len()).map(|r| (self.id(r), self.records[r].deliveries)).collect()
    }

    pub(super) fn committed(&self, number: u32) -> Option<u64> {
        let partition = self.log.partitions.get(&number)?;
        let last = partition.committed.checked_sub(1).map(|index| partition.records[index]);
        Some(last.and_then(|record| self.records[record].inbound.position).map_or(0, |p| p.next))
    }

    fn id(&self, record: usize) -> String {
        self.records[record].inbound.native_id.as_deref().unwrap_or("-").to_owned()
    }
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
