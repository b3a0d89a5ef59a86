//! The runner over the reference store: every fault and every pair of faults, and planted faults of stores
//! that must be seen.
//!
//! The input of all runs is [`Enumeration::of_everything`]: six deliveries with a duplicate, a conflict and
//! a message that always fails. A fault is a crash before, in or after a call of store, broker or handler,
//! an error of it, or a lost request or reply.
//!
//! - Every single fault: all cases of the four strategies, see [`Enumeration::cases`].
//! - Every pair of crashes, the second in the life after the first: the four strategies, from a queue, and from a
//!   log that is revoked in the middle or taken away, in batches of 1 and 4.
//! - Every pair of any faults, in one life unless the first is a crash: the four strategies from a queue, and exactly
//!   once with an attempt log, and from a log that is taken away.
//!
//! The numbers of schedules are pinned: a call more or less, and they change.

use crate::enumerated::{Memory, sound};
use inbox_core::Strategy;
use inbox_testkit::*;

/// Lives through every single fault of every case and compares the numbers of schedules.
fn every_single_fault(strategy: Strategy, pinned: &[(&str, usize)]) {
    let cases = Enumeration::cases(strategy).into_iter();
    let found: Vec<(String, usize)> =
        cases.map(|case| (case.to_string(), case.every_single_fault(sound))).collect();
    let found: Vec<(&str, usize)> = found.iter().map(|(name, count)| (name.as_str(), *count)).collect();
    assert_eq!(found, pinned);
}

/// Lives through every pair of crashes from a queue, and from a log that is revoked in the middle or taken away, in
/// batches of so many, and compares the numbers of schedules.
fn every_pair_of_crashes(strategy: Strategy, batch_max: usize, pinned: &[(&str, usize)]) {
    let has_checkpoints = strategy != Strategy::AtMostOnce;
    let is_meant = |case: &Enumeration| {
        let is_taken_away = case.broker.revoke_after.is_some_and(|(_, wait)| wait.is_zero());
        let is_plain = !case.with_rival && !case.with_attempt_log;
        let is_log = matches!(case.broker.mode, Mode::Log { .. });
        let is_moved = case.broker.revoke_after.is_some();
        is_plain
            && case.batch_max == batch_max
            && (!is_log || is_moved && case.with_checkpoints == (is_taken_away && has_checkpoints))
    };
    let cases = Enumeration::cases(strategy).into_iter().filter(is_meant);
    let found: Vec<(String, usize)> =
        cases.map(|case| (case.to_string(), case.every_pair(sound, Reaction::is_crash))).collect();
    let found: Vec<(&str, usize)> = found.iter().map(|(name, count)| (name.as_str(), *count)).collect();
    assert_eq!(found, pinned);
}

#[test]
fn every_single_fault_exactly_once() {
    every_single_fault(
        Strategy::ExactlyOnce,
        &[
            ("exactly once, queue, batches of 1", 181),
            ("exactly once, log, batches of 1", 181),
            ("exactly once, log revoked, batches of 1", 187),
            ("exactly once, log taken away, batches of 1", 207),
            ("exactly once, assigned log with checkpoints, batches of 1", 212),
            ("exactly once, log revoked with checkpoints, batches of 1", 223),
            ("exactly once, log taken away with checkpoints, batches of 1", 239),
            ("exactly once, queue with a rival, batches of 1", 241),
            ("exactly once, queue with an attempt log, batches of 1", 191),
            ("exactly once, log taken away with checkpoints with an attempt log, batches of 1", 249),
            ("exactly once, queue, batches of 4", 142),
            ("exactly once, log, batches of 4", 142),
            ("exactly once, log revoked, batches of 4", 146),
            ("exactly once, log taken away, batches of 4", 151),
            ("exactly once, assigned log with checkpoints, batches of 4", 157),
            ("exactly once, log revoked with checkpoints, batches of 4", 176),
            ("exactly once, log taken away with checkpoints, batches of 4", 171),
            ("exactly once, queue with a rival, batches of 4", 226),
            ("exactly once, queue with an attempt log, batches of 4", 152),
            ("exactly once, log taken away with checkpoints with an attempt log, batches of 4", 181),
        ],
    );
}

