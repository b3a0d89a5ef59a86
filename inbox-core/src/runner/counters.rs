//! What a run has done so far.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Live counts of a run. Deliveries are counted when they are finished, each once.
        #[derive(Debug, Default)]
        pub struct Counters { $(pub(crate) $name: AtomicU64,)* }

        /// Counts of a run at one moment.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Summary { $($(#[$doc])* pub $name: u64,)* }

        impl Counters {
            /// Reads all counts.
            pub fn read(&self) -> Summary {
                Summary { $($name: self.$name.load(Relaxed),)* }
            }
        }
    };
}

counters! {
    /// Deliveries that came from the broker.
    received,
    /// Deliveries whose effect was committed.
    applied,
    /// Deliveries that were found applied (or stored, or parked) already.
    duplicates,
    /// Deliveries whose id was claimed for other content.
    conflicts,
    /// Deliveries that became a letter, or were found to be one.
    dead_letters,
    /// Deliveries that were kept in their inbox rows.
    stored,
    /// Kept messages whose attempt failed: they stay in their rows and are tried again later.
    deferred,
    /// Deliveries that were acknowledged before any work and not handled (*at most once*).
    dropped,
    /// Deliveries of ignored types.
    ignored,
    /// Attempts of handlers that failed.
    failed_attempts,
    /// Times that a claim was held by an undecided transaction.
    busy,
    /// Deliveries that were given back, or dropped because their partition was taken away.
    released,
    /// Settlements of deliveries from before a rebalance or reconnect, which changed nothing.
    stale,
    /// Settlements that failed; the message comes again and is found.
    failed_settlements,
    /// Times that the store was found to be out of reach.
    outages,
    /// Commits whose reply was lost.
    doubts,
    /// Starts of suspects, handled alone and marked before.
    suspects,
    /// Transactions that were committed.
    commits,
}

impl Counters {
    pub(crate) fn add(counter: &AtomicU64, by: u64) {
        counter.fetch_add(by, Relaxed);
    }
}
