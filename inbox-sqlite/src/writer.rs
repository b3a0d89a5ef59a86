//! The writer thread: units of work run on it from end to end.
//!
//! SQLite blocks the thread that calls it. On a thread of its own a unit of work needs no hops between
//! threads, and the runtime's threads stay free for brokers and timers.

use crate::OpenError;
use futures_util::future::{Either, select};
use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::{Pin, pin},
    sync::{Mutex, PoisonError, mpsc},
    thread,
};
use tokio::{
    runtime::{Handle, Id},
    sync::watch,
};

type Unit = Pin<Box<dyn Future<Output = ()> + Send>>;

struct Job {
    unit: Unit,
    runtime: Handle,
    /// Fails to change once the runtime has ended.
    alive: watch::Receiver<()>,
}

/// Sends units of work to the thread, which ends when this is dropped. Nobody waits for that: the drop
/// may happen on the thread itself.
pub(crate) struct WriterThread {
    jobs: mpsc::Sender<Job>,
    runtimes: Mutex<Vec<(Id, watch::Receiver<()>)>>,
}

impl WriterThread {
    pub(crate) fn start() -> Result<Self, OpenError> {
        let (jobs, queue) = mpsc::channel::<Job>();
        thread::Builder::new()
            .name("inbox-sqlite".into())
            .spawn(move || queue.into_iter().for_each(run))
            .map_err(|source| OpenError::Thread { source })?;
        Ok(Self { jobs, runtimes: Mutex::new(Vec::new()) })
    }

    /// Queues a unit of work behind those that were queued before. Must be called inside a runtime.
    pub(crate) fn run(&self, unit: Unit) {
        let runtime = Handle::current();
        let alive = self.alive(&runtime);
        if let Err(mpsc::SendError(job)) = self.jobs.send(Job { unit, runtime, alive }) {
            // The thread outlives this sender unless the process is ending.
            job.runtime.spawn(job.unit);
        }
    }

    /// What ends with the runtime: a task that waits until nobody listens any more.
    fn alive(&self, runtime: &Handle) -> watch::Receiver<()> {
        let mut runtimes = self.runtimes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, alive)) = runtimes.iter().find(|(id, _)| *id == runtime.id()) {
            return alive.clone();
        }
        runtimes.retain(|(_, alive)| alive.has_changed().is_ok());
        let (sender, alive) = watch::channel(());
        runtime.spawn(async move { sender.closed().await });
        runtimes.push((runtime.id(), alive.clone()));
        alive
    }
}

/// Runs a unit to its end, or to the end of its runtime: then it is dropped, and its transaction rolled
/// back, as a task of that runtime would be.
fn run(job: Job) {
    let Job { unit, runtime, mut alive } = job;
    let ended = catch_unwind(AssertUnwindSafe(|| {
        runtime.block_on(async {
            let runtime_ended = pin!(async { while alive.changed().await.is_ok() {} });
            if let Either::Right((_, unit)) = select(unit, runtime_ended).await {
                drop(unit);
                tracing::debug!("a unit of work was dropped because its runtime has ended");
            }
        });
    }));
    if let Err(panic) = ended {
        let text = panic
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
            .unwrap_or("no text");
        tracing::error!("a unit of work panicked and was rolled back: {text}");
    }
}
