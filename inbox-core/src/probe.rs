//! Named points that every transition passes, where tests crash, delay or fail a run.

use crate::Message;
use async_trait::async_trait;
use std::sync::Arc;

/// The points, in the order in which a message passes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ProbePoint {
    /// A delivery has come and has its identity.
    Received,
    /// A transaction is open.
    Begun,
    /// The claims of a unit of work are made, nothing else.
    Claimed,
    /// A handler is about to be started.
    HandlerStarting,
    /// A handler has ended well.
    Applied,
    /// Letters and conflicts of the unit are written, not committed.
    Recorded,
    /// About to commit.
    Committing,
    /// The commit was answered.
    Committed,
    /// A transaction was rolled back.
    RolledBack,
    /// About to settle.
    Settling,
    /// Settled.
    Settled,
}

impl ProbePoint {
    /// All points.
    pub const ALL: [Self; 11] = [
        Self::Received,
        Self::Begun,
        Self::Claimed,
        Self::HandlerStarting,
        Self::Applied,
        Self::Recorded,
        Self::Committing,
        Self::Committed,
        Self::RolledBack,
        Self::Settling,
        Self::Settled,
    ];

    /// The point's name, in snake case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Received => "received",
            Self::Begun => "begun",
            Self::Claimed => "claimed",
            Self::HandlerStarting => "handler_starting",
            Self::Applied => "applied",
            Self::Recorded => "recorded",
            Self::Committing => "committing",
            Self::Committed => "committed",
            Self::RolledBack => "rolled_back",
            Self::Settling => "settling",
            Self::Settled => "settled",
        }
    }
}

/// Passed at each [`ProbePoint`]. A probe may wait for ever (a crash drops the whole runtime) or end
/// the process. Without a probe the points cost one branch.
#[async_trait]
pub trait Probe: Send + Sync + 'static {
    /// The run has come to `point`; `message` is the one concerned, where it is a single one.
    async fn reached(&self, point: ProbePoint, message: Option<&Message>);
}

/// The probe of a run, if it has one.
#[derive(Clone, Default)]
pub(crate) struct Probes(pub(crate) Option<Arc<dyn Probe>>);

impl Probes {
    pub(crate) async fn reached(&self, point: ProbePoint, message: Option<&Message>) {
        if let Some(probe) = &self.0 {
            probe.reached(point, message).await;
        }
    }
}

impl std::fmt::Debug for Probes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "Probes(on)" } else { "Probes(off)" })
    }
}
