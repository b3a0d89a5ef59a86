//! The runner over the reference store: every single fault, and planted faults that must be seen.

#![allow(clippy::unwrap_used)]

use inbox_core::{Checkpoints, Failure, Group, Message, StoredInbox};
use inbox_testkit::*;

/// The reference database, behind a store that may be spoilt.
struct Memory<S> {
    database: MemoryDatabase,
    spoil: fn(MemoryStore) -> S,
}

impl<S: StoredInbox<Tx = MemoryTx> + Checkpoints> World for Memory<S> {
    type Store = S;

    fn open(&self) -> S {
        (self.spoil)(self.database.store())
    }

    fn witness(&self, group: &Group) -> Witness {
        self.database.witness(group)
    }

    fn state(&self, group: &Group) -> FinalState {
        assert_eq!(self.database.open_transactions(), 0);
        FinalState::of(&self.database, group)
    }

    fn apply(connection: &mut MemoryConnection, message: &Message) -> Result<(), Failure> {
        Ok(apply_effect(connection, message)?)
    }
}

fn sound() -> Memory<MemoryStore> {
    Memory { database: MemoryDatabase::new(), spoil: |store| store }
}

#[test]
fn every_single_fault_one_by_one_from_a_queue() {
    assert_eq!(Enumeration::of_everything(FakeOptions::queue(), 1).every_single_fault(sound), 181);
}

#[test]
fn every_single_fault_in_batches_of_4_from_a_queue() {
    assert_eq!(Enumeration::of_everything(FakeOptions::queue(), 4).every_single_fault(sound), 142);
}

#[test]
fn every_single_fault_one_by_one_from_a_log_with_checkpoints() {
    assert_eq!(
        Enumeration::of_everything(FakeOptions::log(), 1).with_checkpoints().every_single_fault(sound),
        207
    );
}

#[test]
fn every_single_fault_in_batches_of_4_from_a_log_with_checkpoints() {
    assert_eq!(
        Enumeration::of_everything(FakeOptions::log(), 4).with_checkpoints().every_single_fault(sound),
        152
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
