//! A store whose calls take no time, as far as the run can see.
//!
//! The enumeration lives in paused time, which jumps to the next timer whenever a run waits for nothing
//! else. Waiting for a socket would look like that: every time-out would fire at once. So each call here
//! blocks the run's only thread until it is done, in the real time of a runtime of its own.
#![allow(clippy::unwrap_used)]

use async_trait::async_trait;
use inbox_core::{
    AttemptLog, Checkpoint, CheckpointMove, Checkpoints, Claim, ClaimKey, ClaimRequest, CommitError,
    Conflict, FaultClass, Group, InboxStore, Letter, Letters, Message, Moved, Partition, Resolution, Source,
    StoreError, StoredInbox, StoredMessage, TxLimits,
};
use inbox_postgres::{PostgresStore, PostgresTx};
use std::{
    error::Error,
    future::Future,
    pin::pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::Duration,
};
use tokio::runtime::Runtime;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Blocks this thread, even one of another runtime, until the future is done.
pub fn in_real_time<F: Future>(future: F) -> F::Output {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    let runtime = RUNTIME.get_or_init(|| Runtime::new().unwrap());
    let _sockets_and_timers_are_its = runtime.enter();
    // The budget of the task that this blocks does not apply.
    let mut future = pin!(tokio::task::unconstrained(future));
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

pub struct Realtime(pub PostgresStore);

#[async_trait]
impl InboxStore for Realtime {
    type Tx = PostgresTx;

    async fn begin(&self, limits: &TxLimits) -> Result<PostgresTx, StoreError> {
        in_real_time(self.0.begin(limits))
    }

    async fn claim(
        &self,
        tx: &mut PostgresTx,
        group: &Group,
        requests: &[ClaimRequest],
    ) -> Result<Vec<Claim>, StoreError> {
        in_real_time(self.0.claim(tx, group, requests))
    }

    async fn commit(&self, tx: PostgresTx) -> Result<(), CommitError> {
        in_real_time(self.0.commit(tx))
    }

    async fn rollback(&self, tx: PostgresTx) -> Result<(), StoreError> {
        in_real_time(self.0.rollback(tx))
    }

    async fn resolve(&self, group: &Group, keys: &[ClaimKey]) -> Result<Vec<Resolution>, StoreError> {
        in_real_time(self.0.resolve(group, keys))
    }

    fn classify(&self, error: &(dyn Error + 'static)) -> FaultClass {
        self.0.classify(error)
    }

    fn describe(&self) -> String {
        self.0.describe()
    }
}

#[async_trait]
impl Letters for Realtime {
    async fn bury(&self, tx: &mut PostgresTx, group: &Group, letters: &[Letter]) -> Result<(), StoreError> {
        in_real_time(self.0.bury(tx, group, letters))
    }

    async fn record_conflicts(
        &self,
        tx: &mut PostgresTx,
        group: &Group,
        conflicts: &[Conflict],
    ) -> Result<(), StoreError> {
        in_real_time(self.0.record_conflicts(tx, group, conflicts))
    }
}

#[async_trait]
impl StoredInbox for Realtime {
    async fn keep(&self, tx: &mut PostgresTx, group: &Group, messages: &[Message]) -> Result<(), StoreError> {
        in_real_time(self.0.keep(tx, group, messages))
    }

    async fn reclaim(
        &self,
        tx: &mut PostgresTx,
        group: &Group,
        requests: &[ClaimRequest],
    ) -> Result<Vec<Claim>, StoreError> {
        in_real_time(self.0.reclaim(tx, group, requests))
    }

    async fn record_failure(
        &self,
        group: &Group,
        key: &ClaimKey,
        attempts: u32,
        error: &str,
        retry_in: Duration,
    ) -> Result<(), StoreError> {
        in_real_time(self.0.record_failure(group, key, attempts, error, retry_in))
    }

    async fn due(&self, group: &Group, rows_max: u32) -> Result<Vec<StoredMessage>, StoreError> {
        in_real_time(self.0.due(group, rows_max))
    }

    async fn next_due(&self, group: &Group) -> Result<Option<Duration>, StoreError> {
        in_real_time(self.0.next_due(group))
    }
}

#[async_trait]
impl Checkpoints for Realtime {
    async fn checkpoints(
        &self,
        group: &Group,
        partitions: &[Partition],
    ) -> Result<Vec<Option<Checkpoint>>, StoreError> {
        in_real_time(self.0.checkpoints(group, partitions))
    }

    async fn take_over(
        &self,
        group: &Group,
        partitions: &[Partition],
    ) -> Result<Vec<Checkpoint>, StoreError> {
        in_real_time(self.0.take_over(group, partitions))
    }

    async fn hold(
        &self,
        tx: &mut PostgresTx,
        group: &Group,
        partitions: &[Partition],
    ) -> Result<Vec<Option<Checkpoint>>, StoreError> {
        in_real_time(self.0.hold(tx, group, partitions))
    }

    async fn advance(
        &self,
        tx: &mut PostgresTx,
        group: &Group,
        moves: &[CheckpointMove],
    ) -> Result<Vec<Moved>, StoreError> {
        in_real_time(self.0.advance(tx, group, moves))
    }

    async fn forget(&self, group: &Group, source: &Source) -> Result<u64, StoreError> {
        in_real_time(self.0.forget(group, source))
    }

    async fn list_checkpoints(
        &self,
        group: &Group,
        source: &Source,
    ) -> Result<Vec<(Partition, Checkpoint)>, StoreError> {
        in_real_time(self.0.list_checkpoints(group, source))
    }
}

#[async_trait]
impl AttemptLog for Realtime {
    async fn open_run(
        &self,
        group: &Group,
        instance: &str,
        open_max: u64,
    ) -> Result<Option<u64>, StoreError> {
        in_real_time(self.0.open_run(group, instance, open_max))
    }

    async fn close_run(&self, group: &Group, instance: &str) -> Result<(), StoreError> {
        in_real_time(self.0.close_run(group, instance))
    }

    async fn marks(&self, group: &Group, key: &ClaimKey) -> Result<u32, StoreError> {
        in_real_time(self.0.marks(group, key))
    }

    async fn mark_start(&self, group: &Group, key: &ClaimKey, marks: u32) -> Result<(), StoreError> {
        in_real_time(self.0.mark_start(group, key, marks))
    }

    async fn clear_marks(
        &self,
        tx: &mut PostgresTx,
        group: &Group,
        keys: &[ClaimKey],
    ) -> Result<(), StoreError> {
        in_real_time(self.0.clear_marks(tx, group, keys))
    }
}
