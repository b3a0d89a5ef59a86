//! A unit of work and its policies: what fails is taken out, and the rest runs again.

use super::{
    RunError,
    breaker::Breaker,
    builder::{Config, Mode, Observers, Strategy},
    counters::Counters,
    progress::Progress,
    suspects,
    transaction::{Setback, Transaction, call_failed},
};
use crate::{
    AttemptLog, Checkpoints, Exhausted, Failure, FaultClass, Group, InboxStore, LetterReason, Letters,
    Message, Middleware, Observed, Received, Settlement, StoreError, StoredInbox, Verdict,
    handler::AnyHandler,
    mutant::{self, Mutant},
    probe::Probes,
};
use bytes::Bytes;
use std::{
    collections::{HashMap, VecDeque},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};
use tokio::sync::watch;

/// What all lanes of a run share.
pub(crate) struct Shared<S: InboxStore> {
    pub(crate) group: Group,
    pub(crate) store: Arc<S>,
    pub(crate) letters: Option<Arc<dyn Letters<Tx = S::Tx>>>,
    pub(crate) checkpoints: Option<Arc<dyn Checkpoints<Tx = S::Tx>>>,
    pub(crate) stored: Option<Arc<dyn StoredInbox<Tx = S::Tx>>>,
    pub(crate) attempt_log: Option<Arc<dyn AttemptLog<Tx = S::Tx>>>,
    pub(crate) breaker: Breaker,
    pub(crate) progress: Option<Progress>,
    pub(crate) handler: Arc<dyn AnyHandler<S>>,
    pub(crate) layers: Vec<Arc<dyn Middleware<S>>>,
    pub(crate) observers: Observers,
    pub(crate) config: Config,
    pub(crate) counters: Arc<Counters>,
    pub(crate) probes: Probes,
    /// Turns true when handlers have to be dropped.
    pub(crate) cancel: watch::Receiver<bool>,
}

impl<S: InboxStore> Shared<S> {
    /// Tells the observers; a panic of one is not the run's.
    pub(crate) fn observe(&self, message: &Message, observed: Observed<'_>) {
        for observer in &self.observers {
            if catch_unwind(AssertUnwindSafe(|| observer.observe(message, observed))).is_err() {
                tracing::error!(target: "inbox", group = %self.group, id = message.id(), "an observer panicked");
            }
        }
    }

    /// Randomness for back-offs: the same in every run with the same seed.
    pub(crate) fn random(&self) -> fastrand::Rng {
        self.config.seed.map_or_else(fastrand::Rng::new, fastrand::Rng::with_seed)
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        *self.cancel.borrow()
    }

    /// Waits, or until the run is cancelled; tells whether it was.
    pub(crate) async fn wait(&self, time: Duration) -> bool {
        let mut cancel = self.cancel.clone();
        tokio::select! {
            () = tokio::time::sleep(time) => false,
            // An error means that the run is gone: nobody will cancel any more.
            Ok(_) = cancel.wait_for(|&cancel| cancel) => true,
        }
    }
}

/// How a delivery ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Applied,
    Duplicate,
    Conflict,
    Dead,
    /// Kept in its row.
    Stored,
    /// Still in its row, to be tried again later.
    Deferred,
    /// Acknowledged before any work, and not handled.
    Dropped,
    Ignored,
}

impl Outcome {
    pub(crate) fn observed(self) -> Observed<'static> {
        match self {
            Self::Applied => Observed::Applied,
            Self::Duplicate => Observed::Duplicate,
            Self::Conflict => Observed::Conflict,
            Self::Dead => Observed::DeadLettered,
            Self::Stored | Self::Deferred => Observed::Stored,
            Self::Dropped => Observed::Dropped,
            Self::Ignored => Observed::Ignored,
        }
    }
}

/// A message that is to be tried again, alone.
#[derive(Debug)]
pub(crate) struct Retry<R> {
    pub(crate) received: Received<R>,
    /// Why.
    pub(crate) error: String,
    /// When the handler named a time.
    pub(crate) after: Option<Duration>,
    /// Its claim is held by somebody else; nobody was charged.
    pub(crate) busy: bool,
}

/// What became of a unit's deliveries: each is in exactly one of the lists.
#[derive(Debug)]
pub(crate) struct UnitDone<R> {
    /// Finished, and how.
    pub(crate) settlements: Vec<(Settlement<R>, Outcome)>,
    /// To be tried again later.
    pub(crate) retry: Vec<Retry<R>>,
    /// Nothing happened to them: back to the queue.
    pub(crate) held: Vec<Received<R>>,
    /// Why the run has to wait.
    pub(crate) outage: Option<StoreError>,
    /// Why the run has to end.
    pub(crate) halt: Option<RunError>,
}

