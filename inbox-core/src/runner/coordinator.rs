//! The coordinator: owns the broker and everything that is known about open deliveries.

use super::{
    RunError, Runner, Summary, Work,
    breaker::Breaker,
    builder::{Config, Mode},
    control::{Command, Controlled},
    counters::Counters,
    lane::{self, Report},
    partitions::{PartitionIndex, Partitions},
    progress::Progress,
    suspects::{self, Suspicion},
    telemetry::{Level, Telemetry},
    transaction::commit_alone,
    unit::{Outcome, Retry, Shared},
};
use crate::{
    Ack, Assignment, Broker, BrokerError, Checkpoint, CheckpointMove, ClaimKey, Credit, Delivery, Event,
    Identity, InboxStore, Message, Partition, ProbePoint, Received, Unit, key_queues::KeyQueues,
};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use slab::Slab;
use std::{
    collections::{BTreeMap, HashMap, VecDeque, hash_map::Entry},
    future::Future,
    pin::pin,
    sync::Arc,
    time::Duration,
};
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep_until},
};

/// Finished deliveries behind an unfinished one cost a few words each: so many times the open ones may
/// stand between the checkpoint and the newest delivery, before intake waits for the checkpoint.
pub(super) const SPAN_FACTOR: usize = 16;

/// What is known about an open delivery beside the delivery itself.
struct Flight {
    claim: ClaimKey,
    key: Option<Bytes>,
    partition: PartitionIndex,
    epoch: u64,
    bytes: usize,
    is_suspect: bool,
}

/// Reads where the partitions of an assignment begin.
type Assigning = BoxFuture<'static, (Assignment, Result<Vec<Option<Checkpoint>>, RunError>)>;

/// Opens the run in the attempt log.
type Opening = BoxFuture<'static, Result<Option<u64>, RunError>>;

/// What the attempt log knows of this run.
enum Log {
    /// There is none.
    Absent,
    /// The run is being opened. Nothing is taken in until then.
    Opening(Opening),
    /// It is open. With `unclean`, so many deliveries of each partition are suspects, since the run before
    /// did not end cleanly.
    Open { unclean: Option<u64> },
}

