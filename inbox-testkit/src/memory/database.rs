//! The database itself: it belongs to no runtime and outlives every crash.

use super::{
    ClaimRow, EFFECTS, EffectRow, MemoryStore,
    connection::{MemoryConnection, MemoryTx},
    state::{Record, State},
};
use crate::{Evidence, Witness, lock::lock};
use inbox_core::{ClaimKey, Fingerprint, Group, StoredConflict, StoredLetter, StoredMessage, TxLimits};
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;

/// A database in memory. Clones are handles on the same one; what is read here is what is committed.
#[derive(Debug, Clone, Default)]
pub struct MemoryDatabase(pub(super) Arc<Shared>);

#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) state: Mutex<State>,
    /// Rings whenever a transaction ends.
    pub(super) ended: Notify,
}

impl MemoryDatabase {
    /// An empty database.
    pub fn new() -> Self {
        Self::default()
    }

    /// A store on this database.
    pub fn store(&self) -> MemoryStore {
        MemoryStore::new(self.clone())
    }

    /// Opens a transaction at once, for tests that write beside a run.
    pub fn transaction(&self) -> MemoryTx {
        let id = lock(&self.0.state).open();
        MemoryTx::new(MemoryConnection::new(self.clone(), id, TxLimits::default()))
    }

    /// While it is unavailable, nothing begins and nothing commits.
    pub fn set_available(&self, available: bool) {
        lock(&self.0.state).unavailable = !available;
    }

    /// Rolls every open transaction back, as a restart of the server does; their owners find out later.
    pub fn cut_connections(&self) {
        lock(&self.0.state).end_all();
        self.0.ended.notify_waiters();
    }

    /// How many transactions are open.
    pub fn open_transactions(&self) -> usize {
        lock(&self.0.state).open_count()
    }

    /// The rows of a table, in order.
    pub fn rows(&self, table: &str) -> Vec<EffectRow> {
        lock(&self.0.state).tables.get(table).cloned().unwrap_or_default()
    }

    /// A counter; 0 before it was first raised.
    pub fn counter(&self, name: &str) -> i64 {
        lock(&self.0.state).counters.get(name).copied().unwrap_or_default()
    }

    /// The claims of a group.
    pub fn claims(&self, group: &Group) -> Vec<(ClaimKey, ClaimRow)> {
        let state = lock(&self.0.state);
        let of_group = state.claims.iter().filter(|((g, _), _)| g == group);
        of_group.map(|((_, key), row)| (key.clone(), row.look())).collect()
    }

    /// The messages that a group keeps, due or not, in the order in which they were kept.
    pub fn stored(&self, group: &Group) -> Vec<StoredMessage> {
        self.records(group).into_iter().map(|record| record.stored).collect()
    }

    pub(super) fn records(&self, group: &Group) -> Vec<Record> {
        let state = lock(&self.0.state);
        let of_group = state.claims.iter().filter(|((g, _), _)| g == group);
        let mut records: Vec<Record> = of_group.filter_map(|(_, row)| row.record.clone()).collect();
        records.sort_by_key(|record| record.number);
        records
    }

    /// The letters of a group.
    pub fn letters(&self, group: &Group) -> Vec<StoredLetter> {
        lock(&self.0.state).letters.iter().filter(|l| l.group == group.as_str()).cloned().collect()
    }

    /// The conflicts of a group.
    pub fn conflicts(&self, group: &Group) -> Vec<StoredConflict> {
        lock(&self.0.state).conflicts.iter().filter(|c| c.group == group.as_str()).cloned().collect()
    }

    /// What is committed about an id with this content, in the default scope or any other.
    pub fn evidence(&self, group: &Group, id: &str, content: Fingerprint) -> Evidence {
        let state = lock(&self.0.state);
        let claim = state.claims.iter().find(|((g, key), _)| g == group && key.id.as_str() == id);
        let is_letter = |l: &StoredLetter| l.group == group.as_str() && l.claim.id.as_str() == id;
        let is_conflict = |c: &StoredConflict| {
            c.group == group.as_str() && c.claim.id.as_str() == id && c.refused == content
        };
        let is_effect = |row: &&EffectRow| row.id == id && row.content == content;
        Evidence {
            claim: claim.map(|(_, row)| (row.disposition, row.fingerprint)),
            letter: state.letters.iter().any(is_letter),
            conflict: state.conflicts.iter().any(is_conflict),
            effects: state.tables.get(EFFECTS).map_or(0, |rows| rows.iter().filter(is_effect).count()),
        }
    }

    /// Asks [`evidence`](Self::evidence) for a history.
    pub fn witness(&self, group: &Group) -> Witness {
        let (database, group) = (self.clone(), group.clone());
        Witness::new(move |id, content| database.evidence(&group, id, content))
    }

    pub(super) fn end(&self, tx: u64) {
        lock(&self.0.state).end(tx);
        self.0.ended.notify_waiters();
    }
}
