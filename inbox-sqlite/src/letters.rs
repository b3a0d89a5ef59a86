//! Letters and conflicts: what was not applied, written down and read back.

use crate::{
    SqliteStore, SqliteTx,
    claims::read_disposition,
    convert::{RecordRow, now_ms, read_claim_key, read_fingerprint, read_number, read_record},
};
use async_trait::async_trait;
use inbox_core::{
    Conflict, Disposition, Group, GroupStats, Inspect, Letter, Letters, Page, StoreError, StoredConflict,
    StoredLetter,
};
use rusqlite::{OptionalExtension, Row, ToSql, params_from_iter};

#[async_trait]
impl Letters for SqliteStore {
    /// A letter that is there already is kept as it is. Claims that this transaction did not make, but
    /// found, keep their disposition.
    async fn bury(&self, tx: &mut SqliteTx, group: &Group, letters: &[Letter]) -> Result<(), StoreError> {
        self.check_open(tx)?;
        let doing = "writing letters";
        let group_id = self.group_id(tx, group).map_err(|e| self.failed(doing, e))?;
        for letter in letters {
            let key = letter.message.claim_key();
            let (scope, id) = (key.scope.as_str(), key.id.as_str());
            let record = RecordRow::new(letter.message.inbound())?;
            let reason = letter.reason.as_str();
            let created_at_ms = now_ms();
            let own: [&dyn ToSql; 7] =
                [&group_id, &scope, &id, &reason, &letter.error, &letter.attempts, &created_at_ms];
            tx.prepare_cached(&self.inner.sql.add_letter)
                .and_then(|mut add| add.execute(params_from_iter(own.into_iter().chain(record.values()))))
                .map_err(|e| self.failed(doing, e))?;
            if tx.holds(group_id, key) {
                self.mark_claim(tx, doing, group_id, key, Disposition::Dead)?;
                // There is none, unless the message was kept in this very transaction.
                self.remove_stored(tx, group_id, key).map_err(|e| self.failed(doing, e))?;
            }
        }
        Ok(())
    }

    async fn record_conflicts(
        &self,
        tx: &mut SqliteTx,
        group: &Group,
        conflicts: &[Conflict],
    ) -> Result<(), StoreError> {
        self.check_open(tx)?;
        let doing = "writing conflicts";
        let group_id = self.group_id(tx, group).map_err(|e| self.failed(doing, e))?;
        for conflict in conflicts {
            let key = conflict.message.claim_key();
            let (scope, id) = (key.scope.as_str(), key.id.as_str());
            let record = RecordRow::new(conflict.message.inbound())?;
            let stored = conflict.stored.to_bytes();
            let refused = conflict.message.fingerprint().to_bytes();
            let (stored, refused) = (stored.as_slice(), refused.as_slice());
            let at_ms = now_ms();
            let own: [&dyn ToSql; 6] = [&group_id, &scope, &id, &stored, &refused, &at_ms];
            tx.prepare_cached(&self.inner.sql.add_conflict)
                .and_then(|mut add| add.execute(params_from_iter(own.into_iter().chain(record.values()))))
                .map_err(|e| self.failed(doing, e))?;
        }
        Ok(())
    }
}

#[async_trait]
impl Inspect for SqliteStore {
    async fn letters(&self, page: &Page) -> Result<Vec<StoredLetter>, StoreError> {
        self.read("listing letters", |connection| {
            let group = page.group.as_ref().map(Group::as_str);
            let mut list = connection.prepare_cached(&self.inner.sql.letters)?;
            list.query_map((page.after, group, page.rows_max), read_letter)?.collect()
        })
        .await
    }

    async fn letter(&self, letter_id: i64) -> Result<Option<StoredLetter>, StoreError> {
        self.read("reading a letter", |connection| {
            let mut find = connection.prepare_cached(&self.inner.sql.letter)?;
            find.query_row([letter_id], read_letter).optional()
        })
        .await
    }

    async fn conflicts(&self, page: &Page) -> Result<Vec<StoredConflict>, StoreError> {
        self.read("listing conflicts", |connection| {
            let group = page.group.as_ref().map(Group::as_str);
            let mut list = connection.prepare_cached(&self.inner.sql.conflicts)?;
            list.query_map((page.after, group, page.rows_max), read_conflict)?.collect()
        })
        .await
    }

    async fn group_stats(&self) -> Result<Vec<GroupStats>, StoreError> {
        self.read("counting rows", |connection| {
            let mut stats: Vec<GroupStats> = Vec::new();
            let mut claims = connection.prepare_cached(&self.inner.sql.count_claims)?;
            let mut rows = claims.query([])?;
            while let Some(row) = rows.next()? {
                let name: String = row.get(0)?;
                if stats.last().is_none_or(|last| last.group != name) {
                    stats.push(GroupStats::new(name));
                }
                // A group without claims has one row without a disposition.
                if row.get::<_, Option<i64>>(1)?.is_none() {
                    continue;
                }
                let count = read_number(row, 2)?;
                let disposition = read_disposition(row, 1)?;
                if let Some(last) = stats.last_mut() {
                    match disposition {
                        Disposition::Applied => last.applied = count,
                        Disposition::Dead => last.dead = count,
                        Disposition::Parked => last.parked = count,
                        Disposition::Stored => last.stored = count,
                        _ => {}
                    }
                }
            }
            let mut conflicts = connection.prepare_cached(&self.inner.sql.count_conflicts)?;
            let mut rows = conflicts.query([])?;
            while let Some(row) = rows.next()? {
                let name = row.get_ref(0)?.as_str()?;
                if let Some(group) = stats.iter_mut().find(|stats| stats.group == name) {
                    group.conflicts = read_number(row, 1)?;
                }
            }
            Ok(stats)
        })
        .await
    }
}

fn read_letter(row: &Row<'_>) -> rusqlite::Result<StoredLetter> {
    Ok(StoredLetter::new(
        row.get(0)?,
        row.get(1)?,
        read_claim_key(row, 2)?,
        row.get(4)?,
        row.get(5)?,
        read_number(row, 6)?,
        row.get(7)?,
        read_record(row, 8)?,
    ))
}

fn read_conflict(row: &Row<'_>) -> rusqlite::Result<StoredConflict> {
    Ok(StoredConflict::new(
        row.get(0)?,
        row.get(1)?,
        read_claim_key(row, 2)?,
        read_fingerprint(row, 4)?,
        read_fingerprint(row, 5)?,
        read_number(row, 6)?,
        row.get(7)?,
        read_record(row, 8)?,
    ))
}