impl<R> Default for UnitDone<R> {
    fn default() -> Self {
        Self { settlements: Vec::new(), retry: Vec::new(), held: Vec::new(), outage: None, halt: None }
    }
}

/// How often a batch is run again because of contention. Then the run waits as after an outage, or, when it
/// comes from what a handler does, that counts as a failed attempt.
const CONTENTION_RERUNS_MAX: u32 = 10;

/// Runs deliveries to their ends, in as few transactions as their failures allow.
pub(crate) async fn run<S: InboxStore, R: Send + 'static>(
    shared: &Shared<S>,
    mode: Mode,
    batch: Vec<Received<R>>,
) -> UnitDone<R> {
    Run {
        shared,
        mode,
        done: UnitDone::default(),
        blocked: HashMap::new(),
        reruns: 0,
        work: VecDeque::from([batch]),
    }
    .finish()
    .await
}

struct Run<'a, S: InboxStore, R> {
    shared: &'a Shared<S>,
    mode: Mode,
    done: UnitDone<R>,
    /// Keys of which a message is to be retried, with its number: those that came after it wait.
    blocked: HashMap<Bytes, u64>,
    /// Consecutive reruns because of contention.
    reruns: u32,
    work: VecDeque<Vec<Received<R>>>,
}

impl<S: InboxStore, R: Send + 'static> Run<'_, S, R> {
    async fn finish(mut self) -> UnitDone<R> {
        while let Some(batch) = self.work.pop_front() {
            let batch = self.without_blocked(batch);
            let mut batch = self.without_reprieved(batch);
            if batch.is_empty() {
                continue;
            }
            let ended = match suspects::mark(self.shared, self.mode, &mut batch).await {
                Ok(()) => Transaction::run(self.shared, self.mode, batch, &mut self.done.settlements).await,
                Err(error) => Err(call_failed(self.shared, batch, error, "marking a start", false)),
            };
            match ended {
                Ok(()) => self.reruns = 0,
                Err(setback) => self.set_back(setback).await,
            }
            if self.done.outage.is_some() || self.done.halt.is_some() || self.shared.is_cancelled() {
                self.done.held.extend(self.work.drain(..).flatten());
            }
        }
        self.done
    }

    async fn set_back(&mut self, setback: Setback<R>) {
        match setback {
            Setback::Member { mut batch, number, failure, class } => {
                suspects::acquit(self.shared, batch.iter_mut().filter(|r| r.number == number)).await;
                self.member_failed(batch, number, &failure, class)
            }
            Setback::Whole { batch, class, error } => self.whole_failed(batch, class, error),
            Setback::Busy(batch) => self.busy(batch),
            Setback::Contention { batch, error, is_wide } => {
                self.reruns += 1;
                let wait = self.shared.config.rerun_backoff.delay(self.reruns, &mut self.shared.random());
                if self.reruns <= CONTENTION_RERUNS_MAX {
                    if self.shared.wait(wait).await {
                        self.done.held.extend(batch);
                    } else {
                        self.work.push_front(batch);
                    }
                } else if is_wide {
                    self.done.outage = Some(error);
                    self.done.held.extend(batch);
                } else {
                    // Something that one of them does: the others must not wait for ever.
                    self.reruns = 0;
                    self.whole_failed(batch, FaultClass::HandlerFault, error);
                }
            }
            Setback::Outage { mut batch, error, started } => {
                if started && self.shared.config.strategy != Strategy::AtMostOnce {
                    batch.iter_mut().for_each(|received| received.suspicion.deepen());
                }
                self.done.outage = Some(error);
                self.done.held.extend(batch);
            }
            Setback::Halt(batch, error) => {
                self.done.halt = Some(error);
                self.done.held.extend(batch);
            }
            Setback::Cancelled(mut batch) => {
                suspects::acquit(self.shared, &mut batch).await;
                self.done.held.extend(batch);
            }
        }
    }

    fn without_blocked(&mut self, batch: Vec<Received<R>>) -> Vec<Received<R>> {
        if self.blocked.is_empty() || mutant::is(Mutant::OvertakesRetries) {
            return batch;
        }
        let waits_for = |r: &Received<R>| r.message.key().and_then(|key| self.blocked.get(key)).copied();
        let is_blocked = |r: &Received<R>| waits_for(r).is_some_and(|first| first < r.number);
        let (blocked, free): (Vec<_>, Vec<_>) = batch.into_iter().partition(is_blocked);
        self.done.held.extend(blocked);
        free
    }

