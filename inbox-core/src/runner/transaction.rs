//! One transaction over a batch: claim, handle, record, commit.

use super::{
    RunError, Strategy,
    builder::Mode,
    counters::Counters,
    progress::{Moves, Place},
    suspects,
    unit::{Outcome, Shared},
};
use crate::{
    Answer, Claim, ClaimKey, Claimed, CommitFailed, Conflicting, Doubt, Exhausted, Failure, FaultClass,
    Finished, InboxStore, Letter, LetterReason, Letters, Message, ProbePoint, Received, Resolved, Settlement,
    StepFailed, StoreError, Unit,
    handler::{Call, Prepared, Refusal},
    middleware::wrap,
    mutant::{self, Mutant},
};
use futures_util::FutureExt;
use std::{any::Any, collections::VecDeque, future::poll_fn, panic::AssertUnwindSafe, sync::Arc, task::Poll};
use tracing::Instrument;

/// Why a transaction did not commit; the batch is in its old order.
pub(crate) enum Setback<R> {
    /// The handler of the message with this number failed.
    Member { batch: Vec<Received<R>>, number: u64, failure: Failure, class: FaultClass },
    /// What was written does not commit, and it is not known whose fault it is.
    Whole { batch: Vec<Received<R>>, class: FaultClass, error: StoreError },
    /// A claim is held by another transaction.
    Busy(Vec<Received<R>>),
    /// Transactions got in each other's way. `is_wide` tells that it is the store as a whole, and not
    /// something that one of the messages does.
    Contention { batch: Vec<Received<R>>, error: StoreError, is_wide: bool },
    /// The store is out of reach. `started` tells that handlers had run, so that one of these messages may
    /// be the reason.
    Outage { batch: Vec<Received<R>>, error: StoreError, started: bool },
    /// The run has to end with this.
    Halt(Vec<Received<R>>, RunError),
    /// The run is ending.
    Cancelled(Vec<Received<R>>),
}

type Settlements<R> = Vec<(Settlement<R>, Outcome)>;

/// The deliveries of an open transaction, by what is still to be done with them.
pub(crate) struct Transaction<'a, S: InboxStore, R> {
    shared: &'a Shared<S>,
    runs: VecDeque<(Claimed<R>, Call<S>)>,
    /// For a batch handler.
    items: Vec<(Claimed<R>, Box<dyn Any + Send>)>,
    /// To be kept in their rows.
    kept: Vec<Claimed<R>>,
    dead: Vec<Claimed<R>>,
    conflicts: Vec<Conflicting<R>>,
    finished: Vec<Finished<R>>,
    /// Whose marks in the attempt log go.
    marked: Vec<ClaimKey>,
}

