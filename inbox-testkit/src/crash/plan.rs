//! The plan that all wrappers of a run share: it counts calls and decides at which one something
//! happens.

use super::{Call, Reaction, Schedule};
use crate::{Entry, History, lock::lock};
use std::{
    collections::BTreeMap,
    future::{Future, pending},
    sync::{Arc, Mutex},
};
use tokio::sync::Notify;

/// A handler that the plan lets fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the plan lets the handler fail")]
pub struct PlannedFailure;

/// Counts the calls of a run and lets something happen at some of them. Clones are the same plan.
///
/// A crash makes the call, and every later one, wait for ever; [`crashed`](CrashPlan::crashed) tells
/// the harness, which then drops the whole runtime:
///
/// ```
/// # use inbox_testkit::{CrashPlan, Reaction};
/// # async fn run() {}
/// # async fn life(plan: CrashPlan) {
/// tokio::select! {
///     biased;
///     () = plan.crashed() => {}
///     () = run() => {}
/// }
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct CrashPlan(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    state: Mutex<State>,
    crashed: Notify,
    history: Option<History>,
}

#[derive(Debug, Default)]
struct State {
    reactions: BTreeMap<usize, Reaction>,
    passages: Vec<Call>,
    fired: Vec<Schedule>,
    crashed: bool,
}

impl CrashPlan {
    /// A plan that only counts.
    pub fn dry() -> Self {
        Self::default()
    }

    /// A plan with one thing happening at passage `at`, counted from 0.
    pub fn at(at: usize, reaction: Reaction) -> Self {
        Self::of([(at, reaction)])
    }

    /// A plan with several things happening.
    pub fn of(reactions: impl IntoIterator<Item = (usize, Reaction)>) -> Self {
        let state = State { reactions: reactions.into_iter().collect(), ..State::default() };
        Self(Arc::new(Inner { state: Mutex::new(state), ..Inner::default() }))
    }

    /// The same plan, not begun, whose calls are written into a history too.
    #[must_use]
    pub fn recorded(self, history: &History) -> Self {
        let reactions = std::mem::take(&mut lock(&self.0.state).reactions);
        let state = State { reactions, ..State::default() };
        let inner =
            Inner { state: Mutex::new(state), crashed: Notify::new(), history: Some(history.clone()) };
        Self(Arc::new(inner))
    }

    /// The calls passed so far, in order.
    pub fn passages(&self) -> Vec<Call> {
        lock(&self.0.state).passages.clone()
    }

    /// What has happened so far, with the calls it happened at.
    pub fn fired(&self) -> Vec<Schedule> {
        lock(&self.0.state).fired.clone()
    }

    /// Whether the process is dead.
    pub fn is_crashed(&self) -> bool {
        lock(&self.0.state).crashed
    }

    /// Waits for the crash.
    pub async fn crashed(&self) {
        loop {
            let crashed = self.0.crashed.notified();
            tokio::pin!(crashed);
            crashed.as_mut().enable();
            if self.is_crashed() {
                return;
            }
            crashed.await;
        }
    }

    /// A point in a handler under test. [`Reaction::Refuse`] makes it fail; the name is for the history.
    ///
    /// # Errors
    /// [`PlannedFailure`], for the handler to return.
    pub async fn handler_point(&self, name: &str) -> Result<(), PlannedFailure> {
        self.survived().await;
        let reaction = self.pass(Call::Handler, name);
        match reaction {
            None => Ok(()),
            Some(Reaction::Refuse | Reaction::AnswerLost | Reaction::RequestLost) => Err(PlannedFailure),
            Some(_) => self.crash().await,
        }
    }

    /// Never returns when the process is dead.
    pub(super) async fn survived(&self) {
        if self.is_crashed() {
            pending::<()>().await;
        }
    }

    /// Counts a call and tells what happens at it.
    pub(super) fn pass(&self, call: Call, about: &str) -> Option<Reaction> {
        let mut state = lock(&self.0.state);
        let at = state.passages.len();
        state.passages.push(call);
        let reaction = state.reactions.get(&at).copied();
        if let Some(reaction) = reaction {
            state.fired.push(Schedule { at, call, reaction });
        }
        drop(state);
        if let Some(history) = &self.0.history {
            history.push(Entry::Call { at, call, about: about.to_owned(), reaction });
        }
        reaction
    }

    pub(super) fn set_crashed(&self) {
        let first = !std::mem::replace(&mut lock(&self.0.state).crashed, true);
        self.0.crashed.notify_waiters();
        if let Some(history) = self.0.history.as_ref().filter(|_| first) {
            history.push(Entry::Crashed);
        }
    }

    /// The process dies here.
    pub(super) async fn crash<T>(&self) -> T {
        self.set_crashed();
        pending().await
    }

    /// Performs a call as the plan has it. `refused` is the answer to a call that was certainly not
    /// performed, `lost` the answer when nobody can tell.
    pub(super) async fn perform<T, E>(
        &self,
        call: Call,
        perform: impl Future<Output = Result<T, E>>,
        refused: impl Fn() -> E,
        lost: impl Fn() -> E,
    ) -> Result<T, E> {
        self.survived().await;
        let reaction = self.pass(call, "");
        let result = match reaction {
            Some(Reaction::CrashBefore) => self.crash().await,
            Some(Reaction::Refuse) => return Err(refused()),
            Some(Reaction::RequestLost) => return Err(lost()),
            _ => perform.await,
        };
        // Another task may have crashed the process while this call was under way.
        self.survived().await;
        match reaction {
            Some(Reaction::CrashReplyLost) => self.crash().await,
            Some(Reaction::AnswerLost) => result.and_then(|_| Err(lost())),
            Some(Reaction::CrashAfter) => {
                self.set_crashed();
                result
            }
            _ => result,
        }
    }
}
