//! The coordinator: owns the broker and everything that is known about open deliveries.

use super::{
    RunError, Runner, Summary, Work,
    builder::Config,
    counters::Counters,
    lane::{self, Report},
    partitions::Partitions,
    progress::Progress,
    unit::{Outcome, Retry, Shared},
};
use crate::{
    Ack, Assignment, Broker, BrokerError, Checkpoint, CheckpointMove, ClaimKey, Credit, Delivery, Event,
    Identity, InboxStore, Partition, ProbePoint, Received, Unit, key_queues::KeyQueues,
};
use bytes::Bytes;
use slab::Slab;
use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    future::Future,
    pin::pin,
    sync::Arc,
};
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep_until},
};

/// Finished deliveries behind an unfinished one cost a few words each: so many times the open ones may
/// stand between the checkpoint and the newest delivery, before intake waits for the checkpoint.
const SPAN_FACTOR: usize = 16;

/// What is known about an open delivery beside the delivery itself.
struct Flight {
    claim: ClaimKey,
    key: Option<Bytes>,
    partition: Partition,
    epoch: u64,
    bytes: usize,
}

/// Where a run stands.
enum Phase {
    Running,
    /// The source has ended: what is open is finished, retries included.
    Ended,
    /// Nothing new is started; what has started is finished until then.
    Draining {
        by: Instant,
        cancelled: bool,
    },
}

struct Coordinator<S: InboxStore, A: Ack> {
    shared: Arc<Shared<S>>,
    ack: A,
    identity: Identity,
    queues: KeyQueues<Received<A::Receipt>>,
    /// Messages to be tried alone, whose time has come.
    alone: VecDeque<Received<A::Receipt>>,
    /// Messages to be tried alone later, by time and number.
    later: BTreeMap<(Instant, u64), Received<A::Receipt>>,
    /// Later copies of an id that is open: they wait for the first one's end.
    copies: HashMap<ClaimKey, VecDeque<Received<A::Receipt>>>,
    flights: Slab<Flight>,
    bytes: usize,
    numbers: u64,
    partitions: Partitions,
    idle_lanes: Vec<usize>,
    lanes: Vec<mpsc::Sender<Vec<Received<A::Receipt>>>>,
    reports: mpsc::Receiver<Report<A::Receipt>>,
    /// Nothing is taken in or started before this, after an outage.
    paused_until: Option<Instant>,
    outages_in_a_row: u32,
    random: fastrand::Rng,
    phase: Phase,
    cancel: watch::Sender<bool>,
    halt: Option<RunError>,
}

pub(super) async fn run<B: Broker, S: InboxStore>(
    runner: Runner<B, Work<S>>,
    shutdown: impl Future<Output = ()>,
) -> Result<Summary, RunError> {
    let Runner { group, mut broker, work: Work { parts, handler }, config, probes, counters } = runner;
    let (cancel, cancelled) = watch::channel(false);
    let shared = Arc::new(Shared {
        group,
        store: parts.store,
        letters: parts.letters,
        progress: parts
            .checkpoints
            .as_ref()
            .map(|_| Progress::new(config.in_flight_max.saturating_mul(SPAN_FACTOR))),
        checkpoints: parts.checkpoints,
        handler,
        config,
        counters: Arc::clone(&counters),
        probes,
        cancel: cancelled,
    });
    let mut coordinator = Coordinator::<S, B::Ack>::start(shared, broker.ack_handle(), cancel);
    let ended = coordinator.run(&mut broker, shutdown).await;
    let by = Instant::now() + coordinator.shared.config.shutdown_timeout;
    let written = coordinator.finish().await;
    let closed = broker.close(by).await.map_err(RunError::Broker);
    ended.and(written).and(closed)?;
    Ok(counters.read())
}

