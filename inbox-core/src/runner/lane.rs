//! Lanes: each runs one unit of work at a time, then settles.

use super::{
    RunError,
    counters::Counters,
    unit::{self, Outcome, Retry, Shared, UnitDone},
};
use crate::{Ack, InboxStore, ProbePoint, Received, Settled, StoreError};
use futures_util::FutureExt;
use std::{panic::AssertUnwindSafe, sync::Arc};
use tokio::sync::{mpsc, oneshot};

/// What a lane reports when a unit has ended and its settlements are sent.
pub(crate) struct Report<R> {
    pub(crate) lane: usize,
    pub(crate) finished: Vec<(usize, Outcome)>,
    pub(crate) retry: Vec<Retry<R>>,
    pub(crate) held: Vec<Received<R>>,
    pub(crate) outage: Option<StoreError>,
    pub(crate) halt: Option<RunError>,
}

/// Starts a lane; it ends when its sender is dropped.
pub(crate) fn start<S: InboxStore, A: Ack>(
    lane: usize,
    shared: Arc<Shared<S>>,
    ack: A,
    reports: mpsc::Sender<Report<A::Receipt>>,
) -> mpsc::Sender<Vec<Received<A::Receipt>>> {
    let (units, mut inbox) = mpsc::channel::<Vec<Received<A::Receipt>>>(1);
    tokio::spawn(async move {
        while let Some(batch) = inbox.recv().await {
            let done = run_where_the_store_wants(&shared, batch).await;
            let report = settle(lane, &shared, &ack, done).await;
            if reports.send(report).await.is_err() {
                break;
            }
        }
    });
    units
}

/// The unit is never aborted: it is handed to the store as a whole, and only its result comes back.
async fn run_where_the_store_wants<S: InboxStore, R: Send + 'static>(
    shared: &Arc<Shared<S>>,
    batch: Vec<Received<R>>,
) -> UnitDone<R> {
    let (result, done) = oneshot::channel();
    let for_unit = Arc::clone(shared);
    shared.store.run_unit(Box::pin(async move {
        // Nobody waits any more when the runtime is ending.
        let _gone = result.send(unit::run(&for_unit, batch).await);
    }));
    done.await.unwrap_or_else(|_| UnitDone { halt: Some(RunError::UnitLost), ..UnitDone::default() })
}

async fn settle<S: InboxStore, A: Ack>(
    lane: usize,
    shared: &Shared<S>,
    ack: &A,
    done: UnitDone<A::Receipt>,
) -> Report<A::Receipt> {
    let UnitDone { settlements, retry, held, outage, halt } = done;
    let finished: Vec<(usize, Outcome)> =
        settlements.iter().map(|(s, outcome)| (s.tag(), *outcome)).collect();
    if !settlements.is_empty() {
        shared.probes.reached(ProbePoint::Settling, None).await;
        let settlements = settlements.into_iter().map(|(settlement, _)| settlement).collect();
        let count = finished.len() as u64;
        // A lane that ends by a panic would never be heard of again.
        let answers = AssertUnwindSafe(ack.settle(settlements)).catch_unwind().await.unwrap_or_else(|_| {
            Counters::add(&shared.counters.failed_settlements, count);
            tracing::error!(target: "inbox", group = %shared.group, "the broker panicked while settling");
            Vec::new()
        });
        for answer in answers {
            match answer {
                Ok(Settled::Stale) => Counters::add(&shared.counters.stale, 1),
                Ok(_) => {}
                // It is committed: when it comes again it will be found.
                Err(error) => {
                    Counters::add(&shared.counters.failed_settlements, 1);
                    tracing::warn!(target: "inbox", group = %shared.group, %error, "settlement failed");
                }
            }
        }
        shared.probes.reached(ProbePoint::Settled, None).await;
    }
    Report { lane, finished, retry, held, outage, halt }
}
