//! A store under a plan.

use super::{Call, CrashPlan};
use async_trait::async_trait;
use inbox_core::{
    AttemptLog, Checkpoint, CheckpointMove, Checkpoints, Claim, ClaimKey, ClaimRequest, CommitError,
    Conflict, FaultClass, Group, InboxStore, Letter, Letters, Message, Moved, Partition, Resolution, Source,
    StoreError, StoredInbox, StoredMessage, TxLimits,
};
use std::{error::Error, future::Future, pin::Pin, time::Duration};

/// A store whose calls are counted and hit by a [`CrashPlan`].
#[derive(Debug, Clone)]
pub struct CrashStore<S> {
    inner: S,
    plan: CrashPlan,
}

impl<S> CrashStore<S> {
    /// `inner` under `plan`.
    pub fn new(inner: S, plan: &CrashPlan) -> Self {
        Self { inner, plan: plan.clone() }
    }

    /// The store underneath.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    async fn perform<T>(
        &self,
        call: Call,
        perform: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        self.plan.perform(call, perform, outage, outage).await
    }
}

fn outage() -> StoreError {
    StoreError::failed(FaultClass::Outage, "the plan lets the store fail")
}

#[async_trait]
impl<S: InboxStore> InboxStore for CrashStore<S> {
    type Tx = S::Tx;

    async fn begin(&self, limits: &TxLimits) -> Result<S::Tx, StoreError> {
        self.perform(Call::Begin, self.inner.begin(limits)).await
    }

    async fn claim(
        &self,
        tx: &mut S::Tx,
        group: &Group,
        requests: &[ClaimRequest],
    ) -> Result<Vec<Claim>, StoreError> {
        self.perform(Call::Claim, self.inner.claim(tx, group, requests)).await
    }

    async fn commit(&self, tx: S::Tx) -> Result<(), CommitError> {
        let refused = || CommitError::rolled_back(FaultClass::Outage, "the plan lets the commit fail");
        let lost = || CommitError::InDoubt { message: "the plan lets the reply be lost".to_owned() };
        self.plan.perform(Call::Commit, self.inner.commit(tx), refused, lost).await
    }

    async fn rollback(&self, tx: S::Tx) -> Result<(), StoreError> {
        self.perform(Call::Rollback, self.inner.rollback(tx)).await
    }

    async fn resolve(&self, group: &Group, keys: &[ClaimKey]) -> Result<Vec<Resolution>, StoreError> {
        self.perform(Call::Resolve, self.inner.resolve(group, keys)).await
    }

    fn classify(&self, error: &(dyn Error + 'static)) -> FaultClass {
        self.inner.classify(error)
    }

    /// A task of the runtime whatever the inner store does, so that a run with paused time is the same
    /// every time.
    fn run_unit(&self, unit: Pin<Box<dyn Future<Output = ()> + Send>>) {
        tokio::spawn(unit);
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}

#[async_trait]
impl<S: Letters> Letters for CrashStore<S> {
    async fn bury(&self, tx: &mut S::Tx, group: &Group, letters: &[Letter]) -> Result<(), StoreError> {
        self.perform(Call::Bury, self.inner.bury(tx, group, letters)).await
    }

    async fn record_conflicts(
        &self,
        tx: &mut S::Tx,
        group: &Group,
        conflicts: &[Conflict],
    ) -> Result<(), StoreError> {
        self.perform(Call::RecordConflicts, self.inner.record_conflicts(tx, group, conflicts)).await
    }
}

#[async_trait]
impl<S: Checkpoints> Checkpoints for CrashStore<S> {
    async fn checkpoints(
        &self,
        group: &Group,
        partitions: &[Partition],
    ) -> Result<Vec<Option<Checkpoint>>, StoreError> {
        self.perform(Call::Checkpoints, self.inner.checkpoints(group, partitions)).await
    }

    async fn take_over(
        &self,
        group: &Group,
        partitions: &[Partition],
    ) -> Result<Vec<Checkpoint>, StoreError> {
        self.perform(Call::TakeOver, self.inner.take_over(group, partitions)).await
    }

    async fn hold(
        &self,
        tx: &mut S::Tx,
        group: &Group,
        partitions: &[Partition],
    ) -> Result<Vec<Option<Checkpoint>>, StoreError> {
        self.perform(Call::Hold, self.inner.hold(tx, group, partitions)).await
    }

    async fn advance(
        &self,
        tx: &mut S::Tx,
        group: &Group,
        moves: &[CheckpointMove],
    ) -> Result<Vec<Moved>, StoreError> {
        self.perform(Call::Advance, self.inner.advance(tx, group, moves)).await
    }

    // What an operator does is not part of a run: not counted.

    async fn forget(&self, group: &Group, source: &Source) -> Result<u64, StoreError> {
        self.inner.forget(group, source).await
    }

    async fn list_checkpoints(
        &self,
        group: &Group,
        source: &Source,
    ) -> Result<Vec<(Partition, Checkpoint)>, StoreError> {
        self.inner.list_checkpoints(group, source).await
    }
}

#[async_trait]
impl<S: StoredInbox> StoredInbox for CrashStore<S> {
    async fn keep(&self, tx: &mut S::Tx, group: &Group, messages: &[Message]) -> Result<(), StoreError> {
        self.perform(Call::Keep, self.inner.keep(tx, group, messages)).await
    }

    async fn reclaim(
        &self,
        tx: &mut S::Tx,
        group: &Group,
        requests: &[ClaimRequest],
    ) -> Result<Vec<Claim>, StoreError> {
        self.perform(Call::Reclaim, self.inner.reclaim(tx, group, requests)).await
    }

    async fn record_failure(
        &self,
        group: &Group,
        key: &ClaimKey,
        attempts: u32,
        error: &str,
        retry_in: Duration,
    ) -> Result<(), StoreError> {
        let record = self.inner.record_failure(group, key, attempts, error, retry_in);
        self.perform(Call::RecordFailure, record).await
    }

    async fn due(&self, group: &Group, rows_max: u32) -> Result<Vec<StoredMessage>, StoreError> {
        self.perform(Call::Due, self.inner.due(group, rows_max)).await
    }

    /// Not counted: it changes nothing, and how often it is asked depends on the time.
    async fn next_due(&self, group: &Group) -> Result<Option<Duration>, StoreError> {
        self.inner.next_due(group).await
    }
}

#[async_trait]
impl<S: AttemptLog> AttemptLog for CrashStore<S> {
    async fn open_run(
        &self,
        group: &Group,
        instance: &str,
        open_max: u64,
    ) -> Result<Option<u64>, StoreError> {
        self.perform(Call::OpenRun, self.inner.open_run(group, instance, open_max)).await
    }

    async fn close_run(&self, group: &Group, instance: &str) -> Result<(), StoreError> {
        self.perform(Call::CloseRun, self.inner.close_run(group, instance)).await
    }

    async fn marks(&self, group: &Group, key: &ClaimKey) -> Result<u32, StoreError> {
        self.perform(Call::Marks, self.inner.marks(group, key)).await
    }

    async fn mark_start(&self, group: &Group, key: &ClaimKey, marks: u32) -> Result<(), StoreError> {
        self.perform(Call::MarkStart, self.inner.mark_start(group, key, marks)).await
    }

    async fn clear_marks(&self, tx: &mut S::Tx, group: &Group, keys: &[ClaimKey]) -> Result<(), StoreError> {
        self.perform(Call::ClearMarks, self.inner.clear_marks(tx, group, keys)).await
    }
}

crate::delegate::inspect!(CrashStore);
