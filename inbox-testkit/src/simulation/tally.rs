//! What happened in simulated runs, counted: a simulation in which nothing goes wrong proves nothing.

use crate::lock::lock;
use inbox_core::Summary;
use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex},
};

/// Counts by name. Clones count together.
#[derive(Debug, Clone, Default)]
pub struct Tally(Arc<Mutex<BTreeMap<&'static str, u64>>>);

impl Tally {
    /// Adds to a count.
    pub(super) fn add(&self, name: &'static str, by: u64) {
        *lock(&self.0).entry(name).or_default() += by;
    }

    /// Adds what a runner has counted.
    pub(super) fn add_summary(&self, summary: &Summary) {
        for (name, count) in [
            ("applied", summary.applied),
            ("duplicates", summary.duplicates),
            ("conflicts", summary.conflicts),
            ("dead letters", summary.dead_letters),
            ("failed attempts", summary.failed_attempts),
            ("busy", summary.busy),
            ("released", summary.released),
            ("stale", summary.stale),
            ("failed settlements", summary.failed_settlements),
            ("outages", summary.outages),
            ("doubts", summary.doubts),
            ("commits", summary.commits),
        ] {
            self.add(name, count);
        }
    }

    /// Adds all counts of another one.
    pub fn add_all(&self, other: &Self) {
        let other = lock(&other.0).clone();
        other.into_iter().for_each(|(name, count)| self.add(name, count));
    }

    /// A count; 0 when nothing of the name happened.
    pub fn get(&self, name: &str) -> u64 {
        lock(&self.0).get(name).copied().unwrap_or_default()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, count) in &*lock(&self.0) {
            writeln!(f, "{count:>12} {name}")?;
        }
        Ok(())
    }
}
