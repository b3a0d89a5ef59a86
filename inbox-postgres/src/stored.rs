//! Messages that are kept, to be handled later.

use crate::{
    PostgresStore, PostgresTx,
    claims::{KeyColumns, sorted},
    convert::{RecordRow, read_claim_key, read_fingerprint, read_number, read_record, without_nul},
    statements::query,
};
use async_trait::async_trait;
use inbox_core::{
    Claim, ClaimKey, ClaimRequest, Disposition, FaultClass, Group, Message, StoreError, StoredInbox,
    StoredMessage, cut_error,
};
use sqlx::{Error, Row as _, postgres::PgRow};
use std::time::Duration;

/// Due times go by the clock of the server.
#[async_trait]
impl StoredInbox for PostgresStore {
    async fn keep(&self, tx: &mut PostgresTx, group: &Group, messages: &[Message]) -> Result<(), StoreError> {
        let doing = "keeping messages";
        let patience = tx.patience();
        let work = async {
            let group_id = self.group_id(tx, group).await?;
            let mut keys: Vec<&ClaimKey> = messages.iter().map(Message::claim_key).collect();
            keys.sort_unstable();
            keys.dedup();
            // What may be there is the record of a claim that somebody removed by hand.
            self.remove_stored(tx, doing, group_id, &keys).await?;
            for message in messages {
                let key = message.claim_key();
                if !tx.holds(group_id, key) {
                    let message = format!("{doing}: this transaction does not hold the claim of {key}");
                    return Err(StoreError::failed(FaultClass::Permanent, message));
                }
                let record = RecordRow::new(message.inbound())?;
                let add = query(&self.sql().add_stored)
                    .bind(group_id)
                    .bind(key.scope.as_str().to_owned())
                    .bind(key.id.as_str().to_owned())
                    .bind(message.fingerprint().to_bytes().to_vec());
                record.bind(add).execute(&mut **tx).await.map_err(|e| self.failed(doing, e))?;
            }
            self.mark_claims(tx, doing, group_id, &keys, Disposition::Stored).await
        };
        self.within(doing, patience, work).await
    }

    async fn reclaim(
        &self,
        tx: &mut PostgresTx,
        group: &Group,
        requests: &[ClaimRequest],
    ) -> Result<Vec<Claim>, StoreError> {
        let doing = "taking stored messages";
        let patience = tx.patience();
        let work = async {
            let order = sorted(doing, self.name(), requests)?;
            // Removed rows were applied once.
            let mut answers = vec![Claim::Applied; requests.len()];
            let Some(group_id) = self.find_group(tx, group).await? else { return Ok(answers) };
            let keys: KeyColumns<'_> = order.iter().map(|&at| &requests[at].key).collect();
            let mut taken: Vec<&ClaimKey> = Vec::new();
            for (place, disposition, stored) in self.lock_claims(tx, doing, group_id, &keys).await? {
                let ClaimRequest { key, fingerprint } = &requests[order[place]];
                answers[order[place]] = match Claim::found(disposition, stored, *fingerprint) {
                    Claim::Stored => {
                        taken.push(key);
                        Claim::Fresh
                    }
                    // As `claim` answers for what this transaction has claimed before.
                    _ if tx.holds(group_id, key) => Claim::Fresh,
                    other => other,
                };
            }
            self.take_stored(tx, doing, group_id, &taken).await?;
            tx.claimed.extend(taken.into_iter().map(|key| (group_id, key.clone())));
            Ok(answers)
        };
        self.within(doing, patience, work).await
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
        let mut tx = self.begin_own().await?;
        let Some(group_id) = self.find_group(&mut tx, group).await? else {
            self.done_reading(tx).await;
            return Ok(());
        };
        // Whoever takes the message removes the record, and is waited for here.
        query(&self.sql().put_failure)
            .bind(group_id)
            .bind(key.scope.as_str().to_owned())
            .bind(key.id.as_str().to_owned())
            .bind(i64::from(attempts))
            .bind(without_nul(&cut_error(error)).into_owned())
            .bind(rounded_up_ms(retry_in))
            .execute(&mut *tx)
            .await
            .map_err(|e| self.failed(doing, e))?;
        self.commit_own(doing, tx).await
    }

    async fn due(&self, group: &Group, rows_max: u32) -> Result<Vec<StoredMessage>, StoreError> {
        let doing = "listing stored messages";
        let mut tx = self.begin_own().await?;
        let rows = match self.find_group(&mut tx, group).await? {
            Some(group_id) => query(&self.sql().due)
                .bind(group_id)
                .bind(i64::from(rows_max))
                .fetch_all(&mut *tx)
                .await
                .map_err(|e| self.failed(doing, e))?,
            None => Vec::new(),
        };
        self.done_reading(tx).await;
        rows.iter().map(read_stored).collect::<Result<_, _>>().map_err(|e| self.failed(doing, e))
    }

    async fn next_due(&self, group: &Group) -> Result<Option<Duration>, StoreError> {
        let doing = "looking for the next stored message";
        let mut tx = self.begin_own().await?;
        let row = match self.find_group(&mut tx, group).await? {
            Some(group_id) => query(&self.sql().next_due)
                .bind(group_id)
                .fetch_optional(&mut *tx)
                .await
                .map_err(|e| self.failed(doing, e))?,
            None => None,
        };
        self.done_reading(tx).await;
        let wait_ms: Option<u64> =
            row.map(|row| read_number(&row, 0)).transpose().map_err(|e| self.failed(doing, e))?;
        Ok(wait_ms.map(Duration::from_millis))
    }
}

impl PostgresStore {
    /// Gives locked rows the disposition *applied* and removes what is kept of them.
    async fn take_stored(
        &self,
        tx: &mut PostgresTx,
        doing: &str,
        group_id: i32,
        keys: &[&ClaimKey],
    ) -> Result<(), StoreError> {
        if keys.is_empty() {
            return Ok(());
        }
        let columns: KeyColumns<'_> = keys.iter().copied().collect();
        let texts: Vec<&str> = keys.iter().map(|key| key.id.as_str()).collect();
        query(&self.sql().take_stored)
            .bind(group_id)
            .bind(&columns.scopes)
            .bind(texts)
            .bind(columns.ids())
            .execute(&mut **tx)
            .await
            .map(drop)
            .map_err(|e| self.failed(doing, e))
    }

    /// Removes what is kept of messages.
    pub(crate) async fn remove_stored(
        &self,
        tx: &mut PostgresTx,
        doing: &str,
        group_id: i32,
        keys: &[&ClaimKey],
    ) -> Result<(), StoreError> {
        if keys.is_empty() {
            return Ok(());
        }
        let scopes: Vec<&str> = keys.iter().map(|key| key.scope.as_str()).collect();
        let ids: Vec<&str> = keys.iter().map(|key| key.id.as_str()).collect();
        let remove = query(&self.sql().remove_stored).bind(group_id).bind(scopes).bind(ids);
        remove.execute(&mut **tx).await.map(drop).map_err(|e| self.failed(doing, e))
    }
}

/// Rounded up, so that nothing is due before its time.
fn rounded_up_ms(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX)
}

fn read_stored(row: &PgRow) -> Result<StoredMessage, Error> {
    let message = Message::new(read_claim_key(row, 0)?, read_fingerprint(row, 2)?, read_record(row, 5)?);
    Ok(StoredMessage::new(message, read_number(row, 3)?, row.try_get(4)?))
}
