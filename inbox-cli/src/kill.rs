//! Ends the process with SIGKILL at a chosen probe point, for the tests of real crashes. Compiled only
//! with the feature `probe-kill`, which no release has.

use crate::error::CliError;
use async_trait::async_trait;
use inbox_core::{Message, Probe, ProbePoint};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Names the point and the passage at which to end: `committed:17`.
const VARIABLE: &str = "INBOX_KILL_AT";

/// Kills at the n-th passage of a point.
pub(crate) struct KillAt {
    point: ProbePoint,
    passages_left: AtomicU64,
}

impl KillAt {
    /// What the environment asks for.
    pub(crate) fn from_environment() -> Result<Option<Self>, CliError> {
        let Ok(text) = std::env::var(VARIABLE) else { return Ok(None) };
        let parsed = text.split_once(':').and_then(|(name, passage)| {
            let point = ProbePoint::ALL.into_iter().find(|point| point.name() == name)?;
            Some(Self { point, passages_left: AtomicU64::new(passage.parse().ok()?) })
        });
        parsed.map(Some).ok_or_else(|| CliError::usage(format!("{VARIABLE}={text} is not POINT:PASSAGE")))
    }
}

#[async_trait]
impl Probe for KillAt {
    async fn reached(&self, point: ProbePoint, _: Option<&Message>) {
        if point == self.point && self.passages_left.fetch_sub(1, Relaxed) == 1 {
            // A signal to oneself; if it could not be sent, the test would see a process that goes on.
            let _sent =
                rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
            std::future::pending::<()>().await;
        }
    }
}
