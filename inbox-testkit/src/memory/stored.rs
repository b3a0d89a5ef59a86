//! Messages that a memory database keeps in their claims.

use super::{
    MemoryDatabase, MemoryError, MemoryStore, MemoryTx,
    state::{Lock, Record, Row},
};
use crate::lock::lock;
use async_trait::async_trait;
use inbox_core::{
    Claim, ClaimKey, ClaimRequest, Disposition, FaultClass, Group, Message, StoreError, StoredInbox,
    StoredMessage, TxLimits, cut_error,
};
use std::time::Duration;
use tokio::time::Instant;

/// A committed row that was taken, with what was answered, or the answer alone.
type Taken = (Claim, Option<Row>);

impl MemoryDatabase {
    /// Takes a stored row for a transaction. `None` while another one is about to change it.
    fn take(&self, tx: &MemoryTx, group: &Group, request: &ClaimRequest) -> Option<Taken> {
        let mut state = lock(&self.0.state);
        let place = (group.clone(), request.key.clone());
        let wanted = Lock::Claim(place.0.clone(), place.1.clone());
        if state.is_held(&wanted) && !state.hold(&wanted, tx.id()) {
            return None;
        }
        let Some(row) = state.claims.get(&place).cloned() else {
            // It was stored once, and is not there any more: nothing is left to do for it.
            return Some((Claim::Applied, None));
        };
        match Claim::found(row.disposition, row.fingerprint, request.fingerprint) {
            Claim::Stored => {
                state.hold(&wanted, tx.id()).then(|| (Claim::Fresh, Some(Row::applied(row.fingerprint))))
            }
            other => Some((other, None)),
        }
    }

    fn check_available(&self) -> Result<(), StoreError> {
        if lock(&self.0.state).unavailable { Err(MemoryError::Disconnected.into()) } else { Ok(()) }
    }
}

#[async_trait]
impl StoredInbox for MemoryStore {
    async fn keep(&self, tx: &mut MemoryTx, group: &Group, messages: &[Message]) -> Result<(), StoreError> {
        tx.check()?;
        for message in messages {
            let key = message.claim_key();
            let number = lock(&self.database.0.state).next_number();
            let Some(row) = tx.writes.claims.get_mut(&(group.clone(), key.clone())) else {
                let message = format!("keeping {key}: this transaction does not hold its claim");
                return Err(StoreError::failed(FaultClass::Permanent, message));
            };
            row.disposition = Disposition::Stored;
            let stored = StoredMessage::new(message.clone(), 0, None);
            row.record = Some(Record { stored, number, due_at: None });
        }
        Ok(())
    }

    async fn reclaim(
        &self,
        tx: &mut MemoryTx,
        group: &Group,
        requests: &[ClaimRequest],
    ) -> Result<Vec<Claim>, StoreError> {
        let by = Instant::now() + tx.limits().lock_timeout;
        // In one order for all, so that two transactions cannot wait for each other.
        let mut order: Vec<usize> = (0..requests.len()).collect();
        order.sort_by_key(|&i| &requests[i].key);
        let mut claims = vec![Claim::Fresh; requests.len()];
        for i in order {
            tx.check()?;
            let request = &requests[i];
            let place = (group.clone(), request.key.clone());
            if tx.writes.claims.contains_key(&place) {
                let message = format!("{} was claimed twice in one transaction", request.key);
                return Err(StoreError::failed(FaultClass::Permanent, message));
            }
            let take = || self.database.take(tx, group, request);
            let (claim, row) = self.database.wait_for(by, take).await?;
            // The transaction may have been cut while it waited; then it holds nothing.
            tx.check()?;
            tx.writes.claims.extend(row.map(|row| (place, row)));
            claims[i] = claim;
        }
        Ok(claims)
    }

    async fn record_failure(
        &self,
        group: &Group,
        key: &ClaimKey,
        attempts: u32,
        error: &str,
        retry_in: Duration,
    ) -> Result<(), StoreError> {
        let mut tx = self.begin_now(&TxLimits::default())?;
        tx.hold(&[Lock::Claim(group.clone(), key.clone())]).await?;
        tx.check()?;
        let place = (group.clone(), key.clone());
        let mut row = lock(&self.database.0.state).claims.get(&place).cloned();
        let Some(record) = row.as_mut().and_then(|row| row.record.as_mut()) else { return Ok(()) };
        record.stored.attempts = attempts;
        record.stored.error = Some(cut_error(error));
        let now = Instant::now();
        // A time beyond what the clock can tell never comes; 30 years are as good.
        let never = Duration::from_secs(30 * 365 * 86_400);
        record.due_at = Some(now.checked_add(retry_in).unwrap_or_else(|| now + never));
        tx.writes.claims.extend(row.map(|row| (place, row)));
        self.commit_own(tx, "a failed attempt").await
    }

    async fn due(&self, group: &Group, rows_max: u32) -> Result<Vec<StoredMessage>, StoreError> {
        self.database.check_available()?;
        let now = Instant::now();
        let is_due = |record: &Record| record.due_at.is_none_or(|at| at <= now);
        let due = self.database.records(group).into_iter().filter(is_due);
        Ok(due.take(usize::try_from(rows_max).unwrap_or(usize::MAX)).map(|record| record.stored).collect())
    }

    async fn next_due(&self, group: &Group) -> Result<Option<Duration>, StoreError> {
        self.database.check_available()?;
        let now = Instant::now();
        let wait = |record: Record| record.due_at.map_or(Duration::ZERO, |at| at.duration_since(now));
        Ok(self.database.records(group).into_iter().map(wait).min())
    }
}