impl<S: InboxStore, A: Ack> Coordinator<S, A> {
    fn start(shared: Arc<Shared<S>>, ack: A, cancel: watch::Sender<bool>) -> Self {
        let Config { lanes, identity, .. } = shared.config.clone();
        let (to_me, reports) = mpsc::channel(lanes);
        let senders =
            (0..lanes).map(|lane| lane::start(lane, Arc::clone(&shared), ack.clone(), to_me.clone()));
        Self {
            lanes: senders.collect(),
            ack,
            identity,
            queues: KeyQueues::new(),
            alone: VecDeque::new(),
            later: BTreeMap::new(),
            copies: HashMap::new(),
            flights: Slab::new(),
            bytes: 0,
            numbers: 0,
            partitions: Partitions::default(),
            idle_lanes: (0..lanes).rev().collect(),
            reports,
            paused_until: None,
            outages_in_a_row: 0,
            random: shared.random(),
            phase: Phase::Running,
            cancel,
            halt: None,
            shared,
        }
    }

    async fn run<B>(&mut self, broker: &mut B, shutdown: impl Future<Output = ()>) -> Result<(), RunError>
    where
        B: Broker<Receipt = A::Receipt, Ack = A>,
    {
        let mut shutdown = pin!(shutdown);
        let mut broker_failures = 0;
        let mut broker_waits_until: Option<Instant> = None;
        loop {
            self.dispatch();
            if self.is_done() {
                return self.halt.take().map_or(Ok(()), Err);
            }
            let is_running = matches!(self.phase, Phase::Running);
            let credit = self.credit();
            let takes_in = is_running && self.paused_until.is_none() && broker_waits_until.is_none();
            let wake = self.next_wake().into_iter().chain(broker_waits_until).min();
            tokio::select! {
                biased;
                () = &mut shutdown, if !matches!(self.phase, Phase::Draining { .. }) => self.drain(),
                Some(report) = self.reports.recv() => self.absorb(report),
                () = sleep_until(wake.unwrap_or_else(Instant::now)), if wake.is_some() => {
                    let now = Instant::now();
                    if broker_waits_until.is_some_and(|until| until <= now) {
                        broker_waits_until = None;
                    }
                    self.wake(now);
                }
                event = broker.next(&credit), if takes_in => match event {
                    Ok(event) => {
                        broker_failures = 0;
                        self.on_event(event).await;
                    }
                    Err(error) => {
                        broker_failures += 1;
                        let wait = self.broker_failed(error, broker_failures);
                        broker_waits_until = wait;
                    }
                },
            }
        }
    }

    fn is_done(&self) -> bool {
        let lanes_idle = self.idle_lanes.len() == self.lanes.len();
        match self.phase {
            Phase::Running => false,
            Phase::Ended => lanes_idle && self.flights.is_empty(),
            Phase::Draining { .. } => lanes_idle,
        }
    }

    fn credit(&self) -> Credit {
        let config = &self.shared.config;
        let room = self.shared.progress.as_ref().map_or(usize::MAX, Progress::room);
        Credit::new(
            config.in_flight_max.saturating_sub(self.flights.len()).min(room),
            config.in_flight_bytes_max.saturating_sub(self.bytes),
        )
    }

    fn next_wake(&self) -> Option<Instant> {
        let drain = match self.phase {
            Phase::Draining { by, cancelled: false } => Some(by),
            _ => None,
        };
        let later = match self.phase {
            Phase::Draining { .. } => None,
            _ => self.later.keys().next().map(|&(due, _)| due),
        };
        [drain, later, self.paused_until, self.partitions.next_deadline()].into_iter().flatten().min()
    }

    fn wake(&mut self, now: Instant) {
        if self.paused_until.is_some_and(|until| until <= now) {
            self.paused_until = None;
        }
        if let Phase::Draining { by, cancelled } = &mut self.phase {
            if *by <= now && !*cancelled {
                *cancelled = true;
                tracing::warn!(target: "inbox", group = %self.shared.group, "shutdown deadline passed: handlers are dropped");
                self.cancel.send_replace(true);
            }
        }
        self.partitions.hand_over(Some(now));
        while let Some(entry) = self.later.first_entry().filter(|entry| entry.key().0 <= now) {
            let received = entry.remove();
            self.alone.push_back(received);
        }
    }

    fn drain(&mut self) {
        let by = Instant::now() + self.shared.config.shutdown_timeout;
        let (open, waiting) = (self.flights.len(), self.queues.len());
        tracing::debug!(target: "inbox", group = %self.shared.group, open, waiting, "draining");
        self.phase = Phase::Draining { by, cancelled: false };
    }