impl<'a, S: InboxStore, R: Send + 'static> Transaction<'a, S, R> {
    /// Runs the batch. What is found or committed is pushed on `settled`, also when the rest is set back.
    pub(crate) async fn run(
        shared: &'a Shared<S>,
        mode: Mode,
        mut batch: Vec<Received<R>>,
        settled: &mut Settlements<R>,
    ) -> Result<(), Setback<R>> {
        // Arguments are taken before the transaction is opened: it stays short.
        let mut prepared = match prepare_all(shared, &mut batch, settled) {
            Ok(prepared) => prepared,
            Err(error) => return Err(Setback::Halt(batch, error)),
        };
        if batch.is_empty() {
            return Ok(());
        }
        let mut unit = match Unit::begin(&*shared.store, &shared.config.tx_limits).await {
            Ok(unit) => unit,
            Err(error) => return Err(call_failed(shared, batch, error, "opening a transaction", false)),
        };
        shared.probes.reached(ProbePoint::Begun, None).await;
        let claimed = match (mode, &shared.stored) {
            (Mode::Claim | Mode::Persist, _) => unit.claim(&shared.group, batch).await,
            (Mode::Unclaimed, _) => claim_dead_only(shared, &mut unit, batch).await,
            (Mode::Reclaim, Some(stored)) => unit.reclaim(&**stored, &shared.group, batch).await,
            // The builder refuses it.
            (Mode::Reclaim, None) => Err(StepFailed { received: batch, error: no_stored_messages() }),
        };
        let answers = match claimed {
            Ok(answers) => answers,
            Err(StepFailed { received, error }) => {
                rollback(shared, unit).await;
                return Err(call_failed(shared, received, error, "claiming messages", false));
            }
        };
        shared.probes.reached(ProbePoint::Claimed, None).await;

        let mut open = Self {
            shared,
            runs: VecDeque::new(),
            items: Vec::new(),
            kept: Vec::new(),
            dead: Vec::new(),
            conflicts: Vec::new(),
            finished: Vec::new(),
            marked: Vec::new(),
        };
        for answer in answers {
            match (answer, prepared.pop_front().flatten()) {
                // Finished, whatever becomes of this transaction: its row is committed.
                (Answer::Found(found), _) => {
                    let outcome =
                        if found.claim() == Claim::Dead { Outcome::Dead } else { Outcome::Duplicate };
                    finish(shared, found.received().place, found.message(), outcome);
                    open.marked.extend(suspects::marked([found.received()]));
                    settled.push((found.settle(), outcome));
                }
                (Answer::Conflict(conflicting), _) => open.conflicts.push(conflicting),
                (Answer::Fresh(claimed), Some(_)) if mode == Mode::Persist => open.kept.push(claimed),
                (Answer::Fresh(claimed), Some(Prepared::Call(call))) => open.runs.push_back((claimed, call)),
                (Answer::Fresh(claimed), Some(Prepared::Item(item))) => open.items.push((claimed, item)),
                (Answer::Fresh(claimed), Some(Prepared::Ignore) | None) => open.dead.push(claimed),
            }
        }
        while let Some((claimed, call)) = open.runs.pop_front() {
            let (message, attempt) = (claimed.message().clone(), claimed.received().next_attempt());
            let call = wrap(&shared.layers, &message, call);
            let span = tracing::debug_span!(target: "inbox", "handle", id = message.id(), attempt);
            if let Err(stop) = handle(shared, &mut unit, Some(&message), call, span).await {
                rollback(shared, unit).await;
                let number = claimed.received().number;
                let batch = open.undo_with([claimed.undo()]);
                return Err(match stop {
                    HandlerStop::Cancelled => Setback::Cancelled(batch),
                    HandlerStop::Failed(failure) => handler_failed(shared, batch, number, failure),
                });
            }
            open.finished.push(claimed.applied());
        }
        open.handle_items(unit, settled).await
    }

    /// Runs the batch handler, if there is one, and goes on to the commit.
    async fn handle_items(
        mut self,
        mut unit: Unit<'_, S>,
        settled: &mut Settlements<R>,
    ) -> Result<(), Setback<R>> {
        let shared = self.shared;
        let (claimed, items): (Vec<_>, Vec<_>) = std::mem::take(&mut self.items).into_iter().unzip();
        if !items.is_empty() {
            let handler = Arc::clone(&shared.handler);
            let span = tracing::debug_span!(target: "inbox", "handle_batch", messages = items.len());
            let call: Call<S> = Box::new(move |tx| handler.run_batch(items, tx));
            if let Err(stop) = handle(shared, &mut unit, None, call, span).await {
                rollback(shared, unit).await;
                // Whose fault it is, only a smaller batch can tell: as when a commit fails.
                let single = if let [only] = &claimed[..] { Some(only.received().number) } else { None };
                let batch = self.undo_with(claimed.into_iter().map(Claimed::undo));
                return Err(match (stop, single) {
                    (HandlerStop::Cancelled, _) => Setback::Cancelled(batch),
                    (HandlerStop::Failed(failure), Some(number)) => {
                        handler_failed(shared, batch, number, failure)
                    }
                    (HandlerStop::Failed(failure), None) => batch_handler_failed(shared, batch, failure),
                });
            }
            self.finished.extend(claimed.into_iter().map(Claimed::applied));
        }
        self.commit(unit, settled).await
    }

    /// Everything back at the start, in its old order, together with `more`.
    fn undo_with(&mut self, more: impl IntoIterator<Item = Received<R>>) -> Vec<Received<R>> {
        let mut batch: Vec<Received<R>> = self.finished.drain(..).map(Finished::undo).collect();
        batch.extend(self.runs.drain(..).map(|(claimed, _)| claimed.undo()));
        batch.extend(self.items.drain(..).map(|(claimed, _)| claimed.undo()));
        batch.extend(self.kept.drain(..).map(Claimed::undo));
        batch.extend(self.dead.drain(..).map(Claimed::undo));
        batch.extend(self.conflicts.drain(..).map(Conflicting::undo));
        batch.extend(more);
        batch.sort_unstable_by_key(|received| received.number);
        batch
    }

    /// Writes letters, conflicts and checkpoints, and commits.
    async fn commit(mut self, mut unit: Unit<'_, S>, settled: &mut Settlements<R>) -> Result<(), Setback<R>> {
        let shared = self.shared;
        if let Err(setback) = self.record(&mut unit).await {
            rollback(shared, unit).await;
            return Err(setback);
        }
        let mut moves = Moves::default();
        let places: Vec<Place> = self.finished.iter().filter_map(|f| f.received().place).collect();
        if let Err(error) = write_checkpoints(shared, &mut unit, &places, &mut moves).await {
            rollback(shared, unit).await;
            return Err(call_failed(shared, self.undo_with([]), error, "writing checkpoints", true));
        }
        if let Err(error) = self.clear_marks(&mut unit).await {
            rollback(shared, unit).await;
            return Err(call_failed(shared, self.undo_with([]), error, "clearing marks of starts", true));
        }
        if self.finished.is_empty() && moves.moves.is_empty() && self.marked.is_empty() {
            rollback(shared, unit).await;
            return Ok(());
        }
        shared.probes.reached(ProbePoint::Committing, None).await;
        let facts: Vec<(Option<Place>, Message, Outcome)> = self
            .finished
            .iter()
            .map(|finished| {
                let outcome = match () {
                    () if finished.is_stored() => Outcome::Stored,
                    () if finished.is_conflict() => Outcome::Conflict,
                    () if finished.is_letter() => Outcome::Dead,
                    () => Outcome::Applied,
                };
                (finished.received().place, finished.received().message.clone(), outcome)
            })
            .collect();
        let settlements = match unit.commit(std::mem::take(&mut self.finished)).await {
            Ok(settlements) => settlements,
            Err(CommitFailed::RolledBack { received, error, .. }) => {
                return Err(call_failed(shared, self.undo_with(received), error, "committing", true));
            }
            Err(CommitFailed::InDoubt(doubt)) => resolve(shared, doubt).await?,
        };
        Counters::add(&shared.counters.commits, 1);
        shared.probes.reached(ProbePoint::Committed, None).await;
        if facts.iter().any(|(.., outcome)| *outcome == Outcome::Applied) {
            shared.breaker.succeeded();
        }
        if let Some(progress) = &shared.progress {
            progress.finish(facts.iter().filter_map(|(place, ..)| *place));
            progress.written(&moves);
        }
        if !shared.observers.is_empty() {
            facts.iter().for_each(|(_, message, outcome)| shared.observe(message, outcome.observed()));
        }
        settled.extend(
            settlements.into_iter().zip(facts).map(|(settlement, (.., outcome))| (settlement, outcome)),
        );
        Ok(())
    }

    /// Whoever is decided about is not suspected any more.
    async fn clear_marks(&mut self, unit: &mut Unit<'_, S>) -> Result<(), StoreError> {
        self.marked.extend(suspects::marked(self.finished.iter().map(Finished::received)));
        match (&self.shared.attempt_log, unit.tx_mut()) {
            (Some(log), Some(tx)) if !self.marked.is_empty() => {
                log.clear_marks(tx, &self.shared.group, &self.marked).await
            }
            _ => Ok(()),
        }
    }

    async fn record(&mut self, unit: &mut Unit<'_, S>) -> Result<(), Setback<R>> {
        let shared = self.shared;
        if !self.kept.is_empty() {
            let kept = std::mem::take(&mut self.kept);
            let written = match &shared.stored {
                Some(stored) => unit.keep(&**stored, &shared.group, kept).await,
                None => {
                    let received = kept.into_iter().map(Claimed::undo).collect();
                    Err(StepFailed { received, error: no_stored_messages() })
                }
            };
            match written {
                Ok(kept) => self.finished.extend(kept),
                Err(StepFailed { received, error }) => {
                    return Err(call_failed(
                        shared,
                        self.undo_with(received),
                        error,
                        "keeping messages",
                        false,
                    ));
                }
            }
        }
        let first = self.dead.first().map(|dead| (dead.message().clone(), bury_of(dead.received()).1));
        let conflict = || self.conflicts.first().map(|c| (c.message().clone(), "a conflict".to_owned()));
        let Some((message, why)) = first.or_else(conflict) else { return Ok(()) };
        let Some(letters) = shared.letters.clone() else {
            let id = message.claim_key().clone();
            return Err(Setback::Halt(self.undo_with([]), RunError::NoLetters { id, why }));
        };
        if let Some(dead) = self.dead.first().filter(|_| shared.config.retry.exhausted == Exhausted::Halt) {
            let received = dead.received();
            let (id, attempts) = (received.message.claim_key().clone(), received.attempts);
            return Err(Setback::Halt(self.undo_with([]), RunError::Halted { id, attempts, error: why }));
        }
        if !self.dead.is_empty() {
            let dead = std::mem::take(&mut self.dead).into_iter().map(|claimed| {
                let received = claimed.received();
                let (reason, error) = bury_of(received);
                let letter = Letter::new(received.message.clone(), reason, error, received.attempts);
                (claimed, letter)
            });
            let dead = dead.collect();
            let letters: &dyn Letters<Tx = S::Tx> = &*letters;
            match unit.bury(letters, &shared.group, dead).await {
                Ok(buried) => self.finished.extend(buried),
                Err(StepFailed { received, error }) => {
                    return Err(call_failed(
                        shared,
                        self.undo_with(received),
                        error,
                        "writing letters",
                        true,
                    ));
                }
            }
        }
        if !self.conflicts.is_empty() {
            let conflicts = std::mem::take(&mut self.conflicts);
            match unit.record_conflicts(&*letters, &shared.group, conflicts).await {
                Ok(recorded) => self.finished.extend(recorded),
                Err(StepFailed { received, error }) => {
                    return Err(call_failed(
                        shared,
                        self.undo_with(received),
                        error,
                        "recording conflicts",
                        true,
                    ));
                }
            }
        }
        shared.probes.reached(ProbePoint::Recorded, None).await;
        Ok(())
    }
}

