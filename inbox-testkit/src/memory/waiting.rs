//! Waiting for other transactions.

use super::{MemoryConnection, MemoryDatabase, state::Lock};
use crate::lock::lock;
use inbox_core::StoreError;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

impl MemoryDatabase {
    /// Looks again whenever a transaction ends, until `look` finds something or the time is over.
    pub(super) async fn wait_for<T>(
        &self,
        by: Instant,
        mut look: impl FnMut() -> Option<T>,
    ) -> Result<T, StoreError> {
        loop {
            // Registered before looking, so that no end between looking and waiting is missed.
            let ended = self.0.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            if let Some(found) = look() {
                return Ok(found);
            }
            timeout_at(by, ended).await.map_err(|_elapsed| StoreError::Busy)?;
        }
    }

    /// Waits until no open transaction holds `wanted`.
    pub(super) async fn wait_until_free(&self, wanted: &Lock, patience: Duration) -> Result<(), StoreError> {
        let free = || (!lock(&self.0.state).is_held(wanted)).then_some(());
        self.wait_for(Instant::now() + patience, free).await
    }
}

impl MemoryConnection {
    /// Takes locks, waiting for other transactions as long as the limits say.
    pub(super) async fn hold(&self, wanted: &[Lock]) -> Result<(), StoreError> {
        let by = Instant::now() + self.limits().lock_timeout;
        // In one order for all, so that two transactions cannot wait for each other.
        let mut sorted: Vec<&Lock> = wanted.iter().collect();
        sorted.sort();
        for wanted in sorted {
            self.database().wait_for(by, || self.try_hold(wanted).then_some(())).await?;
        }
        Ok(())
    }
}