/// Where a run stands.
enum Phase {
    Running,
    /// Nothing more is taken in: what is open is finished, retries included. Rebalances are answered.
    Finishing,
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
    /// Where assigned partitions begin is being read. Nothing else is asked of the broker until then.
    assigning: Option<Assigning>,
    log: Log,
    /// How many of the open deliveries are suspects.
    suspects: usize,
    /// How often messages have failed since the breaker opened.
    failures_while_open: u32,
    /// Somebody asked to take nothing in and start nothing.
    is_paused: bool,
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
    let Runner {
        group,
        mut broker,
        work: Work { parts, handler, layers },
        config,
        probes,
        observers,
        counters,
        mut controlled,
        ..
    } = runner;
    let (cancel, cancelled) = watch::channel(false);
    let shared = Arc::new(Shared {
        group,
        store: parts.store,
        letters: parts.letters,
        attempt_log: parts.attempt_log,
        breaker: Breaker::new(config.breaker_after),
        progress: parts
            .checkpoints
            .as_ref()
            .map(|_| Progress::new(config.in_flight_max.saturating_mul(SPAN_FACTOR))),
        checkpoints: parts.checkpoints,
        stored: parts.stored,
        handler,
        layers,
        observers,
        config,
        counters: Arc::clone(&counters),
        probes,
        cancel: cancelled,
    });
    let mut coordinator = Coordinator::<S, B::Ack>::start(shared, broker.ack_handle(), cancel);
    let mut telemetry = Telemetry::new(&coordinator.shared.group);
    let ended = coordinator.run(&mut broker, shutdown, &mut controlled, &mut telemetry).await;
    let by = after(coordinator.shared.config.shutdown_timeout);
    let written = coordinator.finish(by).await;
    if Telemetry::IS_ON {
        // What was given back is counted, and nothing is open any more.
        telemetry.report(counters.read(), Level::default());
    }
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
            assigning: None,
            log: open_log(&shared),
            suspects: 0,
            failures_while_open: 0,
            is_paused: false,
            paused_until: None,
            outages_in_a_row: 0,
            random: shared.random(),
            phase: Phase::Running,
            cancel,
            halt: None,
            shared,
        }
    }

    async fn run<B>(
        &mut self,
        broker: &mut B,
        shutdown: impl Future<Output = ()>,
        controlled: &mut Controlled,
        telemetry: &mut Telemetry,
    ) -> Result<(), RunError>
    where
        B: Broker<Receipt = A::Receipt, Ack = A>,
    {
        let mut shutdown = pin!(shutdown);
        let mut broker_failures = 0;
        let mut broker_waits_until: Option<Instant> = None;
        loop {
            self.dispatch();
            if Telemetry::IS_ON {
                telemetry.report(self.shared.counters.read(), self.level());
            }
            if self.is_done() {
                return self.halt.take().map_or(Ok(()), Err);
            }
            let is_running = matches!(self.phase, Phase::Running | Phase::Finishing);
            let credit = self.credit();
            let is_opening = matches!(self.log, Log::Opening(_));
            let is_free = self.assigning.is_none() && !is_opening;
            let listens = is_running && broker_waits_until.is_none() && is_free;
            let is_assigning = is_running && self.assigning.is_some();
            let wake = self.next_wake().into_iter().chain(broker_waits_until).min();
            tokio::select! {
                biased;
                () = &mut shutdown, if !matches!(self.phase, Phase::Draining { .. }) => self.drain(),
                Some(command) = controlled.commands.recv() => self.obey(command),
                Some(report) = self.reports.recv() => self.absorb(report),
                () = sleep_until(wake.unwrap_or_else(Instant::now)), if wake.is_some() => {
                    let now = Instant::now();
                    if broker_waits_until.is_some_and(|until| until <= now) {
                        broker_waits_until = None;
                    }
                    self.wake(now);
                }
                opened = opened(&mut self.log), if is_running && is_opening => {
                    self.log = Log::Open { unclean: None };
                    match opened {
                        Ok(unclean) => self.opened(unclean),
                        Err(error) => self.stop_with(error),
                    }
                }
                (assignment, found) = read(&mut self.assigning), if is_assigning => {
                    self.assigning = None;
                    self.assigned(assignment, found);
                }
                event = broker.next(&credit), if listens => match event {
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
            Phase::Finishing | Phase::Ended => lanes_idle && self.flights.is_empty(),
            Phase::Draining { .. } => lanes_idle,
        }
    }

    fn credit(&self) -> Credit {
        // Events are heard during an outage, too: a rebalance does not wait for the store. It is over
        // when a unit has come through, not when the next one tries.
        let is_trying = self.outages_in_a_row > 0 && self.idle_lanes.len() < self.lanes.len();
        let takes_in =
            matches!(self.phase, Phase::Running) && !self.is_paused && !self.shared.breaker.is_open();
        if self.paused_until.is_some() || is_trying || !takes_in {
            return Credit::new(0, 0);
        }
        let config = &self.shared.config;
        let (room, held) = self.shared.progress.as_ref().map_or((usize::MAX, Vec::new()), Progress::room);
        let mut credit = Credit::new(
            config.in_flight_max.saturating_sub(self.flights.len()).min(room),
            config.in_flight_bytes_max.saturating_sub(self.bytes),
        );
        credit.held = held;
        credit
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
                tracing::warn!(target: "inbox", group = %self.shared.group, "shutdown deadline passed");
                self.cancel.send_replace(true);
                self.shared.store.interrupt();
            }
        }
        self.partitions.hand_over(Some(now));
        while let Some(entry) = self.later.first_entry().filter(|entry| entry.key().0 <= now) {
            let received = entry.remove();
            self.alone.push_back(received);
        }
    }

    fn level(&self) -> Level {
        Level {
            in_flight: self.flights.len(),
            bytes: self.bytes,
            queued: self.queues.len() + self.alone.len(),
            suspended: self.later.len(),
            busy_lanes: self.lanes.len() - self.idle_lanes.len(),
        }
    }

    fn obey(&mut self, command: Command) {
        tracing::debug!(target: "inbox", group = %self.shared.group, ?command, "steered");
        match command {
            Command::Pause => self.is_paused = true,
            Command::Resume => self.is_paused = false,
            Command::Drain => {
                self.is_paused = false;
                if matches!(self.phase, Phase::Running) {
                    self.phase = Phase::Finishing;
                }
            }
            Command::Shutdown(timeout) => {
                let timeout = timeout.unwrap_or(self.shared.config.shutdown_timeout);
                match &mut self.phase {
                    Phase::Draining { by, .. } => *by = after(timeout).min(*by),
                    _ => self.drain_within(timeout),
                }
            }
        }
    }

    fn drain(&mut self) {
        self.drain_within(self.shared.config.shutdown_timeout);
    }

    fn drain_within(&mut self, timeout: Duration) {
        let by = after(timeout);
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
        Some(after(wait))
    }

    /// Gives idle lanes what is ready.
    fn dispatch(&mut self) {
        let is_held = self.is_paused || self.paused_until.is_some();
        if is_held || matches!(self.phase, Phase::Draining { .. }) {
            return;
        }
        while let Some(&lane) = self.idle_lanes.last() {
            let is_breaking = self.shared.breaker.is_open();
            let is_solo = is_breaking || self.suspects > 0;
            if is_solo && self.idle_lanes.len() < self.lanes.len() {
                break;
            }
            // Behind an open breaker one that has not failed yet is the better try.
            let fresh = if is_breaking { self.queues.take(1) } else { Vec::new() };
            let batch = match fresh.is_empty().then(|| self.alone.pop_front()).flatten() {
                _ if !fresh.is_empty() => fresh,
                Some(single) => vec![single],
                None => self.queues.take(if is_solo { 1 } else { self.shared.config.batch_max }),
            };
            if batch.is_empty() {
                break;
            }
            for received in &batch {
                self.partitions.lanes_began(self.flights[received.tag].partition);
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
            Event::Assigned(assignment) => self.assigning = self.read_checkpoints(assignment),
            Event::Revoked(revocation) => {
                if let Some(progress) = &self.shared.progress {
                    progress.take_away(revocation.partitions());
                }
                self.partitions.revoke(revocation);
                self.forget_lost();
            }
            Event::Lost(partitions) => {
                if let Some(progress) = &self.shared.progress {
                    progress.take_away(&partitions);
                }
                self.partitions.take_away(&partitions);
                self.forget_lost();
            }
            Event::Idle => {}
            Event::Ended => {
                if !matches!(self.phase, Phase::Draining { .. }) {
                    self.phase = Phase::Ended;
                }
            }
        }
    }

    async fn take_in(&mut self, delivery: Delivery<A::Receipt>) {
        let Delivery { inbound, receipt, deliveries_before, known } = delivery;
        let bytes = inbound.bytes();
        let (message, defect) = match known {
            Some((claim, fingerprint)) => (Message::new(claim, fingerprint, inbound), None),
            None => self.identity.identify(inbound),
        };
        self.shared.probes.reached(ProbePoint::Received, Some(&message)).await;
        let partition = self.partitions.index(message.partition());
        let flight = Flight {
            claim: message.claim_key().clone(),
            key: message.key().cloned(),
            epoch: self.partitions.epoch(partition),
            partition,
            bytes,
            is_suspect: false,
        };
        self.numbers += 1;
        self.bytes += bytes;
        let mut received = Received::new(message, receipt);
        received.number = self.numbers;
        if self.shared.config.mode == Mode::Reclaim {
            // Failures of kept messages are counted in their rows.
            received.attempts = deliveries_before.unwrap_or(0);
        }
        if let Some(why) = defect.as_ref().filter(|defect| self.identity.halts_at(defect)) {
            self.stop_with(RunError::unidentified(&received.message, why));
        }
        received.bury = defect.map(|defect| (defect.reason(), defect.to_string()));
        received.place = self.shared.progress.as_ref().and_then(|progress| progress.enter(&received.message));
        let (claim, key) = (flight.claim.clone(), flight.key.clone());
        received.tag = self.flights.insert(flight);
        let nth = self.partitions.delivered(partition);
        if matches!(self.log, Log::Open { unclean: Some(open_max) } if nth <= open_max) {
            received.suspicion = Suspicion::FIRST;
            self.note_suspicion(&received);
        }
        match self.copies.entry(claim) {
            Entry::Occupied(copies) => return copies.into_mut().push_back(received),
            Entry::Vacant(first) => drop(first.insert(VecDeque::new())),
        }
        self.queues.push(key, received);
    }

    /// Begins to read where partitions begin, when that is kept in the store. It waits for the store as
    /// long as it takes, while lanes and a shutdown go on.
    fn read_checkpoints(&self, assignment: Assignment) -> Option<Assigning> {
        let checkpoints = Arc::clone(self.shared.checkpoints.as_ref()?);
        let (shared, mut random) = (Arc::clone(&self.shared), self.random.clone());
        Some(Box::pin(async move {
            let mut failures = 0;
            loop {
                match checkpoints.checkpoints(&shared.group, assignment.partitions()).await {
                    Ok(found) => return (assignment, Ok(found)),
                    Err(error) if error.class() == Some(crate::FaultClass::Permanent) => {
                        let doing = format!("reading checkpoints from {}", shared.store.describe());
                        return (assignment, Err(RunError::Store { doing, error }));
                    }
                    Err(error) => {
                        failures += 1;
                        tracing::warn!(target: "inbox", group = %shared.group, %error, "reading checkpoints failed");
                        tokio::time::sleep(shared.config.outage_backoff.delay(failures, &mut random)).await;
                    }
                }
            }
        }))
    }

    fn assigned(&mut self, assignment: Assignment, found: Result<Vec<Option<Checkpoint>>, RunError>) {
        let found = match found {
            Ok(found) => found,
            Err(error) => return self.stop_with(error),
        };
        let mut begin: HashMap<Partition, Checkpoint> = HashMap::new();
        for (partition, checkpoint) in assignment.partitions().iter().zip(found) {
            if let Some(progress) = &self.shared.progress {
                progress.begin(partition, checkpoint.as_ref());
            }
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
        if !finished.is_empty() || outage.is_none() {
            self.outages_in_a_row = 0;
        }
        for (tag, outcome) in finished {
            let counter = match outcome {
                Outcome::Applied => &counters.applied,
                Outcome::Duplicate => &counters.duplicates,
                Outcome::Conflict => &counters.conflicts,
                Outcome::Dead => &counters.dead_letters,
                Outcome::Stored => &counters.stored,
                Outcome::Deferred => &counters.deferred,
                Outcome::Dropped => &counters.dropped,
                Outcome::Ignored => &counters.ignored,
            };
            Counters::add(counter, 1);
            self.partitions.lanes_ended(self.flights[tag].partition);
            keys.extend(self.close_flight(tag));
        }
        for received in held.iter().chain(retry.iter().map(|retry| &retry.received)) {
            self.note_suspicion(received);
        }
        if !self.shared.breaker.is_open() {
            self.failures_while_open = 0;
        } else if retry.iter().any(|retry| !retry.busy) {
            self.failures_while_open = self.failures_while_open.saturating_add(1);
            let wait = self.shared.config.outage_backoff.delay(self.failures_while_open, &mut self.random);
            self.paused_until = Some(after(wait));
        }
        let mut suspended: HashMap<Bytes, (Instant, Received<A::Receipt>)> = HashMap::new();
        for retry in retry {
            let due = after(self.retry_wait(&retry));
            let received = retry.received;
            if self.is_gone(&received) {
                self.partitions.lanes_ended(self.flights[received.tag].partition);
                keys.extend(self.drop_flight(received.tag));
                continue;
            }
            let Some(key) = received.message.key().cloned() else {
                self.partitions.lanes_ended(self.flights[received.tag].partition);
                self.later.insert((due, received.number), received);
                continue;
            };
            // Of several of one key only the first is tried alone; the others wait behind it.
            let (due, first) = match suspended.remove(&key) {
                None => (due, received),
                Some((other_due, other)) => {
                    let (first, second) =
                        if other.number < received.number { (other, received) } else { (received, other) };
                    held.push(second);
                    (due.max(other_due), first)
                }
            };
            suspended.insert(key, (due, first));
        }
        // What is held was set back without being charged, perhaps after a later one of its key had failed:
        // the first of both is tried first.
        for received in &mut held {
            let first = received.message.key().and_then(|key| suspended.get_mut(key));
            if let Some((_, first)) = first.filter(|(_, first)| received.number < first.number) {
                if !self.is_gone(received) {
                    std::mem::swap(received, first);
                }
            }
        }
        held.sort_unstable_by_key(|received| received.number);
        let mut back = Vec::with_capacity(held.len());
        for received in held {
            self.partitions.lanes_ended(self.flights[received.tag].partition);
            keys.extend(received.message.key().cloned());
            if self.is_gone(&received) {
                self.drop_flight(received.tag);
            } else if outage.is_some() && received.suspicion.is_suspect && received.message.key().is_none() {
                // It may be the reason for the outage: the others have their turn before it is tried again.
                self.queues.push(None, received);
            } else {
                back.push((received.message.key().cloned(), received));
            }
        }
        self.queues.put_back(back);
        for key in keys.iter().filter(|key| !suspended.contains_key(*key)) {
            self.queues.free(key);
        }
        for (due, received) in suspended.into_values() {
            self.partitions.lanes_ended(self.flights[received.tag].partition);
            self.later.insert((due, received.number), received);
        }
        self.partitions.hand_over(None);
        if let Some(error) = outage {
            Counters::add(&counters.outages, 1);
            self.outages_in_a_row += 1;
            let wait = self.shared.config.outage_backoff.delay(self.outages_in_a_row, &mut self.random);
            let error = crate::chain_text(&error);
            tracing::warn!(target: "inbox", group = %self.shared.group, error, ?wait, "store out of reach");
            self.paused_until = Some(after(wait));
        }
        if let Some(error) = halt {
            self.stop_with(error);
        }
    }

    fn retry_wait(&mut self, retry: &Retry<A::Receipt>) -> Duration {
        let config = &self.shared.config;
        let Retry { received, after, busy, .. } = retry;
        if *busy {
            return config.busy_backoff.delay(received.found_busy, &mut self.random);
        }
        after.unwrap_or_else(|| config.retry.backoff.delay(received.attempts, &mut self.random))
    }

    fn is_gone(&self, received: &Received<A::Receipt>) -> bool {
        let flight = &self.flights[received.tag];
        !self.partitions.is_current(flight.partition, flight.epoch)
    }

    fn remove_flight(&mut self, tag: usize) -> Flight {
        let flight = self.flights.remove(tag);
        self.bytes -= flight.bytes;
        self.suspects -= usize::from(flight.is_suspect);
        flight
    }

    /// Whether an open delivery is a suspect may have changed.
    fn note_suspicion(&mut self, received: &Received<A::Receipt>) {
        let flight = &mut self.flights[received.tag];
        let is_suspect = received.suspicion.is_suspect;
        self.suspects = self.suspects + usize::from(is_suspect) - usize::from(flight.is_suspect);
        flight.is_suspect = is_suspect;
    }

    /// The run is in the attempt log.
    fn opened(&mut self, unclean: Option<u64>) {
        if let Some(open_max) = unclean {
            tracing::warn!(
                target: "inbox", group = %self.shared.group, open_max,
                "unclean end before"
            );
        }
        self.log = Log::Open { unclean };
    }

    /// A delivery is not open any more; the next copy of its id takes its turn. Gives its key, to be freed.
    fn close_flight(&mut self, tag: usize) -> Option<Bytes> {
        let Flight { claim, key, .. } = self.remove_flight(tag);
        if let Entry::Occupied(mut copies) = self.copies.entry(claim) {
            match copies.get_mut().pop_front() {
                // It has its place in the order of its key by when it came, not by when it was let go.
                Some(copy) => {
                    let number = copy.number;
                    self.queues.push_before(copy.message.key().cloned(), copy, |other| other.number > number);
                }
                None => drop(copies.remove()),
            }
        }
        key
    }

    /// A delivery that is not ours any more.
    fn drop_flight(&mut self, tag: usize) -> Option<Bytes> {
        Counters::add(&self.shared.counters.released, 1);
        self.close_flight(tag)
    }

    /// Drops what is queued of partitions that are not ours any more. It is redelivered to their owner.
    fn forget_lost(&mut self) {
        loop {
            let (flights, partitions) = (&self.flights, &self.partitions);
            let is_lost = |received: &Received<A::Receipt>| {
                let flight = &flights[received.tag];
                !partitions.is_current(flight.partition, flight.epoch)
            };
            let mut lost = self.queues.remove(|received| is_lost(received));
            let (gone, kept) =
                std::mem::take(&mut self.alone).into_iter().partition::<Vec<_>, _>(|r| is_lost(r));
            let mut unsuspended: Vec<Bytes> =
                gone.iter().filter_map(|received| received.message.key().cloned()).collect();
            lost.extend(gone);
            self.alone = kept.into();
            let gone: Vec<_> = self.later.iter().filter(|(_, r)| is_lost(r)).map(|(&due, _)| due).collect();
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
                self.remove_flight(copy.tag);
                Counters::add(&self.shared.counters.released, 1);
            }
            if lost.is_empty() {
                break;
            }
            for received in lost {
                self.drop_flight(received.tag);
            }
            for key in &unsuspended {
                self.queues.free(key);
            }
        }
    }

    /// Tells the attempt log that the run ends cleanly, unless suspects of the run before are still to come.
    async fn close_log(&mut self, open: &mut [Received<A::Receipt>], by: Instant) {
        let Log::Open { unclean } = self.log else { return };
        let Some(log) = self.shared.attempt_log.clone() else { return };
        let has_seen_none = self.numbers == 0 || self.suspects > 0;
        let closing = async {
            suspects::acquit(&self.shared, open).await;
            if unclean.is_some() && has_seen_none {
                return Ok(());
            }
            log.close_run(&self.shared.group, &self.shared.config.instance).await
        };
        let ended = tokio::time::timeout_at(by, closing).await;
        let error = match ended {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "it took too long".to_owned(),
        };
        tracing::warn!(target: "inbox", group = %self.shared.group, error, "closing the run failed");
    }

    /// After the last lane has ended: gives back what was not started, and writes the last checkpoint.
    async fn finish(&mut self, by: Instant) -> Result<(), RunError> {
        let mut open = self.queues.remove(|_| true);
        open.extend(self.alone.drain(..));
        open.extend(std::mem::take(&mut self.later).into_values());
        open.extend(std::mem::take(&mut self.copies).into_values().flatten());
        // In the order of arrival, not of a hash map: the same in every run with the same seed.
        open.sort_unstable_by_key(|received| received.number);
        Counters::add(&self.shared.counters.released, open.len() as u64);
        self.close_log(&mut open, by).await;
        if !open.is_empty() {
            let settlements = open.into_iter().map(|received| received.release(None)).collect();
            let answers = tokio::time::timeout_at(by, self.ack.settle(settlements)).await;
            // What could not be given back comes again by itself.
            for error in answers.into_iter().flatten().filter_map(Result::err) {
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
    commit_alone(unit).await
}

/// Begins to open the run in the attempt log, when there is one. It waits for the store as long as it
/// takes, while a shutdown goes on.
fn open_log<S: InboxStore>(shared: &Arc<Shared<S>>) -> Log {
    let Some(log) = shared.attempt_log.clone() else { return Log::Absent };
    let shared = Arc::clone(shared);
    Log::Opening(Box::pin(async move {
        let Config { instance, open_max, outage_backoff, .. } = &shared.config;
        let mut random = shared.random();
        for failures in 1.. {
            match log.open_run(&shared.group, instance, *open_max).await {
                Ok(unclean) => return Ok(unclean),
                Err(error) if error.class() == Some(crate::FaultClass::Permanent) => {
                    let doing = format!("opening a run in {}", shared.store.describe());
                    return Err(RunError::Store { doing, error });
                }
                Err(error) => {
                    tracing::warn!(target: "inbox", group = %shared.group, %error, "opening the run failed");
                    tokio::time::sleep(outage_backoff.delay(failures, &mut random)).await;
                }
            }
        }
        Ok(None)
    }))
}

async fn opened(log: &mut Log) -> Result<Option<u64>, RunError> {
    match log {
        Log::Opening(opening) => opening.await,
        _ => std::future::pending().await,
    }
}

/// So long from now; what no clock can tell is as good as never.
fn after(wait: Duration) -> Instant {
    const NEVER: Duration = Duration::from_secs(30 * 365 * 24 * 3600);
    Instant::now() + wait.min(NEVER)
}

async fn read(assigning: &mut Option<Assigning>) -> (Assignment, Result<Vec<Option<Checkpoint>>, RunError>) {
    match assigning {
        Some(reading) => reading.await,
        None => std::future::pending().await,
    }
}