/// Moves the checkpoints to where they are when this transaction commits.
async fn write_checkpoints<S: InboxStore>(
    shared: &Shared<S>,
    unit: &mut Unit<'_, S>,
    finished: &[Place],
    moves: &mut Moves,
) -> Result<(), StoreError> {
    let (Some(progress), Some(checkpoints)) = (&shared.progress, &shared.checkpoints) else {
        return Ok(());
    };
    *moves = progress.moves_if(finished);
    if moves.moves.is_empty() {
        return Ok(());
    }
    match unit.tx_mut() {
        Some(tx) => checkpoints.advance(tx, &shared.group, &moves.moves).await.map(drop),
        None => Err(StoreError::failed(FaultClass::HandlerFault, "the transaction is lost")),
    }
}

/// Runs one handler.
async fn handle<S: InboxStore>(
    shared: &Shared<S>,
    unit: &mut Unit<'_, S>,
    message: Option<&Message>,
    call: Call<S>,
    span: tracing::Span,
) -> Result<(), HandlerStop> {
    shared.probes.reached(ProbePoint::HandlerStarting, message).await;
    let Some(tx) = unit.lend() else {
        return Err(HandlerStop::Failed(Failure::message("the transaction is lost")));
    };
    let mut handler =
        Box::pin(AssertUnwindSafe(async move { call(tx).await }.instrument(span)).catch_unwind());
    // Most of the cost of a handler that has nothing to wait for would be its time-out.
    let ended = match poll_fn(|cx| Poll::Ready(handler.poll_unpin(cx))).await {
        Poll::Ready(ended) => Some(Ok(ended)),
        Poll::Pending => {
            let mut cancel = shared.cancel.clone();
            tokio::select! {
                biased;
                ended = tokio::time::timeout(shared.config.handler_timeout, &mut handler) => Some(ended),
                Ok(_) = cancel.wait_for(|&cancel| cancel) => None,
            }
        }
    };
    // What a handler that is cut short lets go of is the user's code, too.
    if std::panic::catch_unwind(AssertUnwindSafe(|| drop(handler))).is_err() {
        tracing::warn!(target: "inbox", group = %shared.group, "dropping a handler panicked");
    }
    let is_back = unit.take_back();
    let failure = match ended {
        None => return Err(HandlerStop::Cancelled),
        Some(Err(_)) => {
            let limit = shared.config.handler_timeout;
            Failure::message(format!("the handler did not end within its time-out of {limit:?}"))
        }
        Some(Ok(Err(panic))) => Failure::message(format!("the handler panicked: {}", panic_text(&*panic))),
        // A statement that was stopped because the run ends is nobody's failure.
        Some(Ok(Ok(Err(_)))) if shared.is_cancelled() => return Err(HandlerStop::Cancelled),
        Some(Ok(Ok(Err(failure)))) => failure,
        Some(Ok(Ok(Ok(())))) if !is_back => Failure::message(
            "the handler kept its transaction after it ended: do not move `Tx` into a spawned task",
        ),
        Some(Ok(Ok(Ok(())))) => {
            shared.probes.reached(ProbePoint::Applied, message).await;
            return Ok(());
        }
    };
    Err(HandlerStop::Failed(failure))
}

