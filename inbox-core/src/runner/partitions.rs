//! Which partitions are ours, and which are being handed over.

use crate::{Partition, Revocation};
use std::collections::HashMap;
use tokio::time::Instant;

/// Names a partition inside a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PartitionIndex(usize);

/// Open deliveries by partition, and revocations that wait for them.
#[derive(Debug, Default)]
pub(crate) struct Partitions {
    index: HashMap<Partition, PartitionIndex>,
    states: Vec<State>,
    /// Deliveries come in runs of one partition: the last one is found without hashing its name.
    last: Option<(Partition, PartitionIndex)>,
    revoking: Vec<Revocation>,
}

#[derive(Debug, Default)]
struct State {
    /// Raised whenever the partition is taken away: deliveries from before are not handled any more.
    epoch: u64,
    /// Deliveries that lanes are working on.
    in_lanes: usize,
    /// Deliveries since the run began.
    delivered: u64,
}

impl Partitions {
    /// The partition's index, which stays the same for the whole run.
    pub(crate) fn index(&mut self, partition: &Partition) -> PartitionIndex {
        if let Some((_, index)) = self.last.as_ref().filter(|(last, _)| last == partition) {
            return *index;
        }
        let index = match self.index.get(partition) {
            Some(&index) => index,
            None => {
                self.states.push(State::default());
                let index = PartitionIndex(self.states.len() - 1);
                self.index.insert(partition.clone(), index);
                index
            }
        };
        self.last = Some((partition.clone(), index));
        index
    }

    /// The epoch that a new delivery belongs to.
    pub(crate) fn epoch(&self, index: PartitionIndex) -> u64 {
        self.states[index.0].epoch
    }

    /// Whether a delivery of this epoch is still ours.
    pub(crate) fn is_current(&self, index: PartitionIndex, epoch: u64) -> bool {
        self.states[index.0].epoch == epoch
    }

    /// A delivery of it has come: which one of this run it is, counted from one.
    pub(crate) fn delivered(&mut self, index: PartitionIndex) -> u64 {
        let state = &mut self.states[index.0];
        state.delivered += 1;
        state.delivered
    }

    /// A lane began with a delivery.
    pub(crate) fn lanes_began(&mut self, index: PartitionIndex) {
        self.states[index.0].in_lanes += 1;
    }

    /// A lane has ended with a delivery.
    pub(crate) fn lanes_ended(&mut self, index: PartitionIndex) {
        let state = &mut self.states[index.0];
        state.in_lanes = state.in_lanes.saturating_sub(1);
    }

    /// They are taken away: what is queued of them is not ours any more.
    pub(crate) fn take_away(&mut self, partitions: &[Partition]) {
        for partition in partitions {
            let index = self.index(partition);
            self.states[index.0].epoch += 1;
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
        let Self { index, states, revoking, .. } = self;
        revoking.retain(|revocation| {
            let is_over = now.is_some_and(|now| now >= revocation.deadline());
            let is_open = |p: &Partition| index.get(p).is_some_and(|index| states[index.0].in_lanes > 0);
            !is_over && revocation.partitions().iter().any(is_open)
        });
    }

    /// When the next revocation runs out.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.revoking.iter().map(Revocation::deadline).min()
    }
}
