//! One life of a process that hands messages to a handler, one transaction each, until it is cut.

use super::{Finding, Place, Trial};
use inbox_core::{
    Answer, Attempt, Context, FaultClass, Finished, Group, Handler, Letters, Message, Received, StepFailed,
    StoreError, TxLimits, Unit,
};
use std::{
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::Arc,
    task::Poll,
};

/// How a delivery ended.
pub(super) enum Handled<T> {
    /// Acknowledged; the handler waited so often, if it ran.
    Settled(usize),
    /// The process died.
    Died,
    /// The handler was dropped by its time-out.
    TimedOut,
    Wrong(Finding<T>),
}

/// Where a delivery is cut, and whether the process dies of it.
#[derive(Clone, Copy)]
pub(super) struct Cut {
    pub(super) at: Place,
    pub(super) dies: bool,
}

/// One message through the state machine, as a runner takes it.
pub(super) async fn deliver<S, H, Args, T>(
    store: &S,
    handler: &Arc<H>,
    message: &Message,
    (attempt, cut): (Attempt, Option<Cut>),
    trial: &Trial,
) -> Handled<T>
where
    S: Letters,
    H: Handler<S, (), Args>,
{
    let group = match Group::new("checked") {
        Ok(group) => group,
        Err(error) => return store_failed(trial, &error),
    };
    let is_cut = |place: Place| cut.is_some_and(|cut| cut.at == place);
    let id = message.id().to_owned();
    let fails =
        |error: String| Handled::Wrong(Finding::Fails { trial: trial.clone(), id: id.clone(), error });
    let context = Context { message, group: &group, attempt: attempt.0, app: &() };
    let call = match handler.prepare(&context) {
        Ok(call) => call,
        Err(undecodable) => return fails(undecodable.to_string()),
    };
    if is_cut(Place::BeforeBegin) {
        return Handled::Died;
    }
    let mut unit = match Unit::begin(store, &TxLimits::default()).await {
        Ok(unit) => unit,
        Err(error) => return store_failed(trial, &error),
    };
    if is_cut(Place::AfterBegin) {
        return Handled::Died;
    }
    let answer = match unit.claim(&group, vec![Received::new(message.clone(), ())]).await {
        Ok(mut answers) => answers.pop(),
        Err(StepFailed { error, .. }) => return store_failed(trial, &error),
    };
    if is_cut(Place::AfterClaim) {
        return Handled::Died;
    }
    let claimed = match answer {
        Some(Answer::Fresh(claimed)) => claimed,
        Some(Answer::Conflict(conflicting)) => {
            return match unit.record_conflicts(store, &group, vec![conflicting]).await {
                Ok(finished) => commit(unit, finished, &id, trial, 0).await,
                Err(StepFailed { error, .. }) => store_failed(trial, &error),
            };
        }
        Some(Answer::Found(found)) => {
            drop(found.settle());
            return rolled_back(unit.rollback().await, Handled::Settled(0), trial);
        }
        None => return store_failed(trial, &"it answered no claim"),
    };
    let Some(tx) = unit.lend() else { return store_failed(trial, &"the transaction is lost") };
    let stop = cut.and_then(|cut| if let Place::Await(count) = cut.at { Some(count) } else { None });
    let polled = {
        // A panic while it is called counts as one while it runs.
        match catch_unwind(AssertUnwindSafe(|| call(tx))) {
            Ok(running) => wait(running, stop).await,
            Err(_) => Polled::Panicked,
        }
    };
    let is_back = unit.take_back();
    let waits = match polled {
        Polled::Stopped if cut.is_some_and(|cut| cut.dies) => return Handled::Died,
        Polled::Stopped if is_back => return rolled_back(unit.rollback().await, Handled::TimedOut, trial),
        Polled::Panicked => return fails("it panicked".to_owned()),
        Polled::Ended(Err(failure), _) => return fails(failure.to_string()),
        Polled::Stopped | Polled::Ended(Ok(()), _) if !is_back => {
            return Handled::Wrong(Finding::KeepsTransaction { id });
        }
        Polled::Stopped => 0,
        Polled::Ended(Ok(()), waits) => waits,
    };
    if is_cut(Place::BeforeCommit) {
        if cut.is_some_and(|cut| cut.dies) {
            return Handled::Died;
        }
        return rolled_back(unit.rollback().await, Handled::TimedOut, trial);
    }
    let handled = commit(unit, vec![claimed.applied()], &id, trial, waits).await;
    if is_cut(Place::AfterCommit) && matches!(handled, Handled::Settled(_)) { Handled::Died } else { handled }
}

async fn commit<S: Letters, T>(
    unit: Unit<'_, S>,
    finished: Vec<Finished<()>>,
    id: &str,
    trial: &Trial,
    waits: usize,
) -> Handled<T> {
    let (class, error) = match unit.commit(finished).await {
        Ok(settlements) => {
            drop(settlements);
            return Handled::Settled(waits);
        }
        Err(inbox_core::CommitFailed::RolledBack { class, error, .. }) => (class, error),
        Err(inbox_core::CommitFailed::InDoubt(doubt)) => return store_failed(trial, &doubt.message()),
    };
    let (id, error) = (id.to_owned(), inbox_core::chain_text(&error));
    Handled::Wrong(match class {
        FaultClass::HandlerFault => Finding::EndsTransaction { id, error },
        FaultClass::Aborted => Finding::HidesFailure { id, error },
        FaultClass::Permanent => Finding::Fails { trial: trial.clone(), id, error },
        _ => Finding::Store { trial: trial.clone(), error },
    })
}

fn store_failed<T>(trial: &Trial, error: &dyn std::fmt::Display) -> Handled<T> {
    Handled::Wrong(Finding::Store { trial: trial.clone(), error: error.to_string() })
}

fn rolled_back<T>(outcome: Result<(), StoreError>, handled: Handled<T>, trial: &Trial) -> Handled<T> {
    outcome.map_or_else(|error| store_failed(trial, &error), |()| handled)
}

enum Polled<O> {
    /// It ended, after so many waits.
    Ended(O, usize),
    /// It was dropped at the wait where it had to stop.
    Stopped,
    Panicked,
}

/// Polls until it ends, or has waited `stop` times; then it is dropped, as a crash drops it.
async fn wait<F: Future>(running: F, stop: Option<usize>) -> Polled<F::Output> {
    let mut running = pin!(running);
    let mut waits = 0;
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| running.as_mut().poll(cx))) {
        Err(_) => Poll::Ready(Polled::Panicked),
        Ok(Poll::Ready(output)) => Poll::Ready(Polled::Ended(output, waits)),
        Ok(Poll::Pending) => {
            waits += 1;
            if stop == Some(waits) { Poll::Ready(Polled::Stopped) } else { Poll::Pending }
        }
    })
    .await
}
