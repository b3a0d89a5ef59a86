//! What is left after a run, as plain data from any store and broker.

use crate::{COUNTER, EFFECTS, EffectRow, FakeQueue, MemoryDatabase};
use inbox_core::{Disposition, Fingerprint, Group};
use std::collections::BTreeMap;

/// What is left after a run.
#[derive(Debug, Clone, Default)]
pub struct FinalState {
    /// The rows of the append-only table, in order.
    pub effects: Vec<EffectRow>,
    /// The counter that every effect raises by one.
    pub counter: i64,
    /// The claims of the group.
    pub claims: BTreeMap<String, Disposition>,
    /// The ids of all letters, once for each letter.
    pub letters: Vec<String>,
    /// Ids and refused contents of all conflicts, once for each record.
    pub conflicts: Vec<(String, Fingerprint)>,
    /// Ids that the broker would still deliver.
    pub unsettled: Vec<String>,
    /// Ids that the broker has forgotten though nobody acknowledged them.
    pub covered: Vec<String>,
    /// Ids that a checkpoint told the broker not to deliver any more.
    pub skipped: Vec<String>,
}

impl FinalState {
    /// What the memory database holds for a group, when the effect is
    /// [`apply_effect`](crate::apply_effect).
    pub fn of(database: &MemoryDatabase, group: &Group) -> Self {
        let claims = database.claims(group).into_iter();
        let letters = database.letters(group).into_iter();
        let conflicts = database.conflicts(group).into_iter();
        Self {
            effects: database.rows(EFFECTS),
            counter: database.counter(COUNTER),
            claims: claims.map(|(key, row)| (key.id.as_str().to_owned(), row.disposition)).collect(),
            letters: letters.map(|letter| letter.claim.id.as_str().to_owned()).collect(),
            conflicts: conflicts.map(|c| (c.claim.id.as_str().to_owned(), c.refused)).collect(),
            unsettled: Vec::new(),
            covered: Vec::new(),
            skipped: Vec::new(),
        }
    }

    /// Adds what the fake broker is left with.
    #[must_use]
    pub fn and_queue(self, queue: &FakeQueue) -> Self {
        let (unsettled, covered, skipped) = (queue.unsettled(), queue.covered(), queue.skipped());
        Self { unsettled, covered, skipped, ..self }
    }
}
