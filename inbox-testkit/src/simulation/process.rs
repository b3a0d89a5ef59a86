//! A slot in which one process after the other runs a runner, until everything is settled.

use super::{
    Simulation, Source,
    input::{ATTEMPTS_MAX, Act, Input},
    store::ErraticStore,
    tally::Tally,
};
use crate::{
    CrashBroker, CrashPlan, FakeQueue, History, MemoryDatabase, MemoryStore, MemoryTx, Reaction,
    RecordingBroker, apply_effect, lock::lock,
};
use fastrand::Rng;
use inbox_core::{
    AttemptLog, Backoff, Checkpoints, Control, Failure, Letters, Message, RetryPolicy, Runner, StoreParts, Tx,
};
use std::{
    future::pending,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::time::sleep;

/// Bad luck does not reach so far: whoever is given up as a suspect is given up by mistake.
const STARTS_MAX: u32 = 50;

/// What all processes of a simulated run share.
pub(super) struct Site {
    pub(super) simulation: Simulation,
    pub(super) queue: FakeQueue,
    pub(super) database: MemoryDatabase,
    pub(super) history: History,
    pub(super) tally: Tally,
    pub(super) input: Input,
    /// How many processes there were so far.
    pub(super) processes: AtomicU64,
    /// Nothing more will be published.
    pub(super) published: AtomicBool,
    /// Why a runner ended though it should not.
    pub(super) trouble: Mutex<Vec<String>>,
}

impl Site {
    fn is_over(&self) -> bool {
        self.published.load(Ordering::Relaxed) && self.queue.is_settled()
    }
}

/// Runs a process, and another one when it has ended, until everything is settled.
pub(super) async fn slot<S>(site: Arc<Site>, number: usize, spoil: fn(MemoryStore) -> S, mut rng: Rng)
where
    S: Letters<Tx = MemoryTx> + Checkpoints + AttemptLog,
{
    let mut faulty_lives = rng.usize(0..4);
    let host = rng.bool().then(|| format!("host-{number}"));
    loop {
        let plan = if faulty_lives > 0 { random_plan(&mut rng) } else { CrashPlan::dry() };
        faulty_lives = faulty_lives.saturating_sub(1);
        let plan = if site.simulation.records_calls { plan.recorded(&site.history) } else { plan };
        life(&site, host.as_deref(), spoil, &plan, &mut rng, faulty_lives > 0).await;
        if plan.is_crashed() {
            site.tally.add("crashes", 1);
            site.history.note("a process died");
        } else if !lock(&site.trouble).is_empty() || site.is_over() {
            return;
        }
        sleep(Duration::from_millis(rng.u64(1..2000))).await;
    }
}

/// A few reactions of any kind, somewhere in the life of a process.
fn random_plan(rng: &mut Rng) -> CrashPlan {
    let reactions = (0..rng.usize(0..6)).map(|_| {
        let reaction = Reaction::ALL[rng.usize(..Reaction::ALL.len())];
        (rng.usize(0..90), reaction)
    });
    CrashPlan::of(reactions)
}

async fn life<S>(
    site: &Arc<Site>,
    host: Option<&str>,
    spoil: fn(MemoryStore) -> S,
    plan: &CrashPlan,
    rng: &mut Rng,
    faulty: bool,
) where
    S: Letters<Tx = MemoryTx> + Checkpoints + AttemptLog,
{
    let broker = CrashBroker::new(RecordingBroker::fake(site.queue.connect(), &site.history), plan);
    let cuts = if faulty { 0.02 } else { 0.0 };
    let store = ErraticStore::new(
        spoil(site.database.store()),
        plan,
        &site.database,
        &site.tally,
        (rng.fork(), cuts),
    );
    let process = site.processes.fetch_add(1, Ordering::Relaxed) + 1;
    let store = if site.simulation.records_calls { store.recording(process, &site.history) } else { store };
    let with_checkpoints = |parts: inbox_core::RunnerBuilder<_, StoreParts<ErraticStore<S>>>| {
        if site.simulation.source == Source::LogWithCheckpoints { parts.checkpoints() } else { parts }
    };
    // Every second host marks starts. None is started so often that it would be given up for that.
    let with_log = |parts: inbox_core::RunnerBuilder<_, StoreParts<ErraticStore<S>>>| match host {
        Some(host) => parts.attempt_log(host),
        None => parts,
    };
    let builder = with_log(with_checkpoints(Runner::builder("simulated").broker(broker).store(store)))
        .handler(handler(site, plan))
        .lanes(rng.usize(1..=4))
        .batch_max(rng.usize(1..=7))
        .in_flight_max(rng.usize(1..=40))
        .handler_timeout(Duration::from_secs(5))
        .retry(
            RetryPolicy::default()
                .attempts_max(ATTEMPTS_MAX)
                .starts_max(STARTS_MAX)
                .backoff(Backoff::new(Duration::from_millis(50), Duration::from_secs(1))),
        )
        .seed(rng.u64(..));
    // When only those that fail are left, an open breaker is for ever: such a life is ended from outside.
    let steering = if faulty { rng.u8(0..5) } else { 3 };
    let builder = if steering == 4 { builder.breaker_after(rng.usize(1..4)) } else { builder };
    let runner = builder.build().unwrap_or_else(|error| panic!("building the runner: {error}"));
    let (control, counters) = (runner.control(), runner.counters());

    let ended = tokio::select! {
        biased;
        () = plan.crashed() => None,
        ended = runner.run() => Some(ended),
        () = steer(control, steering, &site.tally, rng) => None,
    };
    site.tally.add_summary(&counters.read());
    if let Some(Err(error)) = ended.filter(|_| !plan.is_crashed()) {
        lock(&site.trouble).push(format!("a run ended with: {error}"));
    }
}

/// Somebody stops the process in order, or pauses it for a while.
async fn steer(control: Control, how: u8, tally: &Tally, rng: &mut Rng) {
    let at = Duration::from_millis(rng.u64(1..5000));
    let time = Duration::from_millis(rng.u64(0..4000));
    match how {
        0 | 4 => {
            sleep(at).await;
            tally.add("shut down", 1);
            control.shutdown(Some(time));
        }
        1 => {
            sleep(at).await;
            tally.add("paused", 1);
            control.pause();
            sleep(time).await;
            control.resume();
        }
        _ => {}
    }
    pending().await
}

type HandlerFuture = std::pin::Pin<Box<dyn Future<Output = Result<(), Failure>> + Send>>;

fn handler<S>(
    site: &Arc<Site>,
    plan: &CrashPlan,
) -> impl Fn(Message, Tx<S>) -> HandlerFuture + Send + Sync + use<S>
where
    S: inbox_core::InboxStore<Tx = MemoryTx>,
{
    let (site, plan) = (Arc::clone(site), plan.clone());
    move |message, tx| {
        let (site, plan) = (Arc::clone(&site), plan.clone());
        Box::pin(async move { handle(&site, &plan, message, tx).await })
    }
}

async fn handle<S>(site: &Site, plan: &CrashPlan, message: Message, mut tx: Tx<S>) -> Result<(), Failure>
where
    S: inbox_core::InboxStore<Tx = MemoryTx>,
{
    // A connection that was cut has lost its claims: somebody else may have applied the message since.
    tx.counter(crate::COUNTER)?;
    site.history.handler_started(message.id(), message.fingerprint());
    // The effect comes first, so that every failure leaves something to be taken away.
    let mut outcome = apply_effect(&mut tx, &message).map_err(Failure::from);
    // Only crashes are wanted of the plan here; how handlers fail is in the script.
    let _failed = plan.handler_point(message.id()).await;
    let act = site.input.act(&message);
    match act {
        Act::Apply => {}
        Act::Sleep(time) => sleep(time).await,
        Act::Fail => outcome = Err(Failure::message("told to fail")),
        Act::FailFor(time) => outcome = Err(Failure::message("told to wait").retry_after(time)),
        Act::Permanent => outcome = Err(Failure::message("told to fail for good").permanent()),
        Act::Panic => {
            site.tally.add("panics", 1);
            std::panic::resume_unwind(Box::new("told to panic"));
        }
        Act::Hang => {
            site.tally.add("time-outs", 1);
            pending::<()>().await;
        }
        Act::FailCommit => tx.fail_commit("told not to commit"),
        Act::Abort => tx.abort(),
        Act::Leak => {
            site.tally.add("transactions kept", 1);
            tokio::spawn(async move {
                sleep(Duration::from_secs(3)).await;
                drop(tx);
            });
        }
    }
    site.history.handler_ended(message.id(), outcome.is_ok());
    outcome
}
