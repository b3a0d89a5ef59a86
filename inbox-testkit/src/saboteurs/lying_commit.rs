//! A commit that is answered before it is performed.

use crate::lock::lock;
use async_trait::async_trait;
use inbox_core::{
    Claim, ClaimKey, ClaimRequest, CommitError, FaultClass, Group, InboxStore, Resolution, StoreError,
    TxLimits,
};
use std::{
    error::Error,
    fmt,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex},
};

/// When a [`LyingCommit`] does what it said it had done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Late {
    /// Never.
    Never,
    /// When the next transaction begins.
    AtNextBegin,
}

/// Answers a commit before it is performed, so that the run acknowledges before the commit. Breaks G2,
/// and loses messages when the process dies in between.
pub struct LyingCommit<S: InboxStore> {
    inner: S,
    late: Late,
    owed: Arc<Mutex<Option<S::Tx>>>,
}

impl<S: InboxStore> LyingCommit<S> {
    /// Spoils `inner`.
    pub fn new(inner: S, late: Late) -> Self {
        Self { inner, late, owed: Arc::default() }
    }
}

impl<S: InboxStore + Clone> Clone for LyingCommit<S> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), late: self.late, owed: Arc::clone(&self.owed) }
    }
}

impl<S: InboxStore + fmt::Debug> fmt::Debug for LyingCommit<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LyingCommit").field("inner", &self.inner).field("late", &self.late).finish()
    }
}

#[async_trait]
impl<S: InboxStore> InboxStore for LyingCommit<S> {
    type Tx = S::Tx;

    async fn begin(&self, limits: &TxLimits) -> Result<S::Tx, StoreError> {
        // Taken out before waiting: a lock is not held across an await. What is never performed is
        // rolled back here by dropping it.
        let owed = lock(&self.owed).take();
        if let Some(owed) = owed.filter(|_| self.late == Late::AtNextBegin) {
            // The lie is not made worse by an honest answer now.
            let _too_late = self.inner.commit(owed).await;
        }
        self.inner.begin(limits).await
    }

    async fn claim(
        &self,
        tx: &mut S::Tx,
        group: &Group,
        requests: &[ClaimRequest],
    ) -> Result<Vec<Claim>, StoreError> {
        self.inner.claim(tx, group, requests).await
    }

    async fn commit(&self, tx: S::Tx) -> Result<(), CommitError> {
        *lock(&self.owed) = Some(tx);
        Ok(())
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

crate::delegate::letters!(LyingCommit);
crate::delegate::inspect!(LyingCommit);
crate::delegate::checkpoints!(LyingCommit);
crate::delegate::attempt_log!(LyingCommit);
crate::delegate::stored!(LyingCommit);
