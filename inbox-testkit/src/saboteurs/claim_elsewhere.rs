//! A claim that is not in the transaction of its effect.

use async_trait::async_trait;
use inbox_core::{
    Claim, ClaimKey, ClaimRequest, CommitError, FaultClass, Group, InboxStore, Resolution, StoreError,
    TxLimits,
};
use std::{error::Error, future::Future, pin::Pin};

/// Claims in a transaction of its own and commits it at once: after a failure the claim stays, and the
/// effect never comes. Breaks G6 and loses messages.
#[derive(Debug, Clone)]
pub struct ClaimElsewhere<S> {
    inner: S,
}

impl<S> ClaimElsewhere<S> {
    /// Spoils `inner`.
    pub fn new(inner: S) -> Self {
        Self { inner }
    }
}

#[async_trait]
impl<S: InboxStore> InboxStore for ClaimElsewhere<S> {
    type Tx = S::Tx;

    async fn begin(&self, limits: &TxLimits) -> Result<S::Tx, StoreError> {
        self.inner.begin(limits).await
    }

    async fn claim(
        &self,
        _tx: &mut S::Tx,
        group: &Group,
        requests: &[ClaimRequest],
    ) -> Result<Vec<Claim>, StoreError> {
        let mut own = self.inner.begin(&TxLimits::default()).await?;
        let claims = self.inner.claim(&mut own, group, requests).await?;
        self.inner.commit(own).await.map_err(|error| {
            StoreError::failed(FaultClass::Outage, "committing a claim elsewhere").caused_by(error)
        })?;
        Ok(claims)
    }

    async fn commit(&self, tx: S::Tx) -> Result<(), CommitError> {
        self.inner.commit(tx).await
    }

    async fn rollback(&self, tx: S::Tx) -> Result<(), StoreError> {
        self.inner.rollback(tx).await
    }

    async fn resolve(&self, group: &Group, keys: &[ClaimKey]) -> Result<Vec<Resolution>, StoreError> {
        self.inner.resolve(group, keys).await
    }

    fn classify(&self, error: &(dyn Error + 'static)) -> FaultClass {
        self.inner.classify(error)
    }

    fn run_unit(&self, unit: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.inner.run_unit(unit);
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}

crate::delegate::letters!(ClaimElsewhere);
crate::delegate::inspect!(ClaimElsewhere);
crate::delegate::checkpoints!(ClaimElsewhere);
crate::delegate::attempt_log!(ClaimElsewhere);
crate::delegate::stored!(ClaimElsewhere);
