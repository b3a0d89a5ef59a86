//! What a database holds, and who holds what in it.

use super::EffectRow;
use inbox_core::{
    Checkpoint, ClaimKey, Conflict, Disposition, Fingerprint, Group, Letter, Partition, StoredConflict,
    StoredLetter, StoredMessage,
};
use std::collections::{BTreeMap, HashMap, HashSet};
use tokio::time::Instant;

/// A row of the inbox, as it is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClaimRow {
    /// What became of the message.
    pub disposition: Disposition,
    /// The content it was claimed for.
    pub fingerprint: Fingerprint,
}

/// A row of the inbox, as it is kept.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) disposition: Disposition,
    pub(super) fingerprint: Fingerprint,
    /// Present while the disposition is *stored*.
    pub(super) record: Option<Record>,
}

impl Row {
    pub(super) fn applied(fingerprint: Fingerprint) -> Self {
        Self { disposition: Disposition::Applied, fingerprint, record: None }
    }

    pub(super) fn look(&self) -> ClaimRow {
        ClaimRow { disposition: self.disposition, fingerprint: self.fingerprint }
    }
}

/// A message that is kept in its row.
#[derive(Debug, Clone)]
pub(super) struct Record {
    pub(super) stored: StoredMessage,
    /// Its place in the order of keeping.
    pub(super) number: u64,
    /// When it is due; at once when absent. By tokio's clock, which is the runtime's own when it is paused:
    /// for a later runtime, what the earlier one had skipped is still to come.
    pub(super) due_at: Option<Instant>,
}

/// What one transaction at a time may hold.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Lock {
    Claim(Group, ClaimKey),
    Checkpoint(Group, Partition),
}

/// What a transaction has written and nobody else sees yet.
#[derive(Debug, Default)]
pub(super) struct Writes {
    pub(super) claims: BTreeMap<(Group, ClaimKey), Row>,
    pub(super) rows: Vec<(String, EffectRow)>,
    pub(super) counters: BTreeMap<String, i64>,
    pub(super) letters: Vec<(Group, Letter)>,
    pub(super) conflicts: Vec<(Group, Conflict)>,
    pub(super) checkpoints: BTreeMap<(Group, Partition), Checkpoint>,
    /// Whose marks of starts go.
    pub(super) cleared: Vec<(Group, ClaimKey)>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) claims: BTreeMap<(Group, ClaimKey), Row>,
    pub(super) tables: BTreeMap<String, Vec<EffectRow>>,
    pub(super) counters: BTreeMap<String, i64>,
    pub(super) letters: Vec<StoredLetter>,
    pub(super) conflicts: Vec<StoredConflict>,
    pub(super) checkpoints: BTreeMap<(Group, Partition), Checkpoint>,
    /// Runs that were opened and not closed, with their bounds.
    pub(super) runs: BTreeMap<(Group, String), u64>,
    /// How many starts of a message are marked.
    pub(super) marks: BTreeMap<(Group, ClaimKey), u32>,
    locks: HashMap<Lock, u64>,
    open: HashSet<u64>,
    begun: u64,
    kept: u64,
    pub(super) unavailable: bool,
}

impl State {
    pub(super) fn open(&mut self) -> u64 {
        self.begun += 1;
        self.open.insert(self.begun);
        self.begun
    }

    /// Whether the transaction is there; a cut connection has none.
    pub(super) fn is_open(&self, tx: u64) -> bool {
        self.open.contains(&tx)
    }

    pub(super) fn open_count(&self) -> usize {
        self.open.len()
    }

    /// The next place in the order of keeping. A rollback leaves a gap.
    pub(super) fn next_number(&mut self) -> u64 {
        self.kept += 1;
        self.kept
    }

    /// Ends a transaction without a trace.
    pub(super) fn end(&mut self, tx: u64) {
        self.open.remove(&tx);
        self.locks.retain(|_, holder| *holder != tx);
    }

    pub(super) fn end_all(&mut self) {
        self.open.clear();
        self.locks.clear();
    }

    pub(super) fn is_held(&self, lock: &Lock) -> bool {
        self.locks.contains_key(lock)
    }

    /// Gives a lock to a transaction unless another one has it.
    pub(super) fn hold(&mut self, lock: &Lock, tx: u64) -> bool {
        *self.locks.entry(lock.clone()).or_insert(tx) == tx
    }

    /// Makes everything durable in one step.
    pub(super) fn apply(&mut self, writes: Writes) {
        self.claims.extend(writes.claims);
        for (table, mut row) in writes.rows {
            let rows = self.tables.entry(table).or_default();
            row.seq = rows.len() as u64;
            rows.push(row);
        }
        for (name, by) in writes.counters {
            *self.counters.entry(name).or_default() += by;
        }
        writes.letters.into_iter().for_each(|(group, letter)| self.write_letter(&group, letter));
        writes.conflicts.into_iter().for_each(|(group, conflict)| self.write_conflict(&group, &conflict));
        self.checkpoints.extend(writes.checkpoints);
        for place in writes.cleared {
            self.marks.remove(&place);
        }
    }

    fn write_letter(&mut self, group: &Group, letter: Letter) {
        let claim = letter.message.claim_key();
        if self.letters.iter().any(|l| l.group == group.as_str() && l.claim == *claim) {
            return;
        }
        let number = self.letters.len() as i64 + 1;
        self.letters.push(StoredLetter::new(
            number,
            group.as_str().to_owned(),
            claim.clone(),
            letter.reason.as_str().to_owned(),
            letter.error,
            letter.attempts,
            // There is no wall clock here.
            0,
            letter.message.inbound().clone(),
        ));
    }

    fn write_conflict(&mut self, group: &Group, conflict: &Conflict) {
        let message = &conflict.message;
        let refused = message.fingerprint();
        let is_same = |c: &&mut StoredConflict| {
            c.group == group.as_str() && c.claim == *message.claim_key() && c.refused == refused
        };
        if let Some(known) = self.conflicts.iter_mut().find(is_same) {
            known.seen = known.seen.saturating_add(1);
            return;
        }
        let number = self.conflicts.len() as i64 + 1;
        self.conflicts.push(StoredConflict::new(
            number,
            group.as_str().to_owned(),
            message.claim_key().clone(),
            conflict.stored,
            refused,
            1,
            0,
            message.inbound().clone(),
        ));
    }
}
