//! The state of a fake broker, without any waiting: every change is one step under its lock.

use super::{FakeOptions, FakeReceipt, Mode, Publish, log::Log, ready::Ready};
use inbox_core::{AckStrength, Checkpoint, Delivery, Inbound, Partition, Position, Ticket};
use std::{
    collections::{BTreeMap, VecDeque},
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
pub(super) struct Record {
    pub(super) inbound: Inbound,
    pub(super) deliveries: u32,
    pub(super) acknowledged: bool,
    /// A checkpoint of the consumer said that it is finished.
    pub(super) skipped: bool,
}

#[derive(Debug)]
pub(super) struct Out {
    pub(super) record: usize,
    pub(super) connection: u64,
    pub(super) since: Instant,
    pub(super) place: Place,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Place {
    Queue(u64),
    Log(u32, Ticket),
}

#[derive(Debug, Default)]
pub(super) struct Connection {
    pub(super) severed: bool,
    pub(super) ended: bool,
    pub(super) events: VecDeque<Scripted>,
    /// It has not let go yet of what is being taken from it.
    revoking: bool,
}

impl Connection {
    /// The next event to report. Nothing is assigned before what is being taken away has been let go.
    pub(super) fn next_event(&mut self) -> Option<Scripted> {
        let waits = self.revoking && matches!(self.events.front(), Some(Scripted::Assign(_)));
        if waits { None } else { self.events.pop_front() }
    }
}

#[derive(Debug)]
pub(super) struct FakeQueueState {
    pub(super) options: FakeOptions,
    pub(super) records: Vec<Record>,
    pub(super) ready: Ready,
    pub(super) log: Log,
    /// Delivered and unsettled, by the number in the receipt. A number that is not here is stale.
    pub(super) out: BTreeMap<u64, Out>,
    pub(super) deliveries: u64,
    pub(super) connections: BTreeMap<u64, Connection>,
    connected: u64,
    pub(super) losing: VecDeque<LostAnswer>,
    pub(super) ended: bool,
    /// What is revoked next is assigned again when it has been let go.
    comes_back: bool,
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
            comes_back: false,
        }
    }

    pub(super) fn options(&self) -> &FakeOptions {
        &self.options
    }

    pub(super) fn is_log(&self) -> bool {
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

    pub(super) fn add(&mut self, mut inbound: Inbound) {
        let record = self.records.len();
        if self.is_log() {
            let open = !self.rebalances();
            let number = inbound.partition.number;
            if !open && !self.log.partitions.contains_key(&number) {
                // A partition that is new goes to whoever owns the others.
                self.script(Scripted::Assign(vec![number]));
            }
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

    /// Begins the rebalance that the options plan, when its time has come.
    pub(super) fn rebalance_when_planned(&mut self) {
        let planned = self.options.revoke_after.take_if(|(after, _)| self.deliveries >= *after);
        if let Some((_, wait)) = planned.filter(|_| self.rebalances()) {
            self.comes_back = true;
            self.script(Scripted::Revoke(self.log.partitions.keys().copied().collect(), wait));
        }
    }

    /// Revoked partitions were let go, or their time is over.
    pub(super) fn let_go(&mut self, numbers: &[u32]) {
        numbers.iter().for_each(|&number| self.close_partition(number));
        if std::mem::take(&mut self.comes_back) {
            self.script(Scripted::Assign(numbers.to_vec()));
        }
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
        if let Some(before) = self.log.owner.and_then(|owner| self.connections.get_mut(&owner)) {
            // What it was still to be told is about partitions that are another's now.
            before.events.clear();
            before.events.push_back(Scripted::Lost(numbers.clone()));
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

    /// The consumer that is the `nth` of those connected, the oldest first, gets everything.
    pub(super) fn rebalance(&mut self, nth: usize) {
        let nth_id = self.connections.keys().nth(nth % self.connections.len().max(1)).copied();
        if let Some(id) = nth_id.filter(|&id| self.is_log() && self.log.owner != Some(id)) {
            self.take_over(id);
        }
    }

    pub(super) fn set_revoking(&mut self, id: u64, revoking: bool) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.revoking = revoking;
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

    pub(super) fn sever(&mut self, id: u64) {
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

    pub(super) fn return_all(&mut self, which: impl Fn(&Out) -> bool) {
        let numbers: Vec<u64> = self.out.iter().filter(|(_, out)| which(out)).map(|(&n, _)| n).collect();
        numbers.into_iter().for_each(|number| self.give_back(number));
    }

    /// Makes one unsettled delivery come again. In a log everything behind it comes again too.
    pub(super) fn give_back(&mut self, number: u64) {
        let Some(out) = self.out.remove(&number) else { return };
        match out.place {
            Place::Queue(place) => self.ready.put_back(place, out.record),
            Place::Log(partition, _) => self.rewind(partition),
        }
    }
}
