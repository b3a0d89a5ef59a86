//! Counters and gauges through the `metrics` facade, with the feature `metrics`.
//!
//! | name | kind | labels | meaning |
//! |---|---|---|---|
//! | `inbox_deliveries_total` | counter | `group`, `outcome` | deliveries that are finished, by how |
//! | `inbox_failed_attempts_total` | counter | `group` | attempts of handlers that failed |
//! | `inbox_commits_total` | counter | `group` | transactions that were committed |
//! | `inbox_in_flight_messages` | gauge | `group` | deliveries taken in and not finished |
//! | `inbox_in_flight_bytes` | gauge | `group` | their payloads, keys and headers |
//! | `inbox_queued_messages` | gauge | `group` | those of them that wait for a lane |
//! | `inbox_suspended_messages` | gauge | `group` | those of them that wait for their next attempt |
//! | `inbox_busy_lanes` | gauge | `group` | lanes that run a unit of work |

use super::counters::Summary;

/// What the coordinator knows at a moment.
#[derive(Debug, Clone, Copy, Default)]
#[cfg_attr(not(feature = "metrics"), allow(dead_code))]
pub(crate) struct Level {
    pub(crate) in_flight: usize,
    pub(crate) bytes: usize,
    pub(crate) queued: usize,
    pub(crate) suspended: usize,
    pub(crate) busy_lanes: usize,
}

#[cfg(not(feature = "metrics"))]
pub(crate) struct Telemetry;

#[cfg(not(feature = "metrics"))]
impl Telemetry {
    pub(crate) const IS_ON: bool = false;

    pub(crate) fn new(_: &crate::Group) -> Self {
        Self
    }

    pub(crate) fn report(&mut self, _: Summary, _: Level) {}
}

#[cfg(feature = "metrics")]
pub(crate) use facade::Telemetry;

#[cfg(feature = "metrics")]
mod facade {
    use super::{Level, Summary};
    use crate::Group;
    use metrics::{Counter, Gauge, counter, gauge};

    /// How a count is read.
    type Read = fn(&Summary) -> u64;

    /// Handles that are looked up once per run.
    pub(crate) struct Telemetry {
        outcomes: [(Read, Counter); 8],
        failed_attempts: Counter,
        commits: Counter,
        /// What was reported before: counters go on where another run of the group has left them.
        reported: Summary,
        in_flight: Gauge,
        bytes: Gauge,
        queued: Gauge,
        suspended: Gauge,
        busy_lanes: Gauge,
    }

    impl Telemetry {
        pub(crate) const IS_ON: bool = true;

        pub(crate) fn new(group: &Group) -> Self {
            let group = || group.as_str().to_owned();
            let outcome = |name: &'static str| counter!("inbox_deliveries_total", "group" => group(), "outcome" => name);
            Self {
                outcomes: [
                    (|s: &Summary| s.applied, outcome("applied")),
                    (|s: &Summary| s.duplicates, outcome("duplicate")),
                    (|s: &Summary| s.conflicts, outcome("conflict")),
                    (|s: &Summary| s.dead_letters, outcome("dead_letter")),
                    (|s: &Summary| s.stored, outcome("stored")),
                    (|s: &Summary| s.ignored, outcome("ignored")),
                    (|s: &Summary| s.dropped, outcome("dropped")),
                    (|s: &Summary| s.released, outcome("released")),
                ],
                failed_attempts: counter!("inbox_failed_attempts_total", "group" => group()),
                commits: counter!("inbox_commits_total", "group" => group()),
                reported: Summary::default(),
                in_flight: gauge!("inbox_in_flight_messages", "group" => group()),
                bytes: gauge!("inbox_in_flight_bytes", "group" => group()),
                queued: gauge!("inbox_queued_messages", "group" => group()),
                suspended: gauge!("inbox_suspended_messages", "group" => group()),
                busy_lanes: gauge!("inbox_busy_lanes", "group" => group()),
            }
        }

        pub(crate) fn report(&mut self, summary: Summary, level: Level) {
            for (read, counter) in &self.outcomes {
                counter.increment(read(&summary) - read(&self.reported));
            }
            self.failed_attempts.increment(summary.failed_attempts - self.reported.failed_attempts);
            self.commits.increment(summary.commits - self.reported.commits);
            self.reported = summary;
            // Levels are far below 2^53, where a float still counts in ones.
            self.in_flight.set(level.in_flight as f64);
            self.bytes.set(level.bytes as f64);
            self.queued.set(level.queued as f64);
            self.suspended.set(level.suspended as f64);
            self.busy_lanes.set(level.busy_lanes as f64);
        }
    }
}
