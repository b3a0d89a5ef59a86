//! One life of a process in an enumeration: a runner to its end, and, where messages are kept, the runner
//! that looks after those.

use super::{Enumeration, POISON, World};
use crate::{CrashBroker, CrashPlan, CrashStore, FakeQueue, History, Life, RecordingBroker, live};
use inbox_core::{
    Backoff, Broker, ClaimRequest, Failure, Fingerprint, Group, InboxStore, Message, MessageId, RetryPolicy,
    RunError, Runner, Scope, StoredMessages, Strategy, Summary, Tx, TxLimits,
};
use std::time::Duration;

/// How long a rival holds its claim: longer than the store lets a claim wait.
const RIVAL_HOLDS: Duration = Duration::from_secs(5);

/// How a life ended.
pub(super) type Lived = Life<Result<Summary, RunError>>;

pub(super) fn group() -> Group {
    Group::new("billing").unwrap_or_else(|error| panic!("the group: {error}"))
}

impl Enumeration {
    pub(super) fn one_life<W: World>(
        &self,
        world: &W,
        queue: &FakeQueue,
        history: &History,
        plan: &CrashPlan,
    ) -> Lived {
        let broker = CrashBroker::new(RecordingBroker::fake(queue.connect(), history), plan);
        let run = async {
            let rival = self.with_rival.then(|| tokio::spawn(hold_first_claim(world.open())));
            let ended = self.run(world, broker, history, plan).await;
            if let Some(rival) = rival {
                rival.abort();
            }
            let summary = ended?;
            if self.strategy != Strategy::OnPersist {
                return Ok(summary);
            }
            let kept = StoredMessages::new(CrashStore::new(world.open(), plan), group());
            let kept = RecordingBroker::new(kept, history, |claim| format!("kept {claim}"));
            // All that this broker asks, it asks the store: there is no connection that could be lost.
            self.run(world, kept, history, plan).await
        };
        live(plan, run).unwrap_or_else(|error| panic!("starting a runtime: {error}"))
    }

    /// One runner, until its broker has ended.
    async fn run<W: World, B: Broker>(
        &self,
        world: &W,
        broker: B,
        history: &History,
        plan: &CrashPlan,
    ) -> Result<Summary, RunError> {
        let reads_stored = broker.capabilities().reads_stored;
        let store = CrashStore::new(world.open(), plan);
        let builder = Runner::builder("billing").strategy(self.strategy).broker(broker).store(store);
        let builder = if self.strategy == Strategy::OnPersist { builder.stored_messages() } else { builder };
        let builder = if self.with_checkpoints && !reads_stored { builder.checkpoints() } else { builder };
        let builder = if self.with_attempt_log { builder.attempt_log("host-7") } else { builder };
        // By the clock of the database kept messages would be due at another moment in every run.
        let backoff = match self.strategy {
            Strategy::OnPersist => Backoff::new(Duration::ZERO, Duration::ZERO),
            _ => Backoff::default(),
        };
        let (for_handler, history) = (plan.clone(), history.clone());
        builder
            .handler(move |message: Message, tx: Tx<CrashStore<W::Store>>| {
                handle::<W>(for_handler.clone(), history.clone(), message, tx)
            })
            .batch_max(self.batch_max)
            .retry(RetryPolicy::default().attempts_max(2).backoff(backoff))
            .seed(1)
            .build()
            .unwrap_or_else(|error| panic!("building the runner: {error}"))
            .run()
            .await
    }
}

/// The handler under test.
async fn handle<W: World>(
    plan: CrashPlan,
    history: History,
    message: Message,
    mut tx: Tx<CrashStore<W::Store>>,
) -> Result<(), Failure> {
    history.handler_started(message.id(), message.fingerprint());
    // The effect comes first, so that every failure leaves something to be taken away.
    let outcome = match W::apply(&mut tx, &message) {
        Ok(()) => plan.handler_point(message.id()).await.map_err(Failure::from),
        Err(failure) => Err(failure),
    };
    let outcome = outcome.and_then(|()| match message.payload() {
        Some(payload) if &payload[..] == POISON.as_bytes() => Err(Failure::message(POISON)),
        _ => Ok(()),
    });
    history.handler_ended(message.id(), outcome.is_ok());
    outcome
}

/// Claims the first message beside the run, undecided for a while, and gives it up.
async fn hold_first_claim<S: InboxStore>(store: S) {
    let id = MessageId::new("a1").unwrap_or_else(|error| panic!("the id: {error}"));
    let key = inbox_core::ClaimKey { scope: Scope::default(), id };
    let request = ClaimRequest { key, fingerprint: Fingerprint::of_payload(Some(b"a1")) };
    let Ok(mut tx) = store.begin(&TxLimits::default()).await else { return };
    if store.claim(&mut tx, &group(), &[request]).await.is_ok() {
        tokio::time::sleep(RIVAL_HOLDS).await;
    }
    // In memory, a transaction that cannot be rolled back is gone all the same.
    let _gone = store.rollback(tx).await;
}