fn no_stored_messages() -> StoreError {
    StoreError::failed(FaultClass::Permanent, "the run was not given a store that keeps messages")
}

/// Takes the handlers' arguments; ignored messages leave the batch and are finished.
fn prepare_all<S: InboxStore, R>(
    shared: &Shared<S>,
    batch: &mut Vec<Received<R>>,
    settled: &mut Settlements<R>,
) -> Result<VecDeque<Option<Prepared<S>>>, RunError> {
    let mut prepared = VecDeque::with_capacity(batch.len());
    let mut ignored = Vec::new();
    for (index, received) in batch.iter_mut().enumerate() {
        match prepare(shared, received)? {
            Some(Prepared::Ignore) => ignored.push(index),
            ready => prepared.push_back(ready),
        }
    }
    for index in ignored.into_iter().rev() {
        let received = batch.remove(index);
        finish(shared, received.place, &received.message, Outcome::Ignored);
        settled.push((received.waive(), Outcome::Ignored));
    }
    Ok(prepared)
}

/// Takes the handler's arguments; a message that does not hold them is to become a letter, which is `None`.
fn prepare<S: InboxStore, R>(
    shared: &Shared<S>,
    received: &mut Received<R>,
) -> Result<Option<Prepared<S>>, RunError> {
    if received.bury.is_some() {
        return Ok(None);
    }
    let attempt = received.next_attempt();
    // An extractor is the user's code: a panic in it must not take the run down.
    let prepare = AssertUnwindSafe(|| shared.handler.prepare(&received.message, &shared.group, attempt));
    let (reason, error) = match std::panic::catch_unwind(prepare) {
        Ok(Ok(prepared)) => return Ok(Some(prepared)),
        Ok(Err(Refusal::Undecodable(undecodable))) => (LetterReason::Undecodable, undecodable.to_string()),
        Ok(Err(Refusal::UnknownType { message_type, halt })) => {
            let id = received.message.claim_key().clone();
            if halt {
                return Err(RunError::UnknownType { id, message_type });
            }
            let named = message_type
                .map_or("it has no type".to_owned(), |named| format!("type {named:?} has no route"));
            (LetterReason::UnknownType, named)
        }
        Err(panic) => (LetterReason::Undecodable, format!("decoding panicked: {}", panic_text(&*panic))),
    };
    received.bury = Some((reason, error));
    Ok(None)
}

