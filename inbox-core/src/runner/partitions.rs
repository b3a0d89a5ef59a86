//! Which partitions are ours, and which are being handed over.

use crate::{Partition, Revocation};
use std::collections::HashMap;
use tokio::time::Instant;

/// Open deliveries by partition, and revocations that wait for them.
#[derive(Debug, Default)]
pub(crate) struct Partitions {
    open: HashMap<Partition, State>,
    revoking: Vec<Revocation>,
}

#[derive(Debug, Default)]
struct State {
    /// Raised whenever the partition is taken away: deliveries from before are not handled any more.
    epoch: u64,
    /// Deliveries that lanes are working on.
    in_lanes: usize,
}

impl Partitions {
    fn state(&mut self, partition: &Partition) -> &mut State {
        if !self.open.contains_key(partition) {
            self.open.insert(partition.clone(), State::default());
        }
        // Just put there when it was missing.
        self.open.get_mut(partition).unwrap_or_else(|| unreachable!("the partition was just inserted"))
    }

    /// The epoch that a new delivery belongs to.
    pub(crate) fn epoch(&mut self, partition: &Partition) -> u64 {
        self.state(partition).epoch
    }

    /// Whether a delivery of this epoch is still ours.
    pub(crate) fn is_current(&self, partition: &Partition, epoch: u64) -> bool {
        self.open.get(partition).is_some_and(|state| state.epoch == epoch)
    }

    /// Lanes began, or ended, with so many deliveries of a partition.
    pub(crate) fn lanes_began(&mut self, partition: &Partition) {
        self.state(partition).in_lanes += 1;
    }

    /// A lane has ended with a delivery.
    pub(crate) fn lanes_ended(&mut self, partition: &Partition) {
        let state = self.state(partition);
        state.in_lanes = state.in_lanes.saturating_sub(1);
    }

    /// They are taken away: what is queued of them is not ours any more.
    pub(crate) fn take_away(&mut self, partitions: &[Partition]) {
        for partition in partitions {
            self.state(partition).epoch += 1;
        }
    }

    /// Hands over as soon as no lane works on them.
    pub(crate) fn revoke(&mut self, revocation: Revocation) {
        self.take_away(revocation.partitions());
        self.revoking.push(revocation);
        self.hand_over(None);
    }

    /// Lets revocations go that wait for nothing, or whose time is over.
    pub(crate) fn hand_over(&mut self, now: Option<Instant>) {
        let Self { open, revoking } = self;
        revoking.retain(|revocation| {
            let is_over = now.is_some_and(|now| now >= revocation.deadline());
            let is_open = |p: &Partition| open.get(p).is_some_and(|state| state.in_lanes > 0);
            !is_over && revocation.partitions().iter().any(is_open)
        });
    }

    /// When the next revocation runs out.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.revoking.iter().map(Revocation::deadline).min()
    }
}
