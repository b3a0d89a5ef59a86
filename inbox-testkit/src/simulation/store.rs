//! The store of a simulated process: it takes its time, loses connections, and dies with the process.

use super::tally::Tally;
use crate::{CrashPlan, CrashStore, History, MemoryDatabase, lock::lock};
use async_trait::async_trait;
use fastrand::Rng;
use inbox_core::{
    Claim, ClaimKey, ClaimRequest, CommitError, FaultClass, Group, InboxStore, Resolution, StoreError,
    TxLimits,
};
use std::{error::Error, future::Future, pin::Pin, sync::Mutex, time::Duration};

/// One process's way to the database.
pub(super) struct ErraticStore<S> {
    inner: CrashStore<S>,
    plan: CrashPlan,
    database: MemoryDatabase,
    tally: Tally,
    rng: Mutex<Rng>,
    /// How often connections are cut around a commit.
    cuts: f64,
    /// The process's number, and where its claims are written down, if they are.
    claims_to: Option<(u64, History)>,
}

impl<S> ErraticStore<S> {
    pub(super) fn new(
        inner: S,
        plan: &CrashPlan,
        database: &MemoryDatabase,
        tally: &Tally,
        (rng, cuts): (Rng, f64),
    ) -> Self {
        Self {
            inner: CrashStore::new(inner, plan),
            plan: plan.clone(),
            database: database.clone(),
            tally: tally.clone(),
            rng: Mutex::new(rng),
            cuts,
            claims_to: None,
        }
    }

    /// Writes claims and their answers into a history, as those of the process with this number.
    pub(super) fn recording(self, process: u64, history: &History) -> Self {
        Self { claims_to: Some((process, history.clone())), ..self }
    }

    /// The network: mostly fast, sometimes slower than others wait for a lock.
    async fn travel(&self) {
        let ms = {
            let mut rng = lock(&self.rng);
            match rng.u8(..) {
                0..150 => return,
                150..250 => rng.u64(1..10),
                _ => rng.u64(10..1500),
            }
        };
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }

    fn perhaps_cut(&self) {
        if lock(&self.rng).f64() < self.cuts {
            self.tally.add("cut around a commit", 1);
            self.database.cut_connections();
        }
    }
}

#[async_trait]
impl<S: InboxStore> InboxStore for ErraticStore<S> {
    type Tx = S::Tx;

    async fn begin(&self, limits: &TxLimits) -> Result<S::Tx, StoreError> {
        self.travel().await;
        self.inner.begin(limits).await
    }

    async fn claim(
        &self,
        tx: &mut S::Tx,
        group: &Group,
        requests: &[ClaimRequest],
    ) -> Result<Vec<Claim>, StoreError> {
        let claims = self.inner.claim(tx, group, requests).await;
        if let Some((process, history)) = &self.claims_to {
            let ids: Vec<_> = requests.iter().map(|request| request.key.id.as_str()).collect();
            history.note(format!("process {process} claims {ids:?}: {claims:?}"));
        }
        self.travel().await;
        claims
    }

    async fn commit(&self, tx: S::Tx) -> Result<(), CommitError> {
        self.travel().await;
        self.perhaps_cut();
        self.inner.commit(tx).await?;
        self.perhaps_cut();
        self.travel().await;
        Ok(())
    }

    async fn rollback(&self, tx: S::Tx) -> Result<(), StoreError> {
        self.travel().await;
        self.inner.rollback(tx).await
    }

    async fn resolve(&self, group: &Group, keys: &[ClaimKey]) -> Result<Vec<Resolution>, StoreError> {
        self.travel().await;
        self.inner.resolve(group, keys).await
    }

    fn classify(&self, error: &(dyn Error + 'static)) -> FaultClass {
        self.inner.classify(error)
    }

    /// The unit dies with its process, and takes its open transaction with it.
    fn run_unit(&self, unit: Pin<Box<dyn Future<Output = ()> + Send>>) {
        let plan = self.plan.clone();
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = plan.crashed() => {}
                () = unit => {}
            }
        });
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}

crate::delegate::letters!(ErraticStore);
crate::delegate::checkpoints!(ErraticStore);
crate::delegate::attempt_log!(ErraticStore);
