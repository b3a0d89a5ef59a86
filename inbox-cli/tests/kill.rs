//! The real command, killed with SIGKILL again and again: each line has its effect once.

#![allow(clippy::unwrap_used)]

use inbox_core::ProbePoint;
use rusqlite::Connection;
use std::{
    collections::BTreeMap, fmt::Write as _, fs, os::unix::process::ExitStatusExt as _, process::Command,
};

const LINES: u64 = 200_000;
const KILLS: usize = 20;
const SEED: u64 = 20_260_101;
/// 20 lives of at most so many messages leave some of the file for the last one.
const MESSAGES_A_LIFE_MAX: u64 = 9_000;
const BATCH: u64 = 100;

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
    let folder = tempfile::tempdir().unwrap();
    let mut lines = String::new();
    for n in 0..LINES {
        writeln!(lines, r#"{{"id": "line-{n}", "n": {n}}}"#).unwrap();
    }
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
            "sqlite:effects.db",
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
    let look = || Connection::open(folder.path().join("effects.db")).unwrap();
    let count = |sql: &str| look().query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();

    let mut random = fastrand::Rng::with_seed(SEED);
    // Each point at least twice, in a shuffled order.
    let mut points: Vec<(ProbePoint, u64)> = POINTS.into_iter().cycle().take(KILLS).collect();
    random.shuffle(&mut points);
    let mut histogram: BTreeMap<&str, Vec<i64>> = BTreeMap::new();
    for (point, messages) in points {
        let passage = random.u64(1..=MESSAGES_A_LIFE_MAX / messages);
        let kill_at = format!("{}:{passage}", point.name());
        let output = run(Some(kill_at.clone()));
        assert_eq!(output.status.signal(), Some(9), "seed {SEED}, {kill_at}: {output:?}");
        let (effects, total) = (count("SELECT count(*) FROM effects"), count("SELECT total FROM counter"));
        assert_eq!(effects, total, "seed {SEED}, {kill_at}: both or neither");
        assert_eq!(
            effects,
            count("SELECT count(*) FROM inbox_claims"),
            "seed {SEED}, {kill_at}: row and effect"
        );
        histogram.entry(point.name()).or_default().push(effects);
    }
    println!("effects committed after each kill, by point (seed {SEED}):");
    for (point, effects) in &histogram {
        println!("{point:>17} {} {effects:?}", "#".repeat(effects.len()));
    }
    assert_eq!(histogram.len(), POINTS.len());
    assert!(count("SELECT count(*) FROM effects") < LINES as i64, "the last life has something to do");

    let output = run(None);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(count("SELECT count(*) FROM effects"), LINES as i64);
    assert_eq!(count("SELECT count(DISTINCT n) FROM effects"), LINES as i64);
    assert_eq!(count("SELECT total FROM counter"), LINES as i64);
    let again = run(None);
    assert!(String::from_utf8_lossy(&again.stdout).contains("\"received\":0,\"applied\":0,"), "{again:?}");
}
