//! Running cases: bounded in time, one runtime each.

use std::{
    fmt,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    time::Duration,
};
use tokio::{runtime::Builder, time::timeout};

/// No case takes this long; what does hangs.
const CASE_MAX: Duration = Duration::from_secs(120);

/// Which time a case runs in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// Several threads and the time of the wall: for whatever has threads or sockets of its own.
    Real,
    /// One thread and paused time, which jumps when nothing else is left to do.
    Paused,
}

type Run<H> = for<'h> fn(&'h H) -> Pin<Box<dyn Future<Output = ()> + 'h>>;

/// One case of a suite.
pub struct Case<H> {
    name: &'static str,
    run: Run<H>,
}

impl<H> Case<H> {
    #[doc(hidden)]
    pub fn new(name: &'static str, run: Run<H>) -> Self {
        Self { name, run }
    }

    /// What it is called in the contract.
    pub fn name(&self) -> &'static str {
        self.name
    }
}

impl<H> fmt::Debug for Case<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Case({})", self.name)
    }
}

/// A case that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// Its name.
    pub case: &'static str,
    /// What it said.
    pub why: String,
}

/// Runs a case on a runtime of its own.
///
/// # Panics
/// When it fails, or hangs.
pub fn run(pace: Pace, case: impl Future<Output = ()>) {
    let runtime = match pace {
        Pace::Real => Builder::new_multi_thread().worker_threads(2).enable_all().build(),
        Pace::Paused => Builder::new_current_thread().enable_time().start_paused(true).build(),
    };
    let runtime = runtime.expect("a runtime can be made");
    let ended = runtime.block_on(async { timeout(CASE_MAX, case).await });
    assert!(ended.is_ok(), "the case hangs: not done after {} s", CASE_MAX.as_secs());
}

/// Runs every case on a harness of its own and tells which failed.
pub fn failing<H, M: Future<Output = H>>(
    pace: Pace,
    cases: &[Case<H>],
    make_harness: impl Fn() -> M,
) -> Vec<Failed> {
    let mut failed = Vec::new();
    for case in cases {
        let attempt = || {
            run(pace, async {
                let harness = make_harness().await;
                (case.run)(&harness).await;
            });
        };
        // Nothing of a failed attempt is looked at again.
        if let Err(payload) = catch_unwind(AssertUnwindSafe(attempt)) {
            let text = payload.downcast_ref::<String>().map(String::as_str);
            let why = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("it panicked");
            failed.push(Failed { case: case.name, why: why.to_owned() });
        }
    }
    failed
}
