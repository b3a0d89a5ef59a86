//! The reference store with hooks: commits that wait, replies that get lost, calls that fail.

use async_trait::async_trait;
use inbox_core::*;
use inbox_testkit::{Call, MemoryStore, MemoryTx};
use std::{
    collections::VecDeque,
    error::Error,
    sync::{Arc, Mutex, MutexGuard},
};

use super::Gate;

#[derive(Default)]
pub struct State {
    /// Commits wait here.
    pub commit_gate: Option<Gate>,
    /// So many commits are done and answer as if their reply was lost.
    pub doubts: usize,
    /// So many calls of `resolve` fail.
    pub resolve_failures: usize,
    /// So many readings of checkpoints fail.
    pub checkpoint_failures: usize,
    /// The next calls of these kinds are not performed, and answer with an error of this class.
    pub refused: VecDeque<(Call, FaultClass)>,
    /// How often a rollback was asked for.
    pub rollbacks: usize,
    /// Opens when the run asks the store to stop its statements.
    pub interrupted: Option<Gate>,
    /// Called after each commit.
    pub committed: Option<Arc<dyn Fn() + Send + Sync>>,
}

#[derive(Clone, Default)]
pub struct Hooks(Arc<Mutex<State>>);

impl Hooks {
    pub fn set(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    fn strikes(&self, count: impl Fn(&mut State) -> &mut usize) -> bool {
        let mut state = self.set();
        let left = count(&mut state);
        let strikes = *left > 0;
        *left = left.saturating_sub(1);
        strikes
    }

    fn refuses(&self, call: Call) -> Option<FaultClass> {
        let mut state = self.set();
        let at = state.refused.iter().position(|&(refused, _)| refused == call)?;
        state.refused.remove(at).map(|(_, class)| class)
    }
}

pub struct HookedStore {
    inner: MemoryStore,
    hooks: Hooks,
}

impl HookedStore {
    pub fn new(inner: MemoryStore, hooks: &Hooks) -> Self {
        Self { inner, hooks: hooks.clone() }
    }
}

fn refusal(class: FaultClass) -> StoreError {
    StoreError::failed(class, "told to refuse")
}

fn outage() -> StoreError {
    StoreError::failed(FaultClass::Outage, "out of reach")
}

#[async_trait]
impl InboxStore for HookedStore {
    type Tx = MemoryTx;

    async fn begin(&self, limits: &TxLimits) -> Result<MemoryTx, StoreError> {
        match self.hooks.refuses(Call::Begin) {
            Some(class) => Err(refusal(class)),
            None => self.inner.begin(limits).await,
        }
    }

    async fn claim(
        &self,
        tx: &mut MemoryTx,
        group: &Group,
        requests: &[ClaimRequest],
    ) -> Result<Vec<Claim>, StoreError> {
        match self.hooks.refuses(Call::Claim) {
            Some(class) => Err(refusal(class)),
            None => self.inner.claim(tx, group, requests).await,
        }
    }

    async fn commit(&self, tx: MemoryTx) -> Result<(), CommitError> {
        let gate = self.hooks.set().commit_gate.clone();
        if let Some(gate) = gate {
            gate.pass().await;
        }
        if let Some(class) = self.hooks.refuses(Call::Commit) {
            return Err(CommitError::rolled_back(class, "told to refuse"));
        }
        self.inner.commit(tx).await?;
        let committed = self.hooks.set().committed.clone();
        if let Some(committed) = committed {
            committed();
        }
        if self.hooks.strikes(|state| &mut state.doubts) {
            return Err(CommitError::InDoubt { message: "the reply was lost".to_owned() });
        }
        Ok(())
    }

    async fn rollback(&self, tx: MemoryTx) -> Result<(), StoreError> {
        self.hooks.set().rollbacks += 1;
        self.inner.rollback(tx).await
    }

    fn interrupt(&self) {
        if let Some(gate) = &self.hooks.set().interrupted {
            gate.open();
        }
    }

    async fn resolve(&self, group: &Group, keys: &[ClaimKey]) -> Result<Vec<Resolution>, StoreError> {
        if self.hooks.strikes(|state| &mut state.resolve_failures) {
            return Err(outage());
        }
        self.inner.resolve(group, keys).await
    }

    fn classify(&self, error: &(dyn Error + 'static)) -> FaultClass {
        self.inner.classify(error)
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}

#[async_trait]
impl Letters for HookedStore {
    async fn bury(&self, tx: &mut MemoryTx, group: &Group, letters: &[Letter]) -> Result<(), StoreError> {
        self.inner.bury(tx, group, letters).await
    }

    async fn record_conflicts(
        &self,
        tx: &mut MemoryTx,
        group: &Group,
        conflicts: &[Conflict],
    ) -> Result<(), StoreError> {
        self.inner.record_conflicts(tx, group, conflicts).await
    }
}

#[async_trait]
impl Checkpoints for HookedStore {
    async fn checkpoints(
        &self,
        group: &Group,
        partitions: &[Partition],
    ) -> Result<Vec<Option<Checkpoint>>, StoreError> {
        if self.hooks.strikes(|state| &mut state.checkpoint_failures) {
            return Err(outage());
        }
        self.inner.checkpoints(group, partitions).await
    }

    async fn take_over(
        &self,
        group: &Group,
        partitions: &[Partition],
    ) -> Result<Vec<Checkpoint>, StoreError> {
        self.inner.take_over(group, partitions).await
    }

    async fn hold(
        &self,
        tx: &mut MemoryTx,
        group: &Group,
        partitions: &[Partition],
    ) -> Result<Vec<Option<Checkpoint>>, StoreError> {
        self.inner.hold(tx, group, partitions).await
    }

    async fn advance(
        &self,
        tx: &mut MemoryTx,
        group: &Group,
        moves: &[CheckpointMove],
    ) -> Result<Vec<Moved>, StoreError> {
        self.inner.advance(tx, group, moves).await
    }

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
