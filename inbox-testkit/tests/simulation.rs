//! Random schedules. `INBOX_SCHEDULES` sets how many are lived through, and a seed that fails is lived
//! through again with `INBOX_SEED`.

use inbox_core::{AttemptLog, Checkpoints, Letters};
use inbox_testkit::simulation::{Simulated, Simulation, Source, Tally};
use inbox_testkit::*;
use std::{
    env,
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

const SOURCES: [Source; 3] = [Source::Queue, Source::Log, Source::LogWithCheckpoints];
const THREADS: usize = 2;

fn number(variable: &str) -> Option<u64> {
    env::var(variable).ok().map(|value| {
        value.parse().unwrap_or_else(|_| panic!("{variable} is {value:?}; it has to be a number"))
    })
}

/// The sources take turns, so that a seed alone names a schedule.
fn source_of(seed: u64) -> Source {
    SOURCES[usize::try_from(seed % 3).unwrap()]
}

fn sound(seed: u64) -> Simulated {
    Simulation::of(source_of(seed)).run(seed, |store| store)
}

/// Lives through a failed seed again with every call, and tells where it is written down.
fn report(failed: &Simulated) -> String {
    let seed = failed.seed;
    let again = Simulation::of(source_of(seed)).recording_calls().run(seed, |store| store);
    let path = format!("{}/simulation-{seed}.txt", env!("CARGO_TARGET_TMPDIR"));
    again.history.write_to(&path, &failed.to_string()).unwrap();
    format!(
        "{failed}\nits history is in {path}\nto live through it again: \
         INBOX_SEED={seed} cargo test -p inbox-testkit --test simulation one_seed"
    )
}

#[test]
fn every_promise_is_kept_in_random_schedules() {
    let schedules = number("INBOX_SCHEDULES").unwrap_or(1000);
    let (next, tally) = (AtomicU64::new(0), Tally::default());
    let failed: Vec<Simulated> = thread::scope(|scope| {
        let live = || {
            let mut failed = Vec::new();
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= schedules || failed.len() == 5 {
                    return failed;
                }
                let simulated = sound(seed);
                tally.add_all(&simulated.tally);
                if !simulated.is_sound() {
                    failed.push(simulated);
                }
            }
        };
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(live)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    println!("{schedules} schedules\n{tally}");
    let reports: Vec<String> = failed.iter().map(report).collect();
    assert!(failed.is_empty(), "{}", reports.join("\n\n"));
    if schedules >= 300 {
        for what in ALL_TROUBLE {
            assert!(tally.get(what) > 0, "nothing of {what:?} happened:\n{tally}");
        }
    }
}

/// Everything that has to go wrong somewhere.
const ALL_TROUBLE: [&str; 22] = [
    "crashes",
    "shut down",
    "paused",
    "panics",
    "time-outs",
    "transactions kept",
    "cut around a commit",
    "connections to the broker cut",
    "connections to the database cut",
    "settlements lost",
    "everything unsettled again",
    "store outage",
    "another owner",
    "partitions revoked",
    "partitions lost",
    "conflicts",
    "dead letters",
    "busy",
    "stale",
    "failed settlements",
    "doubts",
    "outages",
];

#[test]
fn one_seed() {
    let failed = sound(number("INBOX_SEED").unwrap_or(7));
    assert!(failed.is_sound(), "{}", report(&failed));
}

#[test]
fn a_seed_is_the_same_schedule_every_time() {
    for seed in 0..60 {
        let run = || {
            let simulated = Simulation::of(source_of(seed)).recording_calls().run(seed, |store| store);
            simulated.history.render("run")
        };
        let (first, second) = (run(), run());
        let differs = first.lines().zip(second.lines()).find(|(a, b)| a != b);
        assert_eq!((differs, first.len()), (None, second.len()), "seed {seed}");
    }
}

/// How many schedules it takes until a planted fault is seen, and what is then seen.
fn seen_after<S>(simulation: Simulation, spoil: fn(MemoryStore) -> S) -> (u64, Vec<Guarantee>)
where
    S: Letters<Tx = MemoryTx> + Checkpoints + AttemptLog,
{
    let found = (0..100).map(|seed| simulation.run(seed, spoil)).find(|simulated| !simulated.is_sound());
    let found = found.expect("it is not seen in 100 schedules");
    (found.seed + 1, found.violations.iter().map(|v| v.guarantee).collect())
}

#[test]
fn planted_faults_are_seen() {
    let (queue, log) = (Simulation::of(Source::Queue), Simulation::of(Source::Log));
    let highest = log.cumulative(Cumulative::PlantedHighest);
    for (name, (schedules, broken), expected) in [
        ("late commit", seen_after(queue, |s| LyingCommit::new(s, Late::AtNextBegin)), Guarantee::G2),
        ("no commit", seen_after(log, |s| LyingCommit::new(s, Late::Never)), Guarantee::G2),
        ("forgotten claims", seen_after(log, TwistedClaims::forgetful), Guarantee::G3),
        ("hidden conflicts", seen_after(queue, TwistedClaims::silent_conflicts), Guarantee::G5),
        ("claims committed alone", seen_after(queue, ClaimElsewhere::new), Guarantee::G6),
        ("highest position", seen_after(highest, |s| s), Guarantee::G7),
    ] {
        assert!(schedules <= 3, "{name} took {schedules} schedules");
        assert!(broken.contains(&expected), "{name}: {broken:?}");
    }
}