    fn stop_with(&mut self, error: RunError) {
        self.halt.get_or_insert(error);
        if !matches!(self.phase, Phase::Draining { .. }) {
            self.drain();
        }
    }

    fn broker_failed(&mut self, error: BrokerError, failures: u32) -> Option<Instant> {
        if !error.is_transient() {
            self.stop_with(RunError::Broker(error));
            return None;
        }
        let wait = self.shared.config.outage_backoff.delay(failures, &mut self.random);
        tracing::warn!(target: "inbox", group = %self.shared.group, %error, ?wait, "broker failed");
        Some(Instant::now() + wait)
    }

    /// Gives idle lanes what is ready.
    fn dispatch(&mut self) {
        if self.paused_until.is_some() || matches!(self.phase, Phase::Draining { .. }) {
            return;
        }
        while let Some(&lane) = self.idle_lanes.last() {
            let batch = match self.alone.pop_front() {
                Some(single) => vec![single],
                None => self.queues.take(self.shared.config.batch_max),
            };
            if batch.is_empty() {
                break;
            }
            for received in &batch {
                self.partitions.lanes_began(&self.flights[received.tag].partition);
            }
            // The channel holds one unit and the lane is idle: it takes this one, unless its task is gone.
            if self.lanes[lane].try_send(batch).is_err() {
                return self.stop_with(RunError::UnitLost);
            }
            self.idle_lanes.pop();
        }
    }

    async fn on_event(&mut self, event: Event<A::Receipt>) {
        match event {
            Event::Deliveries(deliveries) => {
                Counters::add(&self.shared.counters.received, deliveries.len() as u64);
                for delivery in deliveries {
                    self.take_in(delivery).await;
                }
            }
            Event::Assigned(assignment) => self.assigned(assignment).await,
            Event::Revoked(revocation) => {
                self.partitions.revoke(revocation);
                self.forget_lost();
            }
            Event::Lost(partitions) => {
                self.partitions.take_away(&partitions);
                self.forget_lost();
            }
            Event::Idle => {}
            Event::Ended => self.phase = Phase::Ended,
        }
    }

    async fn take_in(&mut self, delivery: Delivery<A::Receipt>) {
        let Delivery { inbound, receipt, deliveries_before: _ } = delivery;
        let bytes = inbound.bytes();
        let (message, defect) = self.identity.identify(inbound);
        self.shared.probes.reached(ProbePoint::Received, Some(&message)).await;
        let partition = message.partition().clone();
        let flight = Flight {
            claim: message.claim_key().clone(),
            key: message.key().cloned(),
            epoch: self.partitions.epoch(&partition),
            partition,
            bytes,
        };
        self.numbers += 1;
        self.bytes += bytes;
        let mut received = Received::new(message, receipt);
        received.number = self.numbers;
        if let Some(why) = defect.as_ref().filter(|defect| self.identity.halts_at(defect)) {
            self.stop_with(RunError::unidentified(&received.message, why));
        }
        received.bury = defect.map(|defect| (defect.reason(), defect.to_string()));
        received.place = self.shared.progress.as_ref().and_then(|progress| progress.enter(&received.message));
        let (claim, key) = (flight.claim.clone(), flight.key.clone());
        received.tag = self.flights.insert(flight);
        if self.shared.config.strategy == super::Strategy::ExactlyOnce {
            if let Some(copies) = self.copies.get_mut(&claim) {
                return copies.push_back(received);
            }
            self.copies.insert(claim, VecDeque::new());
        }
        self.queues.push(key, received);
    }

