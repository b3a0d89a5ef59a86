//! What kind of broker the fake one is.

use super::Chaos;
use inbox_core::{AckStrength, Capabilities, Order, Source};
use std::time::Duration;

/// Which kind of broker is imitated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// A queue: every delivery is acknowledged for itself, several consumers compete.
    Queue,
    /// A log: records have positions, acknowledgements are cumulative per partition, one consumer owns
    /// all partitions and a new one takes them over.
    Log {
        /// Whether partitions come with `Assigned`, and are revoked and lost as scripted.
        rebalances: bool,
    },
}

/// When a consumer is told that the source has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// When nothing is left to deliver and nothing delivered is unsettled: a run ends by itself.
    WhenSettled,
    /// Only on [`FakeQueue::end`](super::FakeQueue::end).
    OnDemand,
}

/// How a log takes acknowledgements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cumulative {
    /// Up to the lowest unfinished record, as it must be.
    Lowest,
    /// Up to the record acknowledged: a planted fault that loses what is unfinished below it.
    PlantedHighest,
}

/// The settings of a [`FakeQueue`](super::FakeQueue).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct FakeOptions {
    /// The name of the source.
    pub source: Source,
    /// Queue or log.
    pub mode: Mode,
    /// When it ends.
    pub end: End,
    /// At most this many deliveries with one answer, whatever the credit.
    pub deliveries_max: usize,
    /// After this time an unsettled delivery comes again, as with a visibility time-out; its old
    /// receipt is stale. Without it a settlement that gets lost is made up for only by the next consumer.
    pub redeliver_after: Option<Duration>,
    /// Whether deliveries are counted.
    pub counts_deliveries: bool,
    /// What an acknowledgement is worth. With `Checkpoint` a log keeps no position for its group and
    /// begins at the start unless the assignment says where.
    pub ack: AckStrength,
    /// A rebalance in the middle of a log that has them: once so many deliveries were handed over, all
    /// partitions are revoked, the broker waits so long for the consumer, and they are assigned again.
    pub revoke_after: Option<(u64, Duration)>,
    /// The distance between positions in a log: offsets may have gaps.
    pub position_step: u64,
    /// How a log takes acknowledgements.
    pub cumulative: Cumulative,
    /// Seeded trouble.
    pub chaos: Option<Chaos>,
}

impl FakeOptions {
    /// A queue that ends when all is settled.
    pub fn queue() -> Self {
        Self {
            source: Source::new("fake"),
            mode: Mode::Queue,
            end: End::WhenSettled,
            deliveries_max: usize::MAX,
            redeliver_after: Some(Duration::from_secs(600)),
            counts_deliveries: false,
            ack: AckStrength::Confirmed,
            revoke_after: None,
            position_step: 1,
            cumulative: Cumulative::Lowest,
            chaos: None,
        }
    }

    /// A log without rebalances that ends when all is settled.
    pub fn log() -> Self {
        Self { mode: Mode::Log { rebalances: false }, ..Self::queue() }
    }

    /// A log with rebalances that ends when all is settled.
    pub fn rebalancing_log() -> Self {
        Self::log().mode(Mode::Log { rebalances: true })
    }

    /// Plans a rebalance in the middle.
    #[must_use]
    pub fn revoke_after(self, deliveries: u64, wait: Duration) -> Self {
        Self { revoke_after: Some((deliveries, wait)), ..self }
    }

    /// Sets the mode.
    #[must_use]
    pub fn mode(self, mode: Mode) -> Self {
        Self { mode, ..self }
    }

    /// Sets when it ends.
    #[must_use]
    pub fn end(self, end: End) -> Self {
        Self { end, ..self }
    }

    /// Sets how many deliveries come with one answer at most.
    #[must_use]
    pub fn deliveries_max(self, deliveries_max: usize) -> Self {
        Self { deliveries_max, ..self }
    }

    /// Sets after what time an unsettled delivery comes again.
    #[must_use]
    pub fn redeliver_after(self, redeliver_after: Option<Duration>) -> Self {
        Self { redeliver_after, ..self }
    }

    /// Sets whether deliveries are counted.
    #[must_use]
    pub fn counts_deliveries(self, counts_deliveries: bool) -> Self {
        Self { counts_deliveries, ..self }
    }

    /// Sets what an acknowledgement is worth.
    #[must_use]
    pub fn ack(self, ack: AckStrength) -> Self {
        Self { ack, ..self }
    }

    /// Sets the distance between positions; 0 counts as 1.
    #[must_use]
    pub fn position_step(self, step: u64) -> Self {
        Self { position_step: step.max(1), ..self }
    }

    /// Sets how a log takes acknowledgements.
    #[must_use]
    pub fn cumulative(self, cumulative: Cumulative) -> Self {
        Self { cumulative, ..self }
    }

    /// Adds seeded trouble.
    #[must_use]
    pub fn chaos(self, chaos: Chaos) -> Self {
        Self { chaos: Some(chaos), ..self }
    }

    pub(super) fn capabilities(&self) -> Capabilities {
        let reorders = self.chaos.as_ref().is_some_and(|chaos| chaos.reorder > 0.0);
        let (positional, rebalances) = match self.mode {
            Mode::Queue => (false, false),
            Mode::Log { rebalances } => (true, rebalances),
        };
        Capabilities::new(self.ack)
            .order(if reorders && !positional { Order::None } else { Order::Partition })
            .positional(positional)
            .rebalances(rebalances)
            .counts_deliveries(self.counts_deliveries)
    }
}
