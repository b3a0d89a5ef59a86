//! Letters and conflicts: what was not applied, written down and read back.

use crate::{
    PostgresStore, PostgresTx,
    convert::{
        RecordRow, read_claim_key, read_disposition, read_fingerprint, read_number, read_record, without_nul,
    },
    statements::query,
};
use async_trait::async_trait;
use inbox_core::{
    ClaimKey, Conflict, Disposition, Group, GroupStats, Inspect, Letter, Letters, Page, StoreError,
    StoredConflict, StoredLetter,
};
use sqlx::{Error, Row as _, postgres::PgRow};

#[async_trait]
impl Letters for PostgresStore {
    /// A letter that is there already is kept as it is. Claims that this transaction did not make, but
    /// found, keep their disposition. In texts, U+FFFD stands for NUL.
    async fn bury(&self, tx: &mut PostgresTx, group: &Group, letters: &[Letter]) -> Result<(), StoreError> {
        let doing = "writing letters";
        let patience = tx.patience();
        let work = async {
            let group_id = self.group_id(tx, group).await?;
            for letter in letters {
                let key = letter.message.claim_key();
                let record = RecordRow::new(letter.message.inbound())?;
                let add = query(&self.sql().add_letter)
                    .bind(group_id)
                    .bind(key.scope.as_str().to_owned())
                    .bind(key.id.as_str().to_owned())
                    .bind(letter.reason.as_str())
                    .bind(without_nul(&letter.error).into_owned())
                    .bind(i64::from(letter.attempts));
                record.bind(add).execute(&mut **tx).await.map_err(|e| self.failed(doing, e))?;
            }
            let mut own: Vec<&ClaimKey> = letters.iter().map(|letter| letter.message.claim_key()).collect();
            own.retain(|key| tx.holds(group_id, key));
            own.sort_unstable();
            own.dedup();
            self.mark_claims(tx, doing, group_id, &own, Disposition::Dead).await?;
            // There is none, unless the message was kept in this very transaction.
            self.remove_stored(tx, doing, group_id, &own).await
        };
        self.within(doing, patience, work).await
    }

    async fn record_conflicts(
        &self,
        tx: &mut PostgresTx,
        group: &Group,
        conflicts: &[Conflict],
    ) -> Result<(), StoreError> {
        let doing = "writing conflicts";
        let patience = tx.patience();
        let work = async {
            let group_id = self.group_id(tx, group).await?;
            // In one order, so that two transactions that count the same ones do not wait crosswise.
            let mut sorted: Vec<&Conflict> = conflicts.iter().collect();
            sorted.sort_by_key(|conflict| {
                (conflict.message.claim_key().clone(), conflict.message.fingerprint().to_bytes())
            });
            for conflict in sorted {
                let key = conflict.message.claim_key();
                let record = RecordRow::new(conflict.message.inbound())?;
                let add = query(&self.sql().add_conflict)
                    .bind(group_id)
                    .bind(key.scope.as_str().to_owned())
                    .bind(key.id.as_str().to_owned())
                    .bind(conflict.stored.to_bytes().to_vec())
                    .bind(conflict.message.fingerprint().to_bytes().to_vec());
                record.bind(add).execute(&mut **tx).await.map_err(|e| self.failed(doing, e))?;
            }
            Ok(())
        };
        self.within(doing, patience, work).await
    }
}

#[async_trait]
impl Inspect for PostgresStore {
    async fn letters(&self, page: &Page) -> Result<Vec<StoredLetter>, StoreError> {
        let doing = "listing letters";
        let mut tx = self.begin_own().await?;
        let rows = query(&self.sql().letters)
            .bind(page.after)
            .bind(page.group.as_ref().map(|group| group.as_str().to_owned()))
            .bind(i64::from(page.rows_max))
            .fetch_all(&mut *tx)
            .await
            .map_err(|e| self.failed(doing, e))?;
        self.done_reading(tx).await;
        rows.iter().map(read_letter).collect::<Result<_, _>>().map_err(|e| self.failed(doing, e))
    }

    async fn letter(&self, letter_id: i64) -> Result<Option<StoredLetter>, StoreError> {
        let doing = "reading a letter";
        let mut tx = self.begin_own().await?;
        let row = query(&self.sql().letter).bind(letter_id).fetch_optional(&mut *tx).await;
        let row = row.map_err(|e| self.failed(doing, e))?;
        self.done_reading(tx).await;
        row.as_ref().map(read_letter).transpose().map_err(|e| self.failed(doing, e))
    }

    async fn conflicts(&self, page: &Page) -> Result<Vec<StoredConflict>, StoreError> {
        let doing = "listing conflicts";
        let mut tx = self.begin_own().await?;
        let rows = query(&self.sql().conflicts)
            .bind(page.after)
            .bind(page.group.as_ref().map(|group| group.as_str().to_owned()))
            .bind(i64::from(page.rows_max))
            .fetch_all(&mut *tx)
            .await
            .map_err(|e| self.failed(doing, e))?;
        self.done_reading(tx).await;
        rows.iter().map(read_conflict).collect::<Result<_, _>>().map_err(|e| self.failed(doing, e))
    }

    async fn group_stats(&self) -> Result<Vec<GroupStats>, StoreError> {
        let doing = "counting rows";
        let mut tx = self.begin_own().await?;
        let claims = query(&self.sql().count_claims).fetch_all(&mut *tx).await;
        let claims = claims.map_err(|e| self.failed(doing, e))?;
        let conflicts = query(&self.sql().count_conflicts).fetch_all(&mut *tx).await;
        let conflicts = conflicts.map_err(|e| self.failed(doing, e))?;
        self.done_reading(tx).await;
        count(&claims, &conflicts).map_err(|e| self.failed(doing, e))
    }
}

fn count(claims: &[PgRow], conflicts: &[PgRow]) -> Result<Vec<GroupStats>, Error> {
    let mut stats: Vec<GroupStats> = Vec::new();
    for row in claims {
        let name: &str = row.try_get(0)?;
        if stats.last().is_none_or(|last| last.group != name) {
            stats.push(GroupStats::new(name));
        }
        // A group without claims has one row without a disposition.
        let (Some(code), Some(last)) = (row.try_get::<Option<i16>, _>(1)?, stats.last_mut()) else {
            continue;
        };
        let count = read_number(row, 2)?;
        match read_disposition(code)? {
            Disposition::Applied => last.applied = count,
            Disposition::Dead => last.dead = count,
            Disposition::Parked => last.parked = count,
            Disposition::Stored => last.stored = count,
            _ => {}
        }
    }
    for row in conflicts {
        let name: &str = row.try_get(0)?;
        if let Some(group) = stats.iter_mut().find(|stats| stats.group == name) {
            group.conflicts = read_number(row, 1)?;
        }
    }
    Ok(stats)
}

fn read_letter(row: &PgRow) -> Result<StoredLetter, Error> {
    Ok(StoredLetter::new(
        row.try_get(0)?,
        row.try_get(1)?,
        read_claim_key(row, 2)?,
        row.try_get(4)?,
        row.try_get(5)?,
        read_number(row, 6)?,
        row.try_get(7)?,
        read_record(row, 8)?,
    ))
}

fn read_conflict(row: &PgRow) -> Result<StoredConflict, Error> {
    Ok(StoredConflict::new(
        row.try_get(0)?,
        row.try_get(1)?,
        read_claim_key(row, 2)?,
        read_fingerprint(row, 4)?,
        read_fingerprint(row, 5)?,
        read_number(row, 6)?,
        row.try_get(7)?,
        read_record(row, 8)?,
    ))
}
