//! Lanes: each runs one unit of work at a time, and settles where its strategy says.

use super::{
    RunError, Strategy,
    builder::Mode,
    counters::Counters,
    unit::{self, Outcome, Retry, Shared, UnitDone},
};
use crate::{
    Ack, AckError, InboxStore, ProbePoint, Received, Settled, Settlement, StoreError, StoredInbox, Verdict,
    mutant::{self, Mutant},
};
use futures_util::FutureExt;
use std::{panic::AssertUnwindSafe, sync::Arc};
use tokio::sync::{mpsc, oneshot};

/// What a lane reports when a unit has ended and its settlements are sent.
pub(crate) struct Report<R> {
    pub(crate) lane: usize,
    pub(crate) finished: Vec<(usize, Outcome)>,
    pub(crate) retry: Vec<Retry<R>>,
    pub(crate) held: Vec<Received<R>>,
    pub(crate) outage: Option<StoreError>,
    pub(crate) halt: Option<RunError>,
}

/// Starts a lane; it ends when its sender is dropped.
pub(crate) fn start<S: InboxStore, A: Ack>(
    lane: usize,
    shared: Arc<Shared<S>>,
    ack: A,
    reports: mpsc::Sender<Report<A::Receipt>>,
) -> mpsc::Sender<Vec<Received<A::Receipt>>> {
    let (units, mut inbox) = mpsc::channel::<Vec<Received<A::Receipt>>>(1);
    let lane = Lane { lane, shared, ack };
    tokio::spawn(async move {
        while let Some(batch) = inbox.recv().await {
            let report = match lane.shared.config.strategy {
                _ if mutant::is(Mutant::AcknowledgesBeforeCommit) => lane.settle_then_handle(batch).await,
                Strategy::AtMostOnce => lane.settle_then_handle(batch).await,
                _ if lane.shared.config.mode == Mode::Reclaim => lane.handle_kept(batch).await,
                Strategy::OnPersist => lane.keep_settle_handle(batch).await,
                Strategy::ExactlyOnce | Strategy::AtLeastOnce => lane.handle_then_settle(batch).await,
            };
            if reports.send(report).await.is_err() {
                break;
            }
        }
    });
    units
}

struct Lane<S: InboxStore, A> {
    lane: usize,
    shared: Arc<Shared<S>>,
    ack: A,
}

impl<S: InboxStore, A: Ack> Lane<S, A> {
    async fn handle_then_settle(&self, batch: Vec<Received<A::Receipt>>) -> Report<A::Receipt> {
        let done = self.unit(self.shared.config.mode, batch).await;
        self.settle_all(done).await
    }

    /// At least once, on persist: the broker forgets what is kept, and then it is handled.
    async fn keep_settle_handle(&self, batch: Vec<Received<A::Receipt>>) -> Report<A::Receipt> {
        let messages: Vec<_> =
            batch.iter().map(|received| (received.tag, received.number, received.message.clone())).collect();
        let done = self.unit(Mode::Persist, batch).await;
        let mut report = self.settle_all(done).await;
        if report.halt.is_some() || report.outage.is_some() || self.shared.is_cancelled() {
            return report;
        }
        let is_kept = |tag: usize| report.finished.contains(&(tag, Outcome::Stored));
        let kept = messages.into_iter().filter(|(tag, ..)| is_kept(*tag)).map(|(_, number, message)| {
            let mut received = Received::new(message, ());
            received.number = number;
            received
        });
        let done = self.unit(Mode::Reclaim, kept.collect()).await;
        for (_, outcome) in &done.settlements {
            if *outcome == Outcome::Applied {
                Counters::add(&self.shared.counters.applied, 1);
            }
        }
        let mut failed = done.retry;
        if let Some(RunError::Halted { error, .. }) = &done.halt {
            let halted = done.held.into_iter().filter(|received| received.attempts > 0);
            failed.extend(halted.map(|received| Retry {
                received,
                error: error.clone(),
                after: None,
                busy: false,
            }));
        }
        let deferred = self.record_failures(failed).await;
        Counters::add(&self.shared.counters.deferred, deferred.len() as u64);
        // What is held stays in its row.
        report.outage = report.outage.or(done.outage);
        report.halt = report.halt.or(done.halt);
        report
    }

    /// Handles what a broker of kept messages delivered; what fails stays in its row.
    async fn handle_kept(&self, batch: Vec<Received<A::Receipt>>) -> Report<A::Receipt> {
        let mut done = self.unit(Mode::Reclaim, batch).await;
        let (busy, failed) = std::mem::take(&mut done.retry).into_iter().partition(|retry| retry.busy);
        done.retry = busy;
        for received in self.record_failures(failed).await {
            done.settlements.push((received.release(None), Outcome::Deferred));
        }
        self.settle_all(done).await
    }

