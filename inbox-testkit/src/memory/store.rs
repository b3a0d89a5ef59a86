//! The store on a memory database.

use super::{
    MemoryDatabase, MemoryError,
    connection::{MemoryConnection, MemoryTx},
    state::{Lock, Row},
};
use crate::lock::lock;
use async_trait::async_trait;
use inbox_core::{
    Claim, ClaimKey, ClaimRequest, CommitError, FaultClass, Group, InboxStore, Resolution, StoreError,
    TxLimits,
};
use std::error::Error;

/// The reference store. It is what the contract says and nothing else, so a run that goes wrong on it
/// went wrong by itself. Bounds on statements and idle time are not enforced.
#[derive(Debug, Clone)]
pub struct MemoryStore {
    pub(super) database: MemoryDatabase,
}

impl MemoryStore {
    pub(super) fn new(database: MemoryDatabase) -> Self {
        Self { database }
    }

    pub(super) fn begin_now(&self, limits: &TxLimits) -> Result<MemoryTx, StoreError> {
        let mut state = lock(&self.database.0.state);
        if state.unavailable {
            return Err(MemoryError::Disconnected.into());
        }
        let id = state.open();
        Ok(MemoryTx::new(MemoryConnection::new(self.database.clone(), id, limits.clone())))
    }

    /// Commits a transaction of the store's own.
    pub(super) async fn commit_own(&self, tx: MemoryTx, doing: &str) -> Result<(), StoreError> {
        self.commit(tx).await.map_err(|error| {
            StoreError::failed(FaultClass::Outage, format!("committing {doing}")).caused_by(error)
        })
    }

    fn look(&self, tx: &MemoryTx, group: &Group, request: &ClaimRequest) -> Option<Claim> {
        let mut state = lock(&self.database.0.state);
        let place = (group.clone(), request.key.clone());
        if let Some(row) = state.claims.get(&place) {
            return Some(Claim::found(row.disposition, row.fingerprint, request.fingerprint));
        }
        state.hold(&Lock::Claim(place.0, place.1), tx.id()).then_some(Claim::Fresh)
    }
}

#[async_trait]
impl InboxStore for MemoryStore {
    type Tx = MemoryTx;

    async fn begin(&self, limits: &TxLimits) -> Result<MemoryTx, StoreError> {
        self.begin_now(limits)
    }

    async fn claim(
        &self,
        tx: &mut MemoryTx,
        group: &Group,
        requests: &[ClaimRequest],
    ) -> Result<Vec<Claim>, StoreError> {
        let by = tokio::time::Instant::now() + tx.limits().lock_timeout;
        // In one order for all, so that two transactions cannot wait for each other.
        let mut order: Vec<usize> = (0..requests.len()).collect();
        order.sort_by_key(|&i| &requests[i].key);
        let mut claims = vec![Claim::Fresh; requests.len()];
        for i in order {
            tx.check()?;
            let request = &requests[i];
            if tx.writes.claims.contains_key(&(group.clone(), request.key.clone())) {
                let message = format!("{} was claimed twice in one transaction", request.key);
                return Err(StoreError::failed(FaultClass::Permanent, message));
            }
            let answer = self.database.wait_for(by, || self.look(tx, group, request)).await?;
            // The transaction may have been cut while it waited; then it holds nothing.
            tx.check()?;
            if answer == Claim::Fresh {
                let row = Row::applied(request.fingerprint);
                tx.writes.claims.insert((group.clone(), request.key.clone()), row);
            }
            claims[i] = answer;
        }
        Ok(claims)
    }

    async fn commit(&self, mut tx: MemoryTx) -> Result<(), CommitError> {
        tx.commit_now().map_err(|error| {
            CommitError::rolled_back(error.class(), format!("committing: {error}")).caused_by(error)
        })
    }

    async fn rollback(&self, tx: MemoryTx) -> Result<(), StoreError> {
        // Dropping it is rolling it back.
        drop(tx);
        Ok(())
    }

    async fn resolve(&self, group: &Group, keys: &[ClaimKey]) -> Result<Vec<Resolution>, StoreError> {
        let patience = TxLimits::default().lock_timeout;
        for key in keys {
            self.database.wait_until_free(&Lock::Claim(group.clone(), key.clone()), patience).await?;
        }
        let state = lock(&self.database.0.state);
        if state.unavailable {
            return Err(MemoryError::Disconnected.into());
        }
        let resolution = |key: &ClaimKey| match state.claims.get(&(group.clone(), key.clone())) {
            Some(row) => Resolution::Committed { disposition: row.disposition, fingerprint: row.fingerprint },
            None => Resolution::Absent,
        };
        Ok(keys.iter().map(resolution).collect())
    }

    fn classify(&self, error: &(dyn Error + 'static)) -> FaultClass {
        error.downcast_ref::<MemoryError>().map_or(FaultClass::HandlerFault, MemoryError::class)
    }

    fn describe(&self) -> String {
        "memory database".to_owned()
    }
}
