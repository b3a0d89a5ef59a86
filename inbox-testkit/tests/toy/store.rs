//! A store in memory with one writer at a time: a transaction works on a copy of everything.

use async_trait::async_trait;
use inbox_core::*;
use std::{
    collections::BTreeMap,
    error::Error,
    ops::{Deref, DerefMut},
    sync::{Arc, Mutex},
};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

type Row = (Disposition, Fingerprint);
type Place = (Group, Partition);

/// All tables. It is also what a handler is lent: the "connection" of this toy.
#[derive(Debug, Clone, Default)]
pub struct Tables {
    pub effects: Vec<String>,
    claims: BTreeMap<(Group, ClaimKey), Row>,
    letters: Vec<StoredLetter>,
    conflicts: Vec<StoredConflict>,
    checkpoints: Vec<(Place, Checkpoint)>,
}

/// The database. Clones are handles on the same one.
#[derive(Debug, Clone, Default)]
pub struct ToyStore {
    committed: Arc<Mutex<Tables>>,
    writer: Arc<AsyncMutex<()>>,
}

/// A transaction: a copy, and the right to write. It derefs to the tables, which cannot commit.
#[derive(Debug)]
pub struct ToyTx {
    tables: Tables,
    _writer: OwnedMutexGuard<()>,
}

impl Deref for ToyTx {
    type Target = Tables;
    fn deref(&self) -> &Tables {
        &self.tables
    }
}

impl DerefMut for ToyTx {
    fn deref_mut(&mut self) -> &mut Tables {
        &mut self.tables
    }
}

impl ToyStore {
    pub fn read(&self) -> Tables {
        self.committed.lock().expect("nobody panics with the lock").clone()
    }

    fn begin_now(&self) -> Result<ToyTx, StoreError> {
        // Who comes second is told so and comes again; a server would let it wait.
        let writer = Arc::clone(&self.writer).try_lock_owned().map_err(|_| {
            StoreError::failed(FaultClass::Contention, "opening a transaction: somebody else writes")
        })?;
        Ok(ToyTx { tables: self.read(), _writer: writer })
    }

    fn commit_now(&self, tx: ToyTx) {
        *self.committed.lock().expect("nobody panics with the lock") = tx.tables;
    }
}

#[async_trait]
impl InboxStore for ToyStore {
    type Tx = ToyTx;

    async fn begin(&self, _limits: &TxLimits) -> Result<ToyTx, StoreError> {
        self.begin_now()
    }

    async fn claim(
        &self,
        tx: &mut ToyTx,
        group: &Group,
        requests: &[ClaimRequest],
    ) -> Result<Vec<Claim>, StoreError> {
        let claim = |request: &ClaimRequest| {
            let place = (group.clone(), request.key.clone());
            match tx.tables.claims.get(&place) {
                Some(&(disposition, stored)) => Claim::found(disposition, stored, request.fingerprint),
                None => {
                    tx.tables.claims.insert(place, (Disposition::Applied, request.fingerprint));
                    Claim::Fresh
                }
            }
        };
        Ok(requests.iter().map(claim).collect())
    }

    async fn commit(&self, tx: ToyTx) -> Result<(), CommitError> {
        self.commit_now(tx);
        Ok(())
    }

    async fn rollback(&self, tx: ToyTx) -> Result<(), StoreError> {
        drop(tx);
        Ok(())
    }

    async fn resolve(&self, group: &Group, keys: &[ClaimKey]) -> Result<Vec<Resolution>, StoreError> {
        // Nobody who could still commit the keys is open while this is.
        let tx = self.begin_now()?;
        let resolve = |key: &ClaimKey| match tx.claims.get(&(group.clone(), key.clone())) {
            Some(&(disposition, fingerprint)) => Resolution::Committed { disposition, fingerprint },
            None => Resolution::Absent,
        };
        Ok(keys.iter().map(resolve).collect())
    }