/// A delivery is finished outside of the commit of this transaction.
fn finish<S: InboxStore>(shared: &Shared<S>, place: Option<Place>, message: &Message, outcome: Outcome) {
    if let Some(progress) = &shared.progress {
        progress.finish(place);
    }
    shared.observe(message, outcome.observed());
}

fn bury_of<R>(received: &Received<R>) -> (LetterReason, String) {
    received.bury.clone().unwrap_or_else(|| (LetterReason::Undecodable, String::new()))
}

/// Without claims only the dead have rows, so that their letters are written once.
async fn claim_dead_only<S: InboxStore, R>(
    shared: &Shared<S>,
    unit: &mut Unit<'_, S>,
    batch: Vec<Received<R>>,
) -> Result<Vec<Answer<R>>, StepFailed<R>> {
    let is_dead: Vec<bool> = batch.iter().map(|received| received.bury.is_some()).collect();
    let (dead, alive): (Vec<_>, Vec<_>) = batch.into_iter().partition(|received| received.bury.is_some());
    let dead = if dead.is_empty() {
        Vec::new()
    } else {
        match unit.claim(&shared.group, dead).await {
            Ok(answers) => answers,
            Err(StepFailed { mut received, error }) => {
                received.extend(alive);
                received.sort_unstable_by_key(|received| received.number);
                return Err(StepFailed { received, error });
            }
        }
    };
    let (mut dead, mut alive) =
        (dead.into_iter(), alive.into_iter().map(|received| Answer::Fresh(unit.enter(received))));
    Ok(is_dead.into_iter().filter_map(|is_dead| if is_dead { dead.next() } else { alive.next() }).collect())
}

