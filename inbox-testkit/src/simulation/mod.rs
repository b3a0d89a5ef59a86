//! Random schedules: three runners of one group in one virtual time, and whatever can go wrong.
//!
//! A seed decides everything: what is published, how handlers behave, which process dies where and when
//! it is replaced, what the broker, the database and the network do meanwhile. The same seed lives through
//! the same history, so a seed that fails is the whole report.

mod input;
mod mischief;
mod process;
mod store;
mod tally;

pub use tally::Tally;

use crate::{
    Chaos, Cumulative, FakeOptions, FakeQueue, FinalState, History, INVARIANTS, MemoryDatabase, MemoryStore,
    MemoryTx, Mode, Violation, lock::lock,
};
use fastrand::Rng;
use inbox_core::{AckStrength, AttemptLog, Checkpoints, Group, Letters};
use input::Input;
use mischief::Mischief;
use process::Site;
use std::{
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64},
    },
    time::Duration,
};
use tokio::time::{sleep, timeout};

/// What the runners consume from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// A queue, whose consumers compete. It keeps no order between them.
    Queue,
    /// A log, whose partitions go from one consumer to the other.
    Log,
    /// A log whose position is kept in the store, too.
    LogWithCheckpoints,
}

/// Random schedules over one kind of source.
#[derive(Debug, Clone, Copy)]
pub struct Simulation {
    source: Source,
    cumulative: Cumulative,
    records_calls: bool,
}

/// What came out of one schedule.
#[derive(Debug)]
pub struct Simulated {
    /// Its seed.
    pub seed: u64,
    /// What the oracle found.
    pub violations: Vec<Violation>,
    /// Runs that ended with an error, or never.
    pub trouble: Vec<String>,
    /// What happened how often.
    pub tally: Tally,
    /// What happened in which order.
    pub history: History,
}

impl Simulated {
    /// Whether every promise was kept.
    pub fn is_sound(&self) -> bool {
        self.violations.is_empty() && self.trouble.is_empty()
    }
}

impl fmt::Display for Simulated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {}: ", self.seed)?;
        if self.is_sound() {
            return f.write_str("sound");
        }
        let violations = self.violations.iter().map(ToString::to_string);
        let all: Vec<String> = violations.chain(self.trouble.iter().cloned()).collect();
        f.write_str(&all.join("; "))
    }
}

const RUNNERS: usize = 3;

/// A schedule that lives longer, in virtual time, is stuck.
const LIFE_MAX: Duration = Duration::from_secs(30 * 24 * 3600);

impl Simulation {
    /// Over a source.
    pub fn of(source: Source) -> Self {
        Self { source, cumulative: Cumulative::Lowest, records_calls: false }
    }

    /// Sets how a log takes acknowledgements, to plant a fault.
    #[must_use]
    pub fn cumulative(self, cumulative: Cumulative) -> Self {
        Self { cumulative, ..self }
    }

    /// Writes every call of a process into the history as well.
    #[must_use]
    pub fn recording_calls(self) -> Self {
        Self { records_calls: true, ..self }
    }

    fn options(&self, rng: &mut Rng) -> FakeOptions {
        let mut options = match self.source {
            Source::Queue => FakeOptions::queue(),
            Source::Log | Source::LogWithCheckpoints => {
                let step = rng.u64(1..4);
                FakeOptions::log().mode(Mode::Log { rebalances: true }).position_step(step)
            }
        };
        options = options
            .cumulative(self.cumulative)
            .deliveries_max(rng.usize(1..30))
            .redeliver_after(Some(Duration::from_secs(rng.u64(20..90))));
        if self.source == Source::LogWithCheckpoints && rng.bool() {
            options = options.ack(AckStrength::Checkpoint);
        }
        if rng.bool() {
            let reorder = if self.source == Source::Queue { 0.2 } else { 0.5 };
            options = options.chaos(Chaos::new(rng.fork(), rng.u32(1..15)).reorder(reorder));
        }
        options
    }

    /// Lives through the schedule of a seed, over the reference store, which may be spoilt.
    ///
    /// # Panics
    /// When no runtime can be made.
    pub fn run<S>(&self, seed: u64, spoil: fn(MemoryStore) -> S) -> Simulated
    where
        S: Letters<Tx = MemoryTx> + Checkpoints + AttemptLog,
    {
        let mut rng = Rng::with_seed(seed);
        let group = Group::new("simulated").unwrap_or_else(|error| panic!("the group: {error}"));
        let database = MemoryDatabase::new();
        let site = Arc::new(Site {
            simulation: *self,
            queue: FakeQueue::new(self.options(&mut rng)),
            history: History::new(database.witness(&group)),
            database,
            tally: Tally::default(),
            input: Input::new(&mut rng),
            processes: AtomicU64::new(0),
            published: AtomicBool::new(false),
            trouble: Mutex::default(),
        });
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap_or_else(|error| panic!("making a runtime: {error}"));
        let ended = runtime.block_on(async { timeout(LIFE_MAX, live(&site, spoil, rng)).await });
        drop(runtime);
        if ended.is_err() {
            lock(&site.trouble).push("it is stuck".to_owned());
        }
        let expected = site.input.expected(&site.database, &group, self.source != Source::Queue);
        let state = FinalState::of(&site.database, &group).and_queue(&site.queue);
        let entries = site.history.entries();
        // Where a checkpoint says where reading begins, what it has passed is never acknowledged again.
        let skips = self.source == Source::LogWithCheckpoints;
        let violations = INVARIANTS
            .iter()
            .filter(|(name, _)| !(skips && *name == "nothing_lost"))
            .filter_map(|(_, holds)| holds(&entries, &expected, &state).err());
        let mut trouble = lock(&site.trouble).clone();
        if !site.queue.is_settled() {
            trouble.push(format!("it ended with {:?} unsettled", site.queue.unsettled()));
        }
        let open = site.database.open_transactions();
        if open > 0 {
            trouble.push(format!("{open} transactions are open"));
        }
        Simulated {
            seed,
            violations: violations.collect(),
            trouble,
            tally: site.tally.clone(),
            history: site.history.clone(),
        }
    }
}

/// All processes, the producer, and what goes wrong around them; it ends with the last process.
async fn live<S>(site: &Arc<Site>, spoil: fn(MemoryStore) -> S, mut rng: Rng)
where
    S: Letters<Tx = MemoryTx> + Checkpoints + AttemptLog,
{
    let mut first = site.input.messages.clone();
    let rest = first.split_off(rng.usize(1..=first.len()));
    first.into_iter().for_each(|message| site.queue.publish(message));
    let mut slots = tokio::task::JoinSet::new();
    for number in 0..RUNNERS {
        slots.spawn(process::slot(Arc::clone(site), number, spoil, rng.fork()));
    }
    let (producing, mut pace) = (Arc::clone(site), rng.fork());
    let producer = async move {
        for message in rest {
            if pace.f64() < 0.3 {
                sleep(Duration::from_millis(pace.u64(1..1500))).await;
            }
            producing.queue.publish(message);
        }
        producing.published.store(true, std::sync::atomic::Ordering::Relaxed);
        std::future::pending::<()>().await;
    };
    let mischief = Mischief {
        source: site.simulation.source,
        queue: site.queue.clone(),
        database: site.database.clone(),
        history: site.history.clone(),
        tally: site.tally.clone(),
        rng: rng.fork(),
    };
    let meanwhile = async {
        tokio::join!(producer, mischief.make());
    };
    tokio::select! {
        biased;
        () = async { while slots.join_next().await.is_some() {} } => {}
        () = meanwhile => {}
    }
}
