//! One life of a process: a runtime of its own, dropped with everything in it.

use super::CrashPlan;
use std::{future::Future, io, time::Duration};
use tokio::time::sleep;

/// How a life ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Life<T> {
    /// By itself, with this result.
    Ended(T),
    /// The plan crashed it.
    Crashed,
    /// Nothing more would ever have happened: after so long in paused time it had not ended.
    Stuck,
}

/// Lives longer than this, in paused time, are stuck. Every time-out and back-off of a run is shorter.
const LIFE_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// Runs `run` on one thread with paused time until it ends or `plan` crashes it, then drops the whole
/// runtime: tasks, open transactions and consumers with it. Broker and database states stay, when they
/// were made outside.
///
/// # Errors
/// When no runtime can be made.
pub fn live<F: Future>(plan: &CrashPlan, run: F) -> io::Result<Life<F::Output>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    let life = runtime.block_on(async {
        tokio::select! {
            biased;
            () = plan.crashed() => Life::Crashed,
            result = run => Life::Ended(result),
            // Paused time jumps here only when nothing else is left to wait for.
            () = sleep(LIFE_MAX) => Life::Stuck,
        }
    });
    drop(runtime);
    // What ended in the moment of the crash was dead already.
    Ok(if plan.is_crashed() { Life::Crashed } else { life })
}
