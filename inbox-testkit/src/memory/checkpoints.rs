//! Checkpoints of a memory database.

use super::{MemoryStore, MemoryTx, state::Lock};
use crate::lock::lock;
use async_trait::async_trait;
use inbox_core::{
    Checkpoint, CheckpointMove, Checkpoints, Group, MoveRule, Moved, Partition, Source, StoreError, TxLimits,
};

fn locks(group: &Group, partitions: impl IntoIterator<Item = Partition>) -> Vec<Lock> {
    partitions.into_iter().map(|partition| Lock::Checkpoint(group.clone(), partition)).collect()
}

impl MemoryStore {
    fn committed(&self, group: &Group, partition: &Partition) -> Option<Checkpoint> {
        lock(&self.database.0.state).checkpoints.get(&(group.clone(), partition.clone())).cloned()
    }

    /// As the transaction sees it.
    fn seen(&self, tx: &MemoryTx, group: &Group, partition: &Partition) -> Option<Checkpoint> {
        let own = tx.writes.checkpoints.get(&(group.clone(), partition.clone()));
        own.cloned().or_else(|| self.committed(group, partition))
    }
}

#[async_trait]
impl Checkpoints for MemoryStore {
    async fn checkpoints(
        &self,
        group: &Group,
        partitions: &[Partition],
    ) -> Result<Vec<Option<Checkpoint>>, StoreError> {
        Ok(partitions.iter().map(|partition| self.committed(group, partition)).collect())
    }

    async fn take_over(
        &self,
        group: &Group,
        partitions: &[Partition],
    ) -> Result<Vec<Checkpoint>, StoreError> {
        let mut tx = self.begin_now(&TxLimits::default())?;
        tx.hold(&locks(group, partitions.iter().cloned())).await?;
        tx.check()?;
        let mut taken = Vec::with_capacity(partitions.len());
        for partition in partitions {
            let mut checkpoint =
                self.seen(&tx, group, partition).unwrap_or_else(|| Checkpoint::new(0, 0, None));
            checkpoint.epoch += 1;
            tx.writes.checkpoints.insert((group.clone(), partition.clone()), checkpoint.clone());
            taken.push(checkpoint);
        }
        self.commit_own(tx, "checkpoints").await?;
        Ok(taken)
    }

    async fn hold(
        &self,
        tx: &mut MemoryTx,
        group: &Group,
        partitions: &[Partition],
    ) -> Result<Vec<Option<Checkpoint>>, StoreError> {
        tx.check()?;
        tx.hold(&locks(group, partitions.iter().cloned())).await?;
        tx.check()?;
        Ok(partitions.iter().map(|partition| self.seen(tx, group, partition)).collect())
    }

    async fn advance(
        &self,
        tx: &mut MemoryTx,
        group: &Group,
        moves: &[CheckpointMove],
    ) -> Result<Vec<Moved>, StoreError> {
        let partitions: Vec<Partition> = moves.iter().map(|m| m.partition.clone()).collect();
        Checkpoints::hold(self, tx, group, &partitions).await?;
        let mut answers = Vec::with_capacity(moves.len());
        for step in moves {
            let found = self.seen(tx, group, &step.partition);
            let (answer, to) = decide(step, found);
            if let Some(to) = to {
                tx.writes.checkpoints.insert((group.clone(), step.partition.clone()), to);
            }
            answers.push(answer);
        }
        Ok(answers)
    }

    async fn forget(&self, group: &Group, source: &Source) -> Result<u64, StoreError> {
        let mut state = lock(&self.database.0.state);
        let before = state.checkpoints.len();
        state.checkpoints.retain(|(g, partition), _| g != group || partition.source != *source);
        Ok((before - state.checkpoints.len()) as u64)
    }

    async fn list_checkpoints(
        &self,
        group: &Group,
        source: &Source,
    ) -> Result<Vec<(Partition, Checkpoint)>, StoreError> {
        let state = lock(&self.database.0.state);
        let of_source = state.checkpoints.iter().filter(|((g, p), _)| g == group && p.source == *source);
        Ok(of_source.map(|((_, partition), checkpoint)| (partition.clone(), checkpoint.clone())).collect())
    }
}

/// What a move does to what is there.
fn decide(step: &CheckpointMove, found: Option<Checkpoint>) -> (Moved, Option<Checkpoint>) {
    match step.rule {
        MoveRule::Forward => match found {
            Some(found) if found.next >= step.to.next => (Moved::Done, None),
            Some(found) => (Moved::Done, Some(Checkpoint::new(step.to.next, found.epoch, step.to.mark))),
            None => (Moved::Done, Some(step.to.clone())),
        },
        MoveRule::From { expected_next, epoch } => {
            let is_there = found.as_ref().is_none_or(|found| found.epoch == epoch)
                && found.as_ref().map(|found| found.next) == expected_next;
            if is_there { (Moved::Done, Some(step.to.clone())) } else { (Moved::Fenced { found }, None) }
        }
        // A rule this version does not know is not obeyed.
        _ => (Moved::Fenced { found }, None),
    }
}
