//! How often the real command waits for the disk, as the system calls tell.

#![allow(clippy::unwrap_used)]

use std::{fmt::Write as _, fs, process::Command};

/// Runs `lines` messages, one transaction each, and counts the calls that wait for the disk.
fn syncs(lines: u64) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let mut text = String::new();
    for n in 0..lines {
        writeln!(text, r#"{{"id": "line-{n}", "n": {n}}}"#).unwrap();
    }
    fs::write(folder.path().join("lines.jsonl"), text).unwrap();
    fs::write(folder.path().join("schema.sql"), "CREATE TABLE effects (n INTEGER NOT NULL)").unwrap();
    let trace = folder.path().join("trace.txt");
    let output = Command::new("strace")
        .args(["-f", "-qq", "-e", "trace=fsync,fdatasync", "-o"])
        .arg(&trace)
        .arg(env!("CARGO_BIN_EXE_inbox"))
        .current_dir(folder.path())
        .args(["run", "--from", "file:lines.jsonl", "--into", "sqlite:effects.db", "--group", "sync"])
        .args(["--init", "schema.sql", "--sql", "INSERT INTO effects VALUES (:n)", "--batch", "1", "--quiet"])
        .output()
        .expect("strace is needed to count the waits for the disk: apt-get install strace");
    assert!(output.status.success(), "{output:?}");
    let trace = fs::read_to_string(trace).unwrap();
    // A call that another thread interrupts in the log is told in two lines; the second begins with `<...`.
    trace.lines().filter(|line| line.contains("sync(")).count()
}

#[test]
fn a_commit_waits_for_the_disk_exactly_once() {
    // What opening and closing the database cost is the same in both.
    assert_eq!(syncs(150) - syncs(50), 100, "one per commit");
}
