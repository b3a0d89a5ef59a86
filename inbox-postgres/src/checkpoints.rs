//! Checkpoints: source positions beside the effects.

use crate::{
    PostgresStore, PostgresTx,
    claims::lock_timeout_ms,
    convert::{fingerprint_of, read_fingerprint, read_number, to_column},
    statements::query,
};
use async_trait::async_trait;
use inbox_core::{
    Checkpoint, CheckpointMove, Checkpoints, FaultClass, Group, MoveRule, Moved, Partition, RecordMark,
    Source, StoreError,
};
use sqlx::{Error, PgConnection, Row as _, postgres::PgRow};
use std::collections::BTreeMap;

#[async_trait]
impl Checkpoints for PostgresStore {
    async fn checkpoints(
        &self,
        group: &Group,
        partitions: &[Partition],
    ) -> Result<Vec<Option<Checkpoint>>, StoreError> {
        let doing = "reading checkpoints";
        let mut tx = self.begin_own().await?;
        let mut found = vec![None; partitions.len()];
        if let Some(group_id) = self.find_group(&mut tx, group).await? {
            let (sources, numbers) = columns(partitions);
            let rows = query(&self.sql().find_checkpoints)
                .bind(group_id)
                .bind(sources)
                .bind(numbers)
                .fetch_all(&mut *tx)
                .await
                .map_err(|e| self.failed(doing, e))?;
            for row in &rows {
                let read = || Ok::<_, Error>((read_number::<usize>(row, 5)?, read_checkpoint(row)?));
                let (place, checkpoint) = read().map_err(|e| self.failed(doing, e))?;
                found[place - 1] = Some(checkpoint);
            }
        }
        self.done_reading(tx).await;
        Ok(found)
    }

    async fn take_over(
        &self,
        group: &Group,
        partitions: &[Partition],
    ) -> Result<Vec<Checkpoint>, StoreError> {
        let doing = "taking partitions over";
        let mut tx = self.begin_own().await?;
        let group_id = self.group_id(&mut tx, group).await?;
        let mut taken: Vec<Option<Checkpoint>> = vec![None; partitions.len()];
        for at in sorted(partitions) {
            let Partition { source, number } = &partitions[at];
            let row = query(&self.sql().raise_epoch)
                .bind(group_id)
                .bind(source.as_str().to_owned())
                .bind(i64::from(*number))
                .fetch_one(&mut *tx)
                .await;
            let checkpoint = row.and_then(|row| read_checkpoint(&row)).map_err(|e| self.failed(doing, e))?;
            taken[at] = Some(checkpoint);
        }
        self.commit_own(doing, tx).await?;
        Ok(taken.into_iter().flatten().collect())
    }

    /// Locks the rows. What has no row yet is not locked; it is kept from others by
    /// [`MoveRule::From`], of which one is fenced.
    async fn hold(
        &self,
        tx: &mut PostgresTx,
        group: &Group,
        partitions: &[Partition],
    ) -> Result<Vec<Option<Checkpoint>>, StoreError> {
        let doing = "locking checkpoints";
        let patience = tx.patience();
        let work = async {
            let group_id = self.group_id(tx, group).await?;
            let mut found = self.lock_checkpoints(tx, doing, group_id, partitions).await?;
            // Written to, so that a handler cannot commit before the checkpoint is moved.
            let (sources, numbers) = columns(partitions);
            let touch = query(&self.sql().touch_checkpoints).bind(group_id).bind(sources).bind(numbers);
            touch.execute(&mut **tx).await.map_err(|e| self.failed(doing, e))?;
            Ok(partitions.iter().map(|partition| found.remove(partition)).collect())
        };
        self.within(doing, patience, work).await
    }

    async fn advance(
        &self,
        tx: &mut PostgresTx,
        group: &Group,
        moves: &[CheckpointMove],
    ) -> Result<Vec<Moved>, StoreError> {
        let doing = "moving checkpoints";
        let patience = tx.patience();
        let work = async {
            let group_id = self.group_id(tx, group).await?;
            if moves.iter().all(|step| step.rule == MoveRule::Forward) {
                return self.forward(tx, doing, group_id, moves).await;
            }
            let partitions: Vec<Partition> = moves.iter().map(|step| step.partition.clone()).collect();
            let mut there = self.lock_checkpoints(tx, doing, group_id, &partitions).await?;
            let mut answers = Vec::with_capacity(moves.len());
            for step in moves {
                let found = there.get(&step.partition);
                let epoch = match decide(step.rule, found, &step.to)? {
                    Decision::Write { epoch } => epoch,
                    Decision::Keep => {
                        answers.push(Moved::Done);
                        continue;
                    }
                    Decision::Fence => {
                        answers.push(Moved::Fenced { found: found.cloned() });
                        continue;
                    }
                };
                let written = Checkpoint::new(step.to.next, epoch, step.to.mark);
                let is_new = found.is_none();
                if !self.put(tx, doing, group_id, &step.partition, &written, is_new).await? {
                    // Another one was the first to make the row.
                    let found =
                        self.lock_checkpoints(tx, doing, group_id, std::slice::from_ref(&step.partition));
                    answers.push(Moved::Fenced { found: found.await?.remove(&step.partition) });
                    continue;
                }
                there.insert(step.partition.clone(), written);
                answers.push(Moved::Done);
            }
            Ok(answers)
        };
        self.within(doing, patience, work).await
    }

