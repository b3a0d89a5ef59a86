//! The real command, killed with SIGKILL again and again: each line has its effect once.

// Helpers outside of test functions unwrap and print, too.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod common;

use common::{Kind, Place};
use inbox_core::ProbePoint;
use std::{
    collections::BTreeMap, fmt::Write as _, fs, os::unix::process::ExitStatusExt as _, process::Command,
};

const SEED: u64 = 20_260_101;
const BATCH: u64 = 100;

/// How much is done, and how often it is killed.
struct Plan {
    kind: Kind,
    lines: u64,
    kills: usize,
    /// So many lives of at most so many messages leave some of the file for the last one.
    messages_a_life_max: u64,
}

/// Every point that a run of good messages passes; the numbers are messages per passage.
const POINTS: [(ProbePoint, u64); 9] = [
    (ProbePoint::Received, 1),
    (ProbePoint::Begun, BATCH),
    (ProbePoint::Claimed, BATCH),
    (ProbePoint::HandlerStarting, 1),
    (ProbePoint::Applied, 1),
    (ProbePoint::Committing, BATCH),
    (ProbePoint::Committed, BATCH),
    (ProbePoint::Settling, BATCH),
    (ProbePoint::Settled, BATCH),
];

#[test]
fn each_line_has_its_effect_once_after_20_kills() {
    each_line_has_its_effect_once(&Plan {
        kind: Kind::Sqlite,
        lines: 200_000,
        kills: 20,
        messages_a_life_max: 9_000,
    });
}

#[cfg(feature = "postgres")]
#[test]
fn each_line_has_its_effect_once_in_postgres_after_9_kills() {
    each_line_has_its_effect_once(&Plan {
        kind: Kind::Postgres,
        lines: 20_000,
        kills: 9,
        messages_a_life_max: 1_800,
    });
}

fn each_line_has_its_effect_once(plan: &Plan) {
    let folder = tempfile::tempdir().unwrap();
    let place = Place::new(plan.kind, folder.path());
    let lines = (0..plan.lines).fold(String::new(), |mut lines, n| {
        writeln!(lines, r#"{{"id": "line-{n}", "n": {n}}}"#).unwrap();
        lines
    });
    fs::write(folder.path().join("lines.jsonl"), lines).unwrap();
    // The effects are not idempotent: a table without a key, and a counter.
    let schema = "CREATE TABLE effects (n INTEGER NOT NULL); CREATE TABLE counter (total INTEGER NOT NULL);
                  INSERT INTO counter VALUES (0);";
    fs::write(folder.path().join("schema.sql"), schema).unwrap();
    let run = |kill_at: Option<String>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_inbox"));
        command.current_dir(folder.path()).args([
            "run",
            "--from",
            "file:lines.jsonl",
            "--into",
            &place.url(),
        ]);
        command.args([
            "--group",
            "kill",
            "--id",
            "/id",
            "--init",
            "schema.sql",
            "--report",
            "json",
            "--quiet",
        ]);
        command.args(["--sql", "INSERT INTO effects VALUES (:n)"]);
        command.args(["--sql", "UPDATE counter SET total = total + 1 + 0 * :n"]);
        command.args(["--batch", &BATCH.to_string()]);
        command.env_remove("INBOX_KILL_AT").envs(kill_at.map(|at| ("INBOX_KILL_AT", at)));
        command.output().unwrap()
    };
    // In one look: a server may still be at a commit that the killed process had sent.
    let count = || -> [u64; 4] {
        let row = place.query(
            "SELECT (SELECT count(*) FROM effects), (SELECT total FROM counter), (SELECT count(*) FROM inbox_claims), \
             (SELECT count(DISTINCT n) FROM effects)",
        );
        let numbers: Vec<u64> = row.split('|').map(|number| number.parse().unwrap()).collect();
        numbers.try_into().unwrap()
    };

    let mut random = fastrand::Rng::with_seed(SEED);
    // Each point as often as the others, in a shuffled order.
    let mut points: Vec<(ProbePoint, u64)> = POINTS.into_iter().cycle().take(plan.kills).collect();
    random.shuffle(&mut points);
    let mut histogram: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for (point, messages) in points {
        let passage = random.u64(1..=plan.messages_a_life_max / messages);
        let kill_at = format!("{}:{passage}", point.name());
        let output = run(Some(kill_at.clone()));
        assert_eq!(output.status.signal(), Some(9), "seed {SEED}, {kill_at}: {output:?}");
        let [effects, total, claims, _] = count();
        assert_eq!(effects, total, "seed {SEED}, {kill_at}: both or neither");
        assert_eq!(effects, claims, "seed {SEED}, {kill_at}: row and effect");
        histogram.entry(point.name()).or_default().push(effects);
    }
    println!("effects committed after each kill, by point ({:?}, seed {SEED}):", plan.kind);
    for (point, effects) in &histogram {
        println!("{point:>17} {} {effects:?}", "#".repeat(effects.len()));
    }
    assert_eq!(histogram.len(), POINTS.len());
    assert!(count()[0] < plan.lines, "the last life has something to do");

    let output = run(None);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(count(), [plan.lines; 4]);
    let again = run(None);
    assert!(String::from_utf8_lossy(&again.stdout).contains("\"received\":0,\"applied\":0,"), "{again:?}");
}