    fn classify(&self, _error: &(dyn Error + 'static)) -> FaultClass {
        FaultClass::HandlerFault
    }

    fn describe(&self) -> String {
        "toy".to_owned()
    }
}

#[async_trait]
impl Letters for ToyStore {
    async fn bury(&self, tx: &mut ToyTx, group: &Group, letters: &[Letter]) -> Result<(), StoreError> {
        for letter in letters {
            let key = letter.message.claim_key();
            if let Some(row) = tx.claims.get_mut(&(group.clone(), key.clone())) {
                row.0 = Disposition::Dead;
            }
            if tx.letters.iter().any(|known| known.group == group.as_str() && known.claim == *key) {
                continue;
            }
            let number = tx.letters.len() as i64 + 1;
            let reason = letter.reason.as_str().to_owned();
            let (group, inbound) = (group.as_str().to_owned(), letter.message.inbound().clone());
            let (error, attempts) = (letter.error.clone(), letter.attempts);
            let stored = StoredLetter::new(number, group, key.clone(), reason, error, attempts, 0, inbound);
            tx.letters.push(stored);
        }
        Ok(())
    }

    async fn record_conflicts(
        &self,
        tx: &mut ToyTx,
        group: &Group,
        conflicts: &[Conflict],
    ) -> Result<(), StoreError> {
        for Conflict { message, stored, .. } in conflicts {
            let (key, refused) = (message.claim_key(), message.fingerprint());
            let is_known = |c: &&mut StoredConflict| {
                c.group == group.as_str() && c.claim == *key && c.refused == refused
            };
            if let Some(known) = tx.conflicts.iter_mut().find(is_known) {
                known.seen += 1;
                continue;
            }
            let number = tx.conflicts.len() as i64 + 1;
            let (group, inbound) = (group.as_str().to_owned(), message.inbound().clone());
            let conflict = StoredConflict::new(number, group, key.clone(), *stored, refused, 1, 0, inbound);
            tx.conflicts.push(conflict);
        }
        Ok(())
    }
}

fn page_of<T: Clone>(rows: &[T], page: &Page, about: impl Fn(&T) -> (i64, &str)) -> Vec<T> {
    let is_wanted = |row: &&T| {
        let (number, group) = about(row);
        number > page.after && page.group.as_ref().is_none_or(|wanted| wanted.as_str() == group)
    };
    rows.iter().filter(is_wanted).take(page.rows_max as usize).cloned().collect()
}

#[async_trait]
impl Inspect for ToyStore {
    async fn letters(&self, page: &Page) -> Result<Vec<StoredLetter>, StoreError> {
        Ok(page_of(&self.read().letters, page, |letter| (letter.letter_id, &letter.group)))
    }

    async fn letter(&self, letter_id: i64) -> Result<Option<StoredLetter>, StoreError> {
        Ok(self.read().letters.into_iter().find(|letter| letter.letter_id == letter_id))
    }

    async fn conflicts(&self, page: &Page) -> Result<Vec<StoredConflict>, StoreError> {
        Ok(page_of(&self.read().conflicts, page, |conflict| (conflict.conflict_id, &conflict.group)))
    }

    async fn group_stats(&self) -> Result<Vec<GroupStats>, StoreError> {
        let tables = self.read();
        let mut stats: BTreeMap<String, GroupStats> = BTreeMap::new();
        let mut of = |group: &str, count: fn(&mut GroupStats) -> &mut u64| {
            *count(stats.entry(group.to_owned()).or_insert_with(|| GroupStats::new(group))) += 1;
        };
        for ((group, _), (disposition, _)) in &tables.claims {
            match disposition {
                Disposition::Applied => of(group.as_str(), |stats| &mut stats.applied),
                Disposition::Dead => of(group.as_str(), |stats| &mut stats.dead),
                Disposition::Parked => of(group.as_str(), |stats| &mut stats.parked),
                _ => of(group.as_str(), |stats| &mut stats.stored),
            }
        }
        tables.conflicts.iter().for_each(|conflict| of(&conflict.group, |stats| &mut stats.conflicts));
        Ok(stats.into_values().collect())
    }
}

impl Tables {
    fn checkpoint(&self, group: &Group, partition: &Partition) -> Option<Checkpoint> {
        let is_it = |(place, _): &&(Place, Checkpoint)| place.0 == *group && place.1 == *partition;
        self.checkpoints.iter().find(is_it).map(|(_, checkpoint)| checkpoint.clone())
    }