#[test]
fn every_single_fault_on_persist() {
    every_single_fault(
        Strategy::OnPersist,
        &[
            ("on persist, queue, batches of 1", 285),
            ("on persist, log, batches of 1", 285),
            ("on persist, log revoked, batches of 1", 291),
            ("on persist, log taken away, batches of 1", 311),
            ("on persist, assigned log with checkpoints, batches of 1", 316),
            ("on persist, log revoked with checkpoints, batches of 1", 327),
            ("on persist, log taken away with checkpoints, batches of 1", 343),
            ("on persist, queue, batches of 4", 157),
            ("on persist, log, batches of 4", 157),
            ("on persist, log revoked, batches of 4", 208),
            ("on persist, log taken away, batches of 4", 187),
            ("on persist, assigned log with checkpoints, batches of 4", 172),
            ("on persist, log revoked with checkpoints, batches of 4", 233),
            ("on persist, log taken away with checkpoints, batches of 4", 207),
        ],
    );
}

#[test]
fn every_single_fault_at_least_once() {
    every_single_fault(
        Strategy::AtLeastOnce,
        &[
            ("at least once, queue, batches of 1", 146),
            ("at least once, log, batches of 1", 146),
            ("at least once, log revoked, batches of 1", 152),
            ("at least once, log taken away, batches of 1", 170),
            ("at least once, assigned log with checkpoints, batches of 1", 176),
            ("at least once, log revoked with checkpoints, batches of 1", 187),
            ("at least once, log taken away with checkpoints, batches of 1", 200),
            ("at least once, queue with an attempt log, batches of 1", 156),
            ("at least once, log taken away with checkpoints with an attempt log, batches of 1", 210),
            ("at least once, queue, batches of 4", 116),
            ("at least once, log, batches of 4", 116),
            ("at least once, log revoked, batches of 4", 122),
            ("at least once, log taken away, batches of 4", 142),
            ("at least once, assigned log with checkpoints, batches of 4", 131),
            ("at least once, log revoked with checkpoints, batches of 4", 152),
            ("at least once, log taken away with checkpoints, batches of 4", 162),
            ("at least once, queue with an attempt log, batches of 4", 126),
            ("at least once, log taken away with checkpoints with an attempt log, batches of 4", 172),
        ],
    );
}

#[test]
fn every_single_fault_at_most_once() {
    every_single_fault(
        Strategy::AtMostOnce,
        &[
            ("at most once, queue, batches of 1", 134),
            ("at most once, log, batches of 1", 121),
            ("at most once, log revoked, batches of 1", 127),
            ("at most once, log taken away, batches of 1", 119),
        ],
    );
}

#[test]
fn every_pair_of_crashes_exactly_once_one_by_one() {
    every_pair_of_crashes(
        Strategy::ExactlyOnce,
        1,
        &[
            ("exactly once, queue, batches of 1", 6_485),
            ("exactly once, log revoked, batches of 1", 7_462),
            ("exactly once, log taken away with checkpoints, batches of 1", 12_080),
        ],
    );
}

#[test]
fn every_pair_of_crashes_exactly_once_in_batches_of_4() {
    every_pair_of_crashes(
        Strategy::ExactlyOnce,
        4,
        &[
            ("exactly once, queue, batches of 4", 4_506),
            ("exactly once, log revoked, batches of 4", 4_917),
            ("exactly once, log taken away with checkpoints, batches of 4", 7_563),
        ],
    );
}

#[test]
fn every_pair_of_crashes_on_persist_one_by_one() {
    every_pair_of_crashes(
        Strategy::OnPersist,
        1,
        &[
            ("on persist, queue, batches of 1", 15_041),
            ("on persist, log revoked, batches of 1", 15_958),
            ("on persist, log taken away with checkpoints, batches of 1", 22_772),
        ],
    );
}