    async fn forget(&self, group: &Group, source: &Source) -> Result<u64, StoreError> {
        let doing = "forgetting checkpoints";
        let mut tx = self.begin_own().await?;
        let Some(group_id) = self.find_group(&mut tx, group).await? else {
            self.done_reading(tx).await;
            return Ok(0);
        };
        let forget = query(&self.sql().forget).bind(group_id).bind(source.as_str().to_owned());
        let forgotten = forget.execute(&mut *tx).await.map_err(|e| self.failed(doing, e))?.rows_affected();
        self.commit_own(doing, tx).await?;
        Ok(forgotten)
    }

    async fn list_checkpoints(
        &self,
        group: &Group,
        source: &Source,
    ) -> Result<Vec<(Partition, Checkpoint)>, StoreError> {
        let doing = "listing checkpoints";
        let mut tx = self.begin_own().await?;
        let rows = match self.find_group(&mut tx, group).await? {
            Some(group_id) => query(&self.sql().list_checkpoints)
                .bind(group_id)
                .bind(source.as_str().to_owned())
                .fetch_all(&mut *tx)
                .await
                .map_err(|e| self.failed(doing, e))?,
            None => Vec::new(),
        };
        self.done_reading(tx).await;
        let read = |row: &PgRow| {
            let partition = Partition { source: source.clone(), number: read_number(row, 5)? };
            Ok::<_, Error>((partition, read_checkpoint(row)?))
        };
        rows.iter().map(read).collect::<Result<_, _>>().map_err(|e| self.failed(doing, e))
    }
}

impl PostgresStore {
    /// Locks rows in one order for all transactions and reads them; waits no longer than a claim does.
    async fn lock_checkpoints(
        &self,
        tx: &mut PostgresTx,
        doing: &str,
        group_id: i32,
        partitions: &[Partition],
    ) -> Result<BTreeMap<Partition, Checkpoint>, StoreError> {
        let mut asked = partitions.to_vec();
        asked.sort_unstable();
        asked.dedup();
        let (sources, numbers) = columns(&asked);
        let wait = lock_timeout_ms(&tx.limits);
        let connection: &mut PgConnection = tx;
        let row = query(&self.sql().lock_checkpoints)
            .bind(group_id)
            .bind(sources)
            .bind(numbers)
            .bind(wait)
            .fetch_one(connection)
            .await
            .map_err(|e| self.failed(doing, e))?;
        read_arrays(&row, &asked).map_err(|e| self.failed(doing, e))
    }

    /// Moves forward only: one statement for all.
    async fn forward(
        &self,
        tx: &mut PostgresTx,
        doing: &str,
        group_id: i32,
        moves: &[CheckpointMove],
    ) -> Result<Vec<Moved>, StoreError> {
        // A row can be written once per statement: the furthest move of each partition.
        let mut furthest: BTreeMap<&Partition, &Checkpoint> = BTreeMap::new();
        for CheckpointMove { partition, to, .. } in moves {
            let kept = furthest.entry(partition).or_insert(to);
            if to.next > kept.next {
                *kept = to;
            }
        }
        let mut nexts = Vec::with_capacity(furthest.len());
        let mut epochs = Vec::with_capacity(furthest.len());
        let mut marks: Vec<Option<i64>> = Vec::with_capacity(furthest.len());
        for to in furthest.values() {
            nexts.push(to_column(to.next, "the position")?);
            epochs.push(to_column(to.epoch, "the epoch")?);
            marks.push(to.mark.map(|mark| to_column(mark.at, "the position")).transpose()?);
        }
        let sources: Vec<&str> = furthest.keys().map(|partition| partition.source.as_str()).collect();
        let numbers: Vec<i64> = furthest.keys().map(|partition| i64::from(partition.number)).collect();
        let digests: Vec<Option<Vec<u8>>> =
            furthest.values().map(|to| to.mark.map(|mark| mark.digest.to_bytes().to_vec())).collect();
        let times: Vec<Option<i64>> =
            furthest.values().map(|to| to.mark.and_then(|mark| mark.timestamp_ms)).collect();
        let wait = lock_timeout_ms(&tx.limits);
        query(&self.sql().forward_checkpoints)
            .bind(wait)
            .bind(group_id)
            .bind(sources)
            .bind(numbers)
            .bind(nexts)
            .bind(epochs)
            .bind(marks)
            .bind(digests)
            .bind(times)
            .fetch_one(&mut **tx)
            .await
            .map_err(|e| self.failed(doing, e))?;
        Ok(vec![Moved::Done; moves.len()])
    }

