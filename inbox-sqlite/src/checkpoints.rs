//! Checkpoints: source positions beside the effects.

use crate::{
    SqliteStore, SqliteTx,
    convert::{now_ms, read_fingerprint, read_number, to_column},
};
use async_trait::async_trait;
use inbox_core::{
    Checkpoint, CheckpointMove, Checkpoints, FaultClass, Group, MoveRule, Moved, Partition, RecordMark,
    Source, StoreError,
};
use rusqlite::{Connection, OptionalExtension, Row};

#[async_trait]
impl Checkpoints for SqliteStore {
    async fn checkpoints(
        &self,
        group: &Group,
        partitions: &[Partition],
    ) -> Result<Vec<Option<Checkpoint>>, StoreError> {
        self.read("reading checkpoints", |connection| {
            let Some(group_id) = self.find_group(connection, group)? else {
                return Ok(vec![None; partitions.len()]);
            };
            partitions.iter().map(|partition| self.find_checkpoint(connection, group_id, partition)).collect()
        })
        .await
    }

    async fn take_over(
        &self,
        group: &Group,
        partitions: &[Partition],
    ) -> Result<Vec<Checkpoint>, StoreError> {
        let doing = "taking partitions over";
        self.transact(doing, |tx| {
            let group_id = self.group_id(tx, group).map_err(|e| self.failed(doing, e))?;
            let now_ms = now_ms();
            let mut raise =
                tx.prepare_cached(&self.inner.sql.raise_epoch).map_err(|e| self.failed(doing, e))?;
            partitions
                .iter()
                .map(|Partition { source, number }| {
                    raise
                        .query_row((group_id, source.as_str(), number, now_ms), read_checkpoint)
                        .map_err(|e| self.failed(doing, e))
                })
                .collect()
        })
        .await
    }

    /// The transaction holds the write lock of the whole database, so this only reads.
    async fn hold(
        &self,
        tx: &mut SqliteTx,
        group: &Group,
        partitions: &[Partition],
    ) -> Result<Vec<Option<Checkpoint>>, StoreError> {
        self.check_open(tx)?;
        let doing = "locking checkpoints";
        let group_id = self.group_id(tx, group).map_err(|e| self.failed(doing, e))?;
        partitions
            .iter()
            .map(|partition| self.find_checkpoint(tx, group_id, partition).map_err(|e| self.failed(doing, e)))
            .collect()
    }

    async fn advance(
        &self,
        tx: &mut SqliteTx,
        group: &Group,
        moves: &[CheckpointMove],
    ) -> Result<Vec<Moved>, StoreError> {
        self.check_open(tx)?;
        let doing = "moving checkpoints";
        let group_id = self.group_id(tx, group).map_err(|e| self.failed(doing, e))?;
        let now_ms = now_ms();
        let mut answers = Vec::with_capacity(moves.len());
        for CheckpointMove { partition, rule, to } in moves {
            let found = self.find_checkpoint(tx, group_id, partition).map_err(|e| self.failed(doing, e))?;
            let epoch = match decide(*rule, found.as_ref(), to)? {
                Decision::Write { epoch } => epoch,
                Decision::Keep => {
                    answers.push(Moved::Done);
                    continue;
                }
                Decision::Fence => {
                    answers.push(Moved::Fenced { found });
                    continue;
                }
            };
            let mark_at = to.mark.map(|mark| to_column(mark.at, "the position")).transpose()?;
            let mark_digest = to.mark.map(|mark| mark.digest.to_bytes());
            let values = (
                group_id,
                partition.source.as_str(),
                partition.number,
                now_ms,
                to_column(to.next, "the position")?,
                to_column(epoch, "the epoch")?,
                mark_at,
                mark_digest.as_ref().map(<[u8; 17]>::as_slice),
                to.mark.and_then(|mark| mark.timestamp_ms),
            );
            tx.prepare_cached(&self.inner.sql.put_checkpoint)
                .and_then(|mut put| put.execute(values))
                .map_err(|e| self.failed(doing, e))?;
            answers.push(Moved::Done);
        }
        Ok(answers)
    }

    async fn forget(&self, group: &Group, source: &Source) -> Result<u64, StoreError> {
        let doing = "forgetting checkpoints";
        self.transact(doing, |tx| {
            let Some(group_id) = self.find_group(tx, group).map_err(|e| self.failed(doing, e))? else {
                return Ok(0);
            };
            tx.prepare_cached(&self.inner.sql.forget)
                .and_then(|mut forget| forget.execute((group_id, source.as_str())))
                .map(|rows| rows as u64)
                .map_err(|e| self.failed(doing, e))
        })
        .await
    }

    async fn list_checkpoints(
        &self,
        group: &Group,
        source: &Source,
    ) -> Result<Vec<(Partition, Checkpoint)>, StoreError> {
        self.read("listing checkpoints", |connection| {
            let Some(group_id) = self.find_group(connection, group)? else { return Ok(Vec::new()) };
            let mut list = connection.prepare_cached(&self.inner.sql.list_checkpoints)?;
            list.query_map((group_id, source.as_str()), |row| {
                let partition = Partition { source: source.clone(), number: read_number(row, 5)? };
                Ok((partition, read_checkpoint(row)?))
            })?
            .collect()
        })
        .await
    }
}

impl SqliteStore {
    fn find_checkpoint(
        &self,
        connection: &Connection,
        group_id: i64,
        Partition { source, number }: &Partition,
    ) -> rusqlite::Result<Option<Checkpoint>> {
        let mut find = connection.prepare_cached(&self.inner.sql.find_checkpoint)?;
        find.query_row((group_id, source.as_str(), number), read_checkpoint).optional()
    }
}

enum Decision {
    Write { epoch: u64 },
    Keep,
    Fence,
}

/// The write lock is held, so what was found stays true until the end of the transaction.
fn decide(rule: MoveRule, found: Option<&Checkpoint>, to: &Checkpoint) -> Result<Decision, StoreError> {
    Ok(match (rule, found) {
        (MoveRule::Forward, None) => Decision::Write { epoch: to.epoch },
        (MoveRule::Forward, Some(found)) if to.next > found.next => Decision::Write { epoch: found.epoch },
        (MoveRule::Forward, Some(_)) => Decision::Keep,
        (MoveRule::From { expected_next: None, .. }, None) => Decision::Write { epoch: to.epoch },
        (MoveRule::From { expected_next: Some(next), epoch }, Some(found))
            if found.next == next && found.epoch == epoch =>
        {
            Decision::Write { epoch: to.epoch }
        }
        (MoveRule::From { .. }, _) => Decision::Fence,
        (_, _) => {
            let message = "this version of inbox-sqlite does not know the rule by which to move a checkpoint; \
                           use versions of the inbox crates that belong together";
            return Err(StoreError::failed(FaultClass::Permanent, message));
        }
    })
}

/// Reads `next, epoch, mark_at, mark_digest, mark_timestamp_ms`.
fn read_checkpoint(row: &Row<'_>) -> rusqlite::Result<Checkpoint> {
    let mark = match row.get::<_, Option<i64>>(2)? {
        Some(_) => Some(RecordMark {
            at: read_number(row, 2)?,
            digest: read_fingerprint(row, 3)?,
            timestamp_ms: row.get(4)?,
        }),
        None => None,
    };
    Ok(Checkpoint::new(read_number(row, 0)?, read_number(row, 1)?, mark))
}