    async fn assigned(&mut self, assignment: Assignment) {
        let (Some(progress), Some(checkpoints)) = (&self.shared.progress, &self.shared.checkpoints) else {
            return drop(assignment);
        };
        let mut failures = 0;
        let found = loop {
            match checkpoints.checkpoints(&self.shared.group, assignment.partitions()).await {
                Ok(found) => break found,
                Err(error) if error.class() == Some(crate::FaultClass::Permanent) => {
                    let doing = format!("reading checkpoints from {}", self.shared.store.describe());
                    return self.stop_with(RunError::Store { doing, error });
                }
                Err(error) => {
                    failures += 1;
                    tracing::warn!(target: "inbox", group = %self.shared.group, %error, "reading checkpoints failed");
                    let wait = self.shared.config.outage_backoff.delay(failures, &mut self.random);
                    tokio::time::sleep(wait).await;
                }
            }
        };
        let mut begin: HashMap<Partition, Checkpoint> = HashMap::new();
        for (partition, checkpoint) in assignment.partitions().iter().zip(found) {
            progress.begin(partition, checkpoint.as_ref());
            if let Some(checkpoint) = checkpoint {
                begin.insert(partition.clone(), checkpoint);
            }
        }
        assignment.start_at(begin);
    }

    /// Takes in what a lane reports.
    fn absorb(&mut self, report: Report<A::Receipt>) {
        let Report { lane, finished, retry, mut held, outage, halt } = report;
        self.idle_lanes.push(lane);
        let mut keys = Vec::new();
        let counters = Arc::clone(&self.shared.counters);
        if !finished.is_empty() {
            self.outages_in_a_row = 0;
        }
        for (tag, outcome) in finished {
            let counter = match outcome {
                Outcome::Applied => &counters.applied,
                Outcome::Duplicate => &counters.duplicates,
                Outcome::Conflict => &counters.conflicts,
                Outcome::Dead => &counters.dead_letters,
            };
            Counters::add(counter, 1);
            self.partitions.lanes_ended(&self.flights[tag].partition);
            keys.extend(self.close_flight(tag));
        }
        let mut suspended = Vec::new();
        for Retry { received, after, busy } in retry {
            self.partitions.lanes_ended(&self.flights[received.tag].partition);
            if self.is_gone(&received) {
                keys.extend(self.close_flight(received.tag));
                continue;
            }
            suspended.extend(received.message.key().cloned());
            let wait = self.retry_wait(&received, after, busy);
            self.later.insert((Instant::now() + wait, received.number), received);
        }
        held.sort_unstable_by_key(|received| received.number);
        let mut back = Vec::with_capacity(held.len());
        for received in held {
            self.partitions.lanes_ended(&self.flights[received.tag].partition);
            keys.extend(received.message.key().cloned());
            if self.is_gone(&received) {
                self.close_flight(received.tag);
            } else {
                back.push((received.message.key().cloned(), received));
            }
        }
        self.queues.put_back(back);
        for key in keys.iter().filter(|key| !suspended.contains(key)) {
            self.queues.free(key);
        }
        self.partitions.hand_over(None);
        if let Some(error) = outage {
            Counters::add(&counters.outages, 1);
            self.outages_in_a_row += 1;
            let wait = self.shared.config.outage_backoff.delay(self.outages_in_a_row, &mut self.random);
            let error = crate::chain_text(&error);
            tracing::warn!(target: "inbox", group = %self.shared.group, error, ?wait, "store out of reach");
            self.paused_until = Some(Instant::now() + wait);
        }
        if let Some(error) = halt {
            self.stop_with(error);
        }
    }

    fn retry_wait(
        &mut self,
        received: &Received<A::Receipt>,
        after: Option<std::time::Duration>,
        busy: bool,
    ) -> std::time::Duration {
        let config = &self.shared.config;
        if busy {
            return config.busy_backoff.delay(1, &mut self.random);
        }
        after.unwrap_or_else(|| config.retry.backoff.delay(received.attempts, &mut self.random))
    }

    fn is_gone(&self, received: &Received<A::Receipt>) -> bool {
        let flight = &self.flights[received.tag];
        !self.partitions.is_current(&flight.partition, flight.epoch)
    }

    /// A delivery is not open any more; the next copy of its id takes its turn. Gives its key, to be freed.
    fn close_flight(&mut self, tag: usize) -> Option<Bytes> {
        let flight = self.flights.remove(tag);
        self.bytes -= flight.bytes;
        if let Some(copies) = self.copies.get_mut(&flight.claim) {
            match copies.pop_front() {
                Some(copy) => self.queues.push(copy.message.key().cloned(), copy),
                None => drop(self.copies.remove(&flight.claim)),
            }
        }
        flight.key
    }