    fn set_checkpoint(&mut self, group: &Group, partition: &Partition, to: Checkpoint) {
        self.checkpoints.retain(|(place, _)| place.0 != *group || place.1 != *partition);
        self.checkpoints.push(((group.clone(), partition.clone()), to));
    }
}

#[async_trait]
impl Checkpoints for ToyStore {
    async fn checkpoints(
        &self,
        group: &Group,
        partitions: &[Partition],
    ) -> Result<Vec<Option<Checkpoint>>, StoreError> {
        let tables = self.read();
        Ok(partitions.iter().map(|partition| tables.checkpoint(group, partition)).collect())
    }

    async fn take_over(
        &self,
        group: &Group,
        partitions: &[Partition],
    ) -> Result<Vec<Checkpoint>, StoreError> {
        let mut tx = self.begin_now()?;
        let mut taken = Vec::new();
        for partition in partitions {
            let mut checkpoint = tx.checkpoint(group, partition).unwrap_or(Checkpoint::new(0, 0, None));
            checkpoint.epoch += 1;
            tx.set_checkpoint(group, partition, checkpoint.clone());
            taken.push(checkpoint);
        }
        self.commit_now(tx);
        Ok(taken)
    }

    async fn hold(
        &self,
        tx: &mut ToyTx,
        group: &Group,
        partitions: &[Partition],
    ) -> Result<Vec<Option<Checkpoint>>, StoreError> {
        // The only writer holds everything.
        Ok(partitions.iter().map(|partition| tx.checkpoint(group, partition)).collect())
    }

    async fn advance(
        &self,
        tx: &mut ToyTx,
        group: &Group,
        moves: &[CheckpointMove],
    ) -> Result<Vec<Moved>, StoreError> {
        let mut answers = Vec::new();
        for CheckpointMove { partition, rule, to } in moves {
            let found = tx.checkpoint(group, partition);
            let mut to = to.clone();
            let moves_it = match rule {
                MoveRule::Forward => {
                    to.epoch = found.as_ref().map_or(to.epoch, |found| found.epoch);
                    found.as_ref().is_none_or(|found| to.next > found.next)
                }
                MoveRule::From { expected_next, epoch } => {
                    let is_there = found.as_ref().map(|found| found.next) == *expected_next;
                    if !is_there || found.as_ref().is_some_and(|found| found.epoch != *epoch) {
                        answers.push(Moved::Fenced { found });
                        continue;
                    }
                    true
                }
                _ => return Err(StoreError::failed(FaultClass::Permanent, "an unknown rule")),
            };
            if moves_it {
                tx.set_checkpoint(group, partition, to);
            }
            answers.push(Moved::Done);
        }
        Ok(answers)
    }

    async fn forget(&self, group: &Group, source: &Source) -> Result<u64, StoreError> {
        let mut tx = self.begin_now()?;
        let before = tx.checkpoints.len();
        tx.checkpoints.retain(|(place, _)| place.0 != *group || place.1.source != *source);
        let forgotten = before - tx.checkpoints.len();
        self.commit_now(tx);
        Ok(forgotten as u64)
    }

    async fn list_checkpoints(
        &self,
        group: &Group,
        source: &Source,
    ) -> Result<Vec<(Partition, Checkpoint)>, StoreError> {
        let mut found: Vec<(Partition, Checkpoint)> = self
            .read()
            .checkpoints
            .into_iter()
            .filter(|(place, _)| place.0 == *group && place.1.source == *source)
            .map(|((_, partition), checkpoint)| (partition, checkpoint))
            .collect();
        found.sort_by_key(|(partition, _)| partition.number);
        Ok(found)
    }
}