enum HandlerStop {
    Cancelled,
    Failed(Failure),
}

fn handler_failed<S: InboxStore, R>(
    shared: &Shared<S>,
    batch: Vec<Received<R>>,
    number: u64,
    failure: Failure,
) -> Setback<R> {
    let class = failure
        .chain()
        .map(|error| shared.store.classify(error))
        .find(|class| *class != FaultClass::HandlerFault)
        .unwrap_or(FaultClass::HandlerFault);
    let as_store_error = |failure: Failure| StoreError::failed(class, format!("in a handler: {failure}"));
    match class {
        FaultClass::Outage => Setback::Outage { batch, error: as_store_error(failure), started: true },
        FaultClass::Contention => {
            Setback::Contention { batch, error: as_store_error(failure), is_wide: false }
        }
        FaultClass::Aborted if batch.len() > 1 => {
            Setback::Whole { batch, class, error: as_store_error(failure) }
        }
        class => Setback::Member { batch, number, failure, class },
    }
}

fn batch_handler_failed<S: InboxStore, R>(
    shared: &Shared<S>,
    batch: Vec<Received<R>>,
    failure: Failure,
) -> Setback<R> {
    match handler_failed(shared, batch, 0, failure) {
        Setback::Member { batch, failure, class, .. } => {
            let error = StoreError::failed(class, format!("in a batch handler: {failure}"));
            Setback::Whole { batch, class, error }
        }
        other => other,
    }
}