#[test]
fn every_pair_of_crashes_on_persist_in_batches_of_4() {
    every_pair_of_crashes(
        Strategy::OnPersist,
        4,
        &[
            ("on persist, queue, batches of 4", 5_568),
            ("on persist, log revoked, batches of 4", 7_749),
            ("on persist, log taken away with checkpoints, batches of 4", 9_079),
        ],
    );
}

#[test]
fn every_pair_of_crashes_at_least_once_one_by_one() {
    every_pair_of_crashes(
        Strategy::AtLeastOnce,
        1,
        &[
            ("at least once, queue, batches of 1", 4_106),
            ("at least once, log revoked, batches of 1", 4_756),
            ("at least once, log taken away with checkpoints, batches of 1", 8_206),
        ],
    );
}

#[test]
fn every_pair_of_crashes_at_least_once_in_batches_of_4() {
    every_pair_of_crashes(
        Strategy::AtLeastOnce,
        4,
        &[
            ("at least once, queue, batches of 4", 3_156),
            ("at least once, log revoked, batches of 4", 3_364),
            ("at least once, log taken away with checkpoints, batches of 4", 6_517),
        ],
    );
}

#[test]
fn every_pair_of_crashes_at_most_once_one_by_one() {
    every_pair_of_crashes(
        Strategy::AtMostOnce,
        1,
        &[
            ("at most once, queue, batches of 1", 2_598),
            ("at most once, log revoked, batches of 1", 2_505),
            ("at most once, log taken away, batches of 1", 2_376),
        ],
    );
}

/// Lives through every pair of any faults of the case with this name, and gives the number of schedules.
fn every_pair_of_any_faults(strategy: Strategy, name: &str) -> usize {
    let case = Enumeration::cases(strategy).into_iter().find(|case| case.to_string() == name);
    case.unwrap().every_pair(sound, |_| true)
}

#[test]
fn every_pair_of_any_faults_exactly_once() {
    let pairs = |name| every_pair_of_any_faults(Strategy::ExactlyOnce, name);
    assert_eq!(
        [
            pairs("exactly once, queue, batches of 4"),
            pairs("exactly once, queue with an attempt log, batches of 4"),
            pairs("exactly once, log taken away with checkpoints, batches of 4"),
        ],
        [12_441, 22_393, 19_586]
    );
}

#[test]
fn every_pair_of_any_faults_under_the_other_strategies() {
    let pairs = every_pair_of_any_faults;
    assert_eq!(
        [
            pairs(Strategy::OnPersist, "on persist, queue, batches of 4"),
            pairs(Strategy::AtLeastOnce, "at least once, queue, batches of 4"),
            pairs(Strategy::AtMostOnce, "at most once, queue, batches of 1"),
        ],
        [15_844, 8_841, 8_572]
    );
}

#[test]
fn a_commit_that_answers_before_it_is_done_is_seen() {
    for batch_max in [1, 4] {
        let run = Enumeration::of_good_messages(FakeOptions::queue(), batch_max);
        let violations = run.violations_anywhere(|| Memory {
            database: MemoryDatabase::new(),
            spoil: |store| LyingCommit::new(store, Late::AtNextBegin),
        });
        assert!(violations.iter().any(|v| v.guarantee == Guarantee::G2), "{violations:?}");
        assert!(violations.iter().any(|v| v.guarantee == Guarantee::G1), "{violations:?}");
    }
}

#[test]
fn a_claim_in_a_transaction_of_its_own_is_seen() {
    for batch_max in [1, 4] {
        let run = Enumeration::of_good_messages(FakeOptions::queue(), batch_max);
        let violations = run
            .violations_anywhere(|| Memory { database: MemoryDatabase::new(), spoil: ClaimElsewhere::new });
        assert!(violations.iter().any(|v| v.guarantee == Guarantee::G6), "{violations:?}");
    }
}
