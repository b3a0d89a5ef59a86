//! Messages that are kept, to be handled later.

use crate::{
    SqliteStore, SqliteTx, claims,
    convert::{RecordRow, now_ms, read_claim_key, read_fingerprint, read_number, read_record},
};
use async_trait::async_trait;
use inbox_core::{
    Claim, ClaimKey, ClaimRequest, Disposition, FaultClass, Group, Message, StoreError, StoredInbox,
    StoredMessage, cut_error,
};
use rusqlite::{Connection, Row, ToSql, params_from_iter};
use std::time::Duration;

/// Due times go by the clock of the host, in milliseconds, as SQLite has no clock of its own. When that
/// clock is set back, messages that wait for their next attempt wait longer by as much; those that have
/// not failed yet are due at once whatever it says.
#[async_trait]
impl StoredInbox for SqliteStore {
    async fn keep(&self, tx: &mut SqliteTx, group: &Group, messages: &[Message]) -> Result<(), StoreError> {
        self.check_open(tx)?;
        let doing = "keeping messages";
        let group_id = self.group_id(tx, group).map_err(|e| self.failed(doing, e))?;
        for message in messages {
            let key = message.claim_key();
            if !tx.holds(group_id, key) {
                let message = format!("{doing}: this transaction does not hold the claim of {key}");
                return Err(StoreError::failed(FaultClass::Permanent, message));
            }
            let (scope, id) = (key.scope.as_str(), key.id.as_str());
            let record = RecordRow::new(message.inbound())?;
            let own: [&dyn ToSql; 3] = [&group_id, &scope, &id];
            tx.prepare_cached(&self.inner.sql.add_stored)
                .and_then(|mut add| add.execute(params_from_iter(own.into_iter().chain(record.values()))))
                .map_err(|e| self.failed(doing, e))?;
            self.mark_claim(tx, doing, group_id, key, Disposition::Stored)?;
        }
        Ok(())
    }

    /// Never [`StoreError::Busy`]: the transaction holds the write lock of the whole database, so every row
    /// is decided.
    async fn reclaim(
        &self,
        tx: &mut SqliteTx,
        group: &Group,
        requests: &[ClaimRequest],
    ) -> Result<Vec<Claim>, StoreError> {
        self.check_open(tx)?;
        let doing = "taking stored messages";
        let order = claims::sorted(requests).map_err(|e| e.told(&self.inner.name))?;
        // Removed rows were applied once.
        let mut answers = vec![Claim::Applied; requests.len()];
        let Some(group_id) = self.find_group(tx, group).map_err(|e| self.failed(doing, e))? else {
            return Ok(answers);
        };
        for at in order {
            let ClaimRequest { key, fingerprint } = &requests[at];
            let found = claims::find(tx, &self.inner.sql, group_id, key);
            let Some((disposition, stored)) = found.map_err(|e| self.failed(doing, e))? else { continue };
            answers[at] = match Claim::found(disposition, stored, *fingerprint) {
                Claim::Stored => {
                    self.mark_claim(tx, doing, group_id, key, Disposition::Applied)?;
                    self.remove_stored(tx, group_id, key).map_err(|e| self.failed(doing, e))?;
                    if !tx.holds(group_id, key) {
                        tx.claimed.push((group_id, key.clone()));
                    }
                    Claim::Fresh
                }
                // As `claim` answers for what this transaction has claimed before.
                _ if tx.holds(group_id, key) => Claim::Fresh,
                other => other,
            };
        }
        Ok(answers)
    }

    async fn record_failure(
        &self,
        group: &Group,
        key: &ClaimKey,
        attempts: u32,
        error: &str,
        retry_in: Duration,
    ) -> Result<(), StoreError> {
        let doing = "recording a failed attempt";
        let error = cut_error(error);
        self.transact(doing, |tx| {
            let failed = |e| self.failed(doing, e);
            let Some(group_id) = self.find_group(tx, group).map_err(failed)? else { return Ok(()) };
            let row = claims::find(tx, &self.inner.sql, group_id, key).map_err(failed)?;
            if !matches!(row, Some((Disposition::Stored, _))) {
                return Ok(());
            }
            let due_at_ms = now_ms().saturating_add(whole_ms(retry_in));
            let (scope, id) = (key.scope.as_str(), key.id.as_str());
            tx.prepare_cached(&self.inner.sql.put_failure)
                .and_then(|mut put| put.execute((group_id, scope, id, attempts, error, due_at_ms)))
                .map(drop)
                .map_err(failed)
        })
        .await
    }

    async fn due(&self, group: &Group, rows_max: u32) -> Result<Vec<StoredMessage>, StoreError> {
        self.read("listing stored messages", |connection| {
            let Some(group_id) = self.find_group(connection, group)? else { return Ok(Vec::new()) };
            let mut due = connection.prepare_cached(&self.inner.sql.due)?;
            let parameters = (group_id, now_ms(), Disposition::Stored.code(), rows_max);
            due.query_map(parameters, read_stored)?.collect()
        })
        .await
    }

    async fn next_due(&self, group: &Group) -> Result<Option<Duration>, StoreError> {
        self.read("looking for the next stored message", |connection| {
            let Some(group_id) = self.find_group(connection, group)? else { return Ok(None) };
            let mut next = connection.prepare_cached(&self.inner.sql.next_due)?;
            let due_at_ms: Option<i64> = next.query_row([group_id], |row| row.get(0))?;
            Ok(due_at_ms.map(|at_ms| {
                let wait_ms = at_ms.saturating_sub(now_ms());
                Duration::from_millis(u64::try_from(wait_ms).unwrap_or(0))
            }))
        })
        .await
    }
}

impl SqliteStore {
    /// Removes what is kept of a message.
    pub(crate) fn remove_stored(
        &self,
        connection: &Connection,
        group_id: i64,
        key: &ClaimKey,
    ) -> rusqlite::Result<()> {
        let mut remove = connection.prepare_cached(&self.inner.sql.remove_stored)?;
        remove.execute((group_id, key.scope.as_str(), key.id.as_str())).map(drop)
    }
}

/// Rounded up, so that nothing is due before its time.
fn whole_ms(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX)
}

fn read_stored(row: &Row<'_>) -> rusqlite::Result<StoredMessage> {
    let message = Message::new(read_claim_key(row, 0)?, read_fingerprint(row, 2)?, read_record(row, 5)?);
    Ok(StoredMessage::new(message, read_number(row, 3)?, row.get(4)?))
}