    /// Drops what is queued of partitions that are not ours any more. It is redelivered to their owner.
    fn forget_lost(&mut self) {
        loop {
            let (flights, partitions) = (&self.flights, &self.partitions);
            let is_lost = |received: &Received<A::Receipt>| {
                let flight = &flights[received.tag];
                !partitions.is_current(&flight.partition, flight.epoch)
            };
            let mut lost = self.queues.remove(|received| is_lost(received));
            let (gone, kept) =
                std::mem::take(&mut self.alone).into_iter().partition::<Vec<_>, _>(|r| is_lost(r));
            lost.extend(gone);
            self.alone = kept.into();
            let gone: Vec<_> = self.later.iter().filter(|(_, r)| is_lost(r)).map(|(&due, _)| due).collect();
            let mut unsuspended = Vec::new();
            for due in gone {
                if let Some(received) = self.later.remove(&due) {
                    unsuspended.extend(received.message.key().cloned());
                    lost.push(received);
                }
            }
            let mut copies_lost = Vec::new();
            for copies in self.copies.values_mut() {
                let (gone, kept) = std::mem::take(copies).into_iter().partition::<Vec<_>, _>(|r| is_lost(r));
                *copies = kept.into();
                copies_lost.extend(gone);
            }
            for copy in copies_lost {
                // A copy that waits is not the open one of its id: only its own record goes.
                let flight = self.flights.remove(copy.tag);
                self.bytes -= flight.bytes;
            }
            if lost.is_empty() {
                break;
            }
            for received in lost {
                self.close_flight(received.tag);
            }
            for key in &unsuspended {
                self.queues.free(key);
            }
        }
    }

    /// After the last lane has ended: gives back what was not started, and writes the last checkpoint.
    async fn finish(&mut self) -> Result<(), RunError> {
        let mut open = self.queues.remove(|_| true);
        open.extend(self.alone.drain(..));
        open.extend(std::mem::take(&mut self.later).into_values());
        open.extend(std::mem::take(&mut self.copies).into_values().flatten());
        Counters::add(&self.shared.counters.released, open.len() as u64);
        if !open.is_empty() {
            let settlements = open.into_iter().map(|received| received.release(None)).collect();
            for error in self.ack.settle(settlements).await.into_iter().filter_map(Result::err) {
                tracing::debug!(target: "inbox", group = %self.shared.group, %error, "giving back failed");
            }
        }
        let (Some(progress), Some(checkpoints)) = (&self.shared.progress, &self.shared.checkpoints) else {
            return Ok(());
        };
        let moves = progress.moves_if(&[]);
        if moves.moves.is_empty() {
            return Ok(());
        }
        // Beside inbox rows a checkpoint is a faster start: failing to write the last one loses nothing.
        if let Err(error) = write_checkpoints(&self.shared, &**checkpoints, &moves.moves).await {
            tracing::warn!(target: "inbox", group = %self.shared.group, %error, "writing the last checkpoint failed");
        }
        Ok(())
    }
}

async fn write_checkpoints<S: InboxStore>(
    shared: &Shared<S>,
    checkpoints: &dyn crate::Checkpoints<Tx = S::Tx>,
    moves: &[CheckpointMove],
) -> Result<(), crate::StoreError> {
    let mut unit = Unit::begin(&*shared.store, &shared.config.tx_limits).await?;
    let advanced = match unit.tx_mut() {
        Some(tx) => checkpoints.advance(tx, &shared.group, moves).await.map(drop),
        None => Ok(()),
    };
    if let Err(error) = advanced {
        // The transaction is gone either way; the first error is the one to tell.
        let _ = unit.rollback().await;
        return Err(error);
    }
    match unit.commit::<()>(Vec::new()).await {
        Ok(_) => Ok(()),
        Err(crate::CommitFailed::RolledBack { error, .. }) => Err(error),
        Err(crate::CommitFailed::InDoubt(doubt)) => {
            Err(crate::StoreError::failed(crate::FaultClass::Outage, doubt.message()))
        }
    }
}