/// What a failed store call means. `handled` tells whether handlers have run in the transaction and may
/// be at fault.
pub(super) fn call_failed<S: InboxStore, R>(
    shared: &Shared<S>,
    batch: Vec<Received<R>>,
    error: StoreError,
    doing: &str,
    handled: bool,
) -> Setback<R> {
    match error.class() {
        None => Setback::Busy(batch),
        Some(FaultClass::Outage) => Setback::Outage { batch, error, started: handled },
        Some(FaultClass::Contention) => Setback::Contention { batch, error, is_wide: !handled },
        Some(class) if handled => Setback::Whole { batch, class, error },
        Some(_) => {
            let doing = format!("{doing} in {}", shared.store.describe());
            Setback::Halt(batch, RunError::Store { doing, error })
        }
    }
}

/// Asks the store until it is known whether a commit was done.
async fn resolve<S: InboxStore, R>(
    shared: &Shared<S>,
    mut doubt: Doubt<R>,
) -> Result<Vec<Settlement<R>>, Setback<R>> {
    Counters::add(&shared.counters.doubts, 1);
    tracing::warn!(target: "inbox", group = %shared.group, error = doubt.message(), "commit in doubt");
    let is_lost = shared.config.strategy == Strategy::AtMostOnce && !doubt.can_be_resolved();
    if is_lost && !mutant::is(Mutant::RunsDoubtAgain) {
        // Nothing tells whether it was done, and it must not be done twice.
        return Err(Setback::Cancelled(doubt.undo()));
    }
    for failures in 1.. {
        match doubt.resolve(&*shared.store, &shared.group).await {
            Ok(Resolved::Committed(settlements)) => return Ok(settlements),
            Ok(Resolved::RolledBack(batch)) => {
                let error = StoreError::failed(
                    FaultClass::Outage,
                    "a commit whose reply was lost is not known to be done",
                );
                return Err(Setback::Outage { batch, error, started: true });
            }
            Err((still, error)) => {
                tracing::warn!(target: "inbox", group = %shared.group, %error, "commit still in doubt");
                doubt = still;
                let wait = shared.config.outage_backoff.delay(failures, &mut shared.random());
                if shared.wait(wait).await {
                    break;
                }
            }
        }
    }
    // The run is ending: redelivery will find the row, or not.
    Err(Setback::Cancelled(doubt.undo()))
}

/// Commits what the runner itself has written.
pub(super) async fn commit_alone<S: InboxStore>(unit: Unit<'_, S>) -> Result<(), StoreError> {
    match unit.commit::<()>(Vec::new()).await {
        Ok(_) => Ok(()),
        Err(CommitFailed::RolledBack { error, .. }) => Err(error),
        Err(CommitFailed::InDoubt(doubt)) => Err(StoreError::failed(FaultClass::Outage, doubt.message())),
    }
}

/// Rolls back within a deadline, after which the connection is dropped.
async fn rollback<S: InboxStore>(shared: &Shared<S>, unit: Unit<'_, S>) {
    if mutant::is(Mutant::CommitsFailedHalf) {
        let _ignored = unit.commit::<()>(Vec::new()).await;
        return;
    }
    match tokio::time::timeout(shared.config.rollback_timeout, unit.rollback()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(target: "inbox", %error, "rolling back failed"),
        Err(_) => tracing::debug!(target: "inbox", "rolling back took too long: the connection is dropped"),
    }
    shared.probes.reached(ProbePoint::RolledBack, None).await;
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&'static str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("with something that is no text")
}