    /// Writes one checkpoint, and tells whether it was written: not, when its row was to be made and is there.
    async fn put(
        &self,
        tx: &mut PostgresTx,
        doing: &str,
        group_id: i32,
        partition: &Partition,
        to: &Checkpoint,
        is_new: bool,
    ) -> Result<bool, StoreError> {
        let statement = if is_new { &self.sql().add_checkpoint } else { &self.sql().put_checkpoint };
        let done = query(statement)
            .bind(group_id)
            .bind(partition.source.as_str().to_owned())
            .bind(i64::from(partition.number))
            .bind(to_column(to.next, "the position")?)
            .bind(to_column(to.epoch, "the epoch")?)
            .bind(to.mark.map(|mark| to_column(mark.at, "the position")).transpose()?)
            .bind(to.mark.map(|mark| mark.digest.to_bytes().to_vec()))
            .bind(to.mark.and_then(|mark| mark.timestamp_ms))
            .execute(&mut **tx)
            .await
            .map_err(|e| self.failed(doing, e))?;
        Ok(done.rows_affected() == 1)
    }
}

enum Decision {
    Write { epoch: u64 },
    Keep,
    Fence,
}

/// The row is locked, so what was found stays true until the end of the transaction.
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
            let message = "this version of inbox-postgres does not know the rule by which to move a checkpoint; \
                           use versions of the inbox crates that belong together";
            return Err(StoreError::failed(FaultClass::Permanent, message));
        }
    })
}

fn sorted(partitions: &[Partition]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..partitions.len()).collect();
    order.sort_by(|&a, &b| partitions[a].cmp(&partitions[b]));
    order
}

fn columns(partitions: &[Partition]) -> (Vec<&str>, Vec<i64>) {
    partitions.iter().map(|partition| (partition.source.as_str(), i64::from(partition.number))).unzip()
}

/// Reads `next, epoch, mark_at, mark_digest, mark_timestamp_ms`.
fn read_checkpoint(row: &PgRow) -> Result<Checkpoint, Error> {
    let mark = match row.try_get::<Option<i64>, _>(2)? {
        Some(_) => Some(RecordMark {
            at: read_number(row, 2)?,
            digest: read_fingerprint(row, 3)?,
            timestamp_ms: row.try_get(4)?,
        }),
        None => None,
    };
    Ok(Checkpoint::new(read_number(row, 0)?, read_number(row, 1)?, mark))
}

/// Reads the columns of [`read_checkpoint`] as arrays, and the place of each in `asked`, counted from 1.
fn read_arrays(row: &PgRow, asked: &[Partition]) -> Result<BTreeMap<Partition, Checkpoint>, Error> {
    let mut found = BTreeMap::new();
    let Some(nexts) = row.try_get::<Option<Vec<i64>>, _>(0)? else { return Ok(found) };
    let epochs: Vec<i64> = row.try_get(1)?;
    let marks: Vec<Option<i64>> = row.try_get(2)?;
    let digests: Vec<Option<Vec<u8>>> = row.try_get(3)?;
    let times: Vec<Option<i64>> = row.try_get(4)?;
    let places: Vec<i64> = row.try_get(5)?;
    for (at, place) in places.into_iter().enumerate() {
        let mark = match (marks[at], &digests[at]) {
            (Some(mark_at), Some(digest)) => Some(RecordMark {
                at: unsigned(mark_at)?,
                digest: fingerprint_of(digest)?,
                timestamp_ms: times[at],
            }),
            _ => None,
        };
        let checkpoint = Checkpoint::new(unsigned(nexts[at])?, unsigned(epochs[at])?, mark);
        let partition = usize::try_from(place - 1).ok().and_then(|place| asked.get(place));
        found.extend(partition.map(|partition| (partition.clone(), checkpoint)));
    }
    Ok(found)
}

fn unsigned(number: i64) -> Result<u64, Error> {
    u64::try_from(number).map_err(|_| Error::Decode(format!("a checkpoint holds {number}").into()))
}
