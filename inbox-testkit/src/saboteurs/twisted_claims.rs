//! Answers to claims that are not true.

use async_trait::async_trait;
use inbox_core::{
    Claim, ClaimKey, ClaimRequest, CommitError, FaultClass, Group, InboxStore, Resolution, StoreError,
    TxLimits,
};
use std::{error::Error, future::Future, pin::Pin};

/// Changes what a claim answers.
#[derive(Debug, Clone)]
pub struct TwistedClaims<S> {
    inner: S,
    twist: fn(Claim) -> Claim,
}

impl<S> TwistedClaims<S> {
    /// Says `Fresh` for what was applied: every duplicate runs again. Breaks G1 and G3.
    pub fn forgetful(inner: S) -> Self {
        Self { inner, twist: |claim| if claim == Claim::Applied { Claim::Fresh } else { claim } }
    }

    /// Takes other content under a known id for a duplicate: it vanishes without a trace. Breaks G5.
    pub fn silent_conflicts(inner: S) -> Self {
        let twist = |claim| if matches!(claim, Claim::Conflict { .. }) { Claim::Applied } else { claim };
        Self { inner, twist }
    }
}

#[async_trait]
impl<S: InboxStore> InboxStore for TwistedClaims<S> {
    type Tx = S::Tx;

    async fn begin(&self, limits: &TxLimits) -> Result<S::Tx, StoreError> {
        self.inner.begin(limits).await
    }

    async fn claim(
        &self,
        tx: &mut S::Tx,
        group: &Group,
        requests: &[ClaimRequest],
    ) -> Result<Vec<Claim>, StoreError> {
        let claims = self.inner.claim(tx, group, requests).await?;
        Ok(claims.into_iter().map(self.twist).collect())
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

crate::delegate::letters!(TwistedClaims);
crate::delegate::inspect!(TwistedClaims);
crate::delegate::checkpoints!(TwistedClaims);
crate::delegate::attempt_log!(TwistedClaims);
crate::delegate::stored!(TwistedClaims);