    /// While the breaker is open nothing is given up: those that failed in a unit that began before it opened
    /// are tried again, too.
    fn without_reprieved(&mut self, batch: Vec<Received<R>>) -> Vec<Received<R>> {
        if !self.shared.breaker.is_open() {
            return batch;
        }
        let is_given_up =
            |r: &Received<R>| r.bury.as_ref().is_some_and(|(reason, _)| *reason == LetterReason::Failed);
        let (given_up, mut batch): (Vec<_>, Vec<_>) = batch.into_iter().partition(is_given_up);
        for mut received in given_up {
            let error = received.bury.take().map(|(_, error)| error).unwrap_or_default();
            received.attempts = received.attempts.saturating_sub(1);
            self.set_aside(received, error, None, false);
        }
        batch = self.without_blocked(batch);
        batch
    }

    /// Takes a message out of the unit, to be tried again; later ones of its key wait for it.
    fn set_aside(&mut self, received: Received<R>, error: String, after: Option<Duration>, busy: bool) {
        if let Some(key) = received.message.key() {
            let first = self.blocked.entry(key.clone()).or_insert(received.number);
            *first = received.number.min(*first);
        }
        self.done.retry.push(Retry { received, error, after, busy });
    }

    fn member_failed(
        &mut self,
        mut batch: Vec<Received<R>>,
        number: u64,
        failure: &Failure,
        class: FaultClass,
    ) {
        let policy = &self.shared.config.retry;
        let permanent = failure.is_permanent() || class == FaultClass::Permanent;
        Counters::add(&self.shared.counters.failed_attempts, 1);
        if let Some(index) = batch.iter().position(|r| r.number == number) {
            let is_breaking = self.shared.breaker.failed(number);
            let failed = &mut batch[index];
            // Behind an open breaker it is not the message's fault, whatever the error says.
            failed.attempts += u32::from(!is_breaking);
            let (id, attempt) = (failed.message.claim_key().clone(), failed.attempts);
            let will_retry = is_breaking || !permanent && attempt < policy.attempts_max;
            if !self.shared.observers.is_empty() {
                let observed = Observed::Failed { attempt, error: &failure.to_string(), will_retry };
                self.shared.observe(&failed.message, observed);
            }
            tracing::warn!(
                target: "inbox", group = %self.shared.group, %id, attempt, permanent, error = %failure, "attempt failed"
            );
            if will_retry {
                let failed = batch.remove(index);
                self.set_aside(failed, failure.to_string(), failure.delay(), false);
            } else if policy.exhausted == Exhausted::Halt {
                self.done.halt = Some(RunError::Halted { id, attempts: attempt, error: failure.to_string() });
            } else {
                failed.bury = Some((LetterReason::Failed, failure.to_string()));
            }
        }
        self.work.push_front(batch);
    }

    /// What a batch wrote does not commit: halve it until it is known whose fault it is.
    fn whole_failed(&mut self, mut batch: Vec<Received<R>>, class: FaultClass, error: StoreError) {
        if batch.len() > 1 {
            let second = batch.split_off(batch.len() / 2);
            self.work.push_front(second);
            self.work.push_front(batch);
            return;
        }
        match batch.first().map(|single| (single.number, single.bury.is_none())) {
            Some((number, true)) => self.member_failed(batch, number, &Failure::from(error), class),
            _ => {
                // Not even its letter can be written.
                let doing = format!("writing a letter into {}", self.shared.store.describe());
                self.done.halt = Some(RunError::Store { doing, error });
                self.done.held.extend(batch);
            }
        }
    }

    /// A claim is held by somebody else: find out which, and look at it again later.
    fn busy(&mut self, mut batch: Vec<Received<R>>) {
        Counters::add(&self.shared.counters.busy, 1);
        if batch.len() > 1 {
            while let Some(single) = batch.pop() {
                self.work.push_front(vec![single]);
            }
        } else if let Some(mut single) = batch.pop() {
            if mutant::is(Mutant::TakesBusyForDone) {
                return self.done.settlements.push((single.forge(Verdict::Found), Outcome::Duplicate));
            }
            single.found_busy = single.found_busy.saturating_add(1);
            self.set_aside(single, String::new(), None, true);
        }
    }
}
