//! Bugs planted into the runner: each is seen by the enumeration, in the case that is named here.

#![allow(clippy::unwrap_used)]

mod enumerated;

use enumerated::sound;
use inbox_core::mutant::{Mutant, plant};
use inbox_testkit::{Caught, Enumeration, STRATEGIES};
use std::io::Write as _;

/// Each bug; the first case that sees it; the first fault there with which it is seen; the promise that is
/// then broken.
const MUTANTS: [(Mutant, &str, &str, &str); 14] = [
    (Mutant::AcknowledgesBeforeCommit, "exactly once, queue, batches of 1", "none", "G2"),
    (Mutant::IgnoresRefusedCommit, "exactly once, queue, batches of 1", "refuse@4:commit", "G2"),
    (Mutant::TrustsDoubt, "exactly once, queue, batches of 1", "request_lost@4:commit", "G2"),
    (Mutant::SettlesUnfinished, "exactly once, queue, batches of 1", "none", "G2"),
    (Mutant::HidesConflicts, "exactly once, queue, batches of 1", "none", "G5"),
    (Mutant::TakesBusyForDone, "exactly once, queue with a rival, batches of 1", "none", "G2"),
    (Mutant::RunsDuplicates, "exactly once, queue, batches of 1", "none", "G3"),
    (
        Mutant::PassesUnfinished,
        "exactly once, assigned log with checkpoints, batches of 1",
        "crash_reply_lost@6:commit",
        "G1",
    ),
    (Mutant::ForgetsLetters, "exactly once, queue, batches of 1", "none", "G8"),
    (Mutant::OvertakesRetries, "exactly once, queue, batches of 4", "refuse@3:handler", "G9"),
    (Mutant::CommitsFailedHalf, "exactly once, queue, batches of 1", "none", "G1"),
    (Mutant::HandlesUnconfirmed, "at most once, queue, batches of 1", "refuse@1:settle", "G2"),
    (Mutant::RunsDoubtAgain, "at most once, queue, batches of 1", "answer_lost@4:commit", "G2"),
    (Mutant::TrustsKeptRow, "on persist, queue, batches of 1", "request_lost@57:commit", "G8"),
];

fn caught(mutant: Mutant, case: &str) -> Option<Caught> {
    let mut cases = STRATEGIES.into_iter().flat_map(Enumeration::cases);
    let case = cases.find(|other| other.to_string() == case).unwrap();
    plant(Some(mutant));
    let caught = case.first_wrong(sound);
    plant(None);
    caught
}

#[test]
fn each_planted_bug_is_seen_by_its_case() {
    let mut missed = Vec::new();
    let mut table = String::from("| planted bug | case | fault | seen as |\n|---|---|---|---|\n");
    for (mutant, case, fault, promise) in MUTANTS {
        let caught = caught(mutant, case);
        let is_seen = |c: &Caught| c.schedule == fault && c.wrong.starts_with(promise);
        if !caught.as_ref().is_some_and(is_seen) {
            missed.push(format!("{mutant:?}: {caught:?}"));
        }
        if let Some(Caught { run, schedule, wrong }) = caught {
            table.push_str(&format!("| {mutant:?} | {run} | {schedule} | {wrong} |\n"));
        }
    }
    std::io::stdout().write_all(table.as_bytes()).unwrap();
    assert!(missed.is_empty(), "{missed:#?}");
}

/// What is planted by nobody is seen by nobody.
#[test]
fn without_a_planted_bug_nothing_is_seen() {
    let case = Enumeration::cases(STRATEGIES[0]).remove(0);
    assert!(case.first_wrong(sound).is_none());
}