    /// At most once: only what the broker has confirmed to have forgotten is handled.
    async fn settle_then_handle(&self, batch: Vec<Received<A::Receipt>>) -> Report<A::Receipt> {
        let mut waived = Vec::with_capacity(batch.len());
        let mut copies = Vec::with_capacity(batch.len());
        for received in batch {
            let mut copy = Received::new(received.message.clone(), ());
            (copy.tag, copy.number, copy.bury) = (received.tag, received.number, received.bury.clone());
            copies.push(copy);
            waived.push(if mutant::is(Mutant::AcknowledgesBeforeCommit) {
                received.forge(Verdict::Applied)
            } else {
                received.waive()
            });
        }
        let answers = self.settle(waived).await;
        let mut finished = Vec::new();
        let mut confirmed = Vec::new();
        for (copy, answer) in copies.into_iter().zip(answers) {
            match answer {
                Some(Settled::Confirmed) => confirmed.push(copy),
                _ if mutant::is(Mutant::HandlesUnconfirmed) => confirmed.push(copy),
                // Perhaps it comes again, perhaps not: handled it could be twice.
                _ => finished.push((copy.tag, Outcome::Dropped)),
            }
        }
        let tags: Vec<usize> = confirmed.iter().map(|copy| copy.tag).collect();
        let mut report = Report {
            lane: self.lane,
            finished,
            retry: Vec::new(),
            held: Vec::new(),
            outage: None,
            halt: None,
        };
        let mut failures = 0;
        while !confirmed.is_empty() {
            let done = self.unit(self.shared.config.mode, std::mem::take(&mut confirmed)).await;
            report
                .finished
                .extend(done.settlements.iter().map(|(settlement, outcome)| (settlement.tag(), *outcome)));
            report.halt = done.halt;
            let Some(error) = done.outage else { break };
            // Only this process knows of it any more: it waits for the store here.
            failures += 1;
            tracing::warn!(target: "inbox", group = %self.shared.group, %error, "store out of reach");
            confirmed = done.held;
            let wait = self.shared.config.outage_backoff.delay(failures, &mut self.shared.random());
            if self.shared.wait(wait).await {
                break;
            }
        }
        let unfinished: Vec<usize> =
            tags.into_iter().filter(|tag| !report.finished.iter().any(|(done, _)| done == tag)).collect();
        report.finished.extend(unfinished.into_iter().map(|tag| (tag, Outcome::Dropped)));
        report
    }

    /// Writes failed attempts into the rows of kept messages, and gives those messages back. One whose
    /// failure cannot be written is due again at once; that is all.
    async fn record_failures<R>(&self, retries: Vec<Retry<R>>) -> Vec<Received<R>> {
        let mut deferred = Vec::with_capacity(retries.len());
        for Retry { received, error, after, .. } in retries {
            let shared = &self.shared;
            let backoff = || shared.config.retry.backoff.delay(received.attempts, &mut shared.random());
            let retry_in = after.unwrap_or_else(backoff);
            if let Some(stored) = &shared.stored {
                let stored: &dyn StoredInbox<Tx = S::Tx> = &**stored;
                let key = received.message.claim_key();
                let written =
                    stored.record_failure(&shared.group, key, received.attempts, &error, retry_in).await;
                if let Err(error) = written {
                    tracing::warn!(target: "inbox", group = %shared.group, id = %key, %error, "recording a failure failed");
                }
            }
            deferred.push(received);
        }
        deferred
    }

    /// The unit is never aborted: it is handed to the store as a whole, and only its result comes back.
    async fn unit<R: Send + 'static>(&self, mode: Mode, batch: Vec<Received<R>>) -> UnitDone<R> {
        if batch.is_empty() {
            return UnitDone::default();
        }
        let (result, done) = oneshot::channel();
        let shared = Arc::clone(&self.shared);
        self.shared.store.run_unit(Box::pin(async move {
            // Nobody waits any more when the runtime is ending.
            let _gone = result.send(unit::run(&shared, mode, batch).await);
        }));
        done.await.unwrap_or_else(|_| UnitDone { halt: Some(RunError::UnitLost), ..UnitDone::default() })
    }

    async fn settle_all(&self, done: UnitDone<A::Receipt>) -> Report<A::Receipt> {
        let UnitDone { mut settlements, mut retry, held, outage, halt } = done;
        if mutant::is(Mutant::SettlesUnfinished) {
            let forged = retry.drain(..).map(|r| (r.received.forge(Verdict::Applied), Outcome::Applied));
            settlements.extend(forged);
        }
        let finished = settlements.iter().map(|(settlement, outcome)| (settlement.tag(), *outcome)).collect();
        self.settle(settlements.into_iter().map(|(settlement, _)| settlement).collect()).await;
        Report { lane: self.lane, finished, retry, held, outage, halt }
    }

    /// Tells the broker. One answer for each settlement, `None` where it failed.
    async fn settle(&self, settlements: Vec<Settlement<A::Receipt>>) -> Vec<Option<Settled>> {
        let shared = &self.shared;
        let count = settlements.len();
        if count == 0 {
            return Vec::new();
        }
        shared.probes.reached(ProbePoint::Settling, None).await;
        // A lane that ends by a panic would never be heard of again.
        let answers =
            AssertUnwindSafe(self.ack.settle(settlements)).catch_unwind().await.unwrap_or_else(|_| {
                tracing::error!(target: "inbox", group = %shared.group, "the broker panicked while settling");
                let panicked = || AckError::new("the broker", "it panicked");
                (0..count).map(|_| Err(panicked())).collect()
            });
        shared.probes.reached(ProbePoint::Settled, None).await;
        let mut settled: Vec<Option<Settled>> = answers.into_iter().map(|answer| self.note(answer)).collect();
        settled.resize(count, None);
        settled
    }

    fn note(&self, answer: Result<Settled, AckError>) -> Option<Settled> {
        let shared = &self.shared;
        match answer {
            Ok(settled) => {
                if settled == Settled::Stale {
                    Counters::add(&shared.counters.stale, 1);
                }
                Some(settled)
            }
            // After a commit this is harmless: when it comes again it will be found.
            Err(error) => {
                Counters::add(&shared.counters.failed_settlements, 1);
                tracing::warn!(target: "inbox", group = %shared.group, %error, "settlement failed");
                None
            }
        }
    }
}
