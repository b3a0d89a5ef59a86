//! What waits in a queue.

use std::collections::BTreeMap;

/// Indexes of records by their place in the queue. A returned one takes its old place.
#[derive(Debug, Default)]
pub(super) struct Ready {
    waiting: BTreeMap<u64, usize>,
    next_place: u64,
}

impl Ready {
    pub(super) fn push(&mut self, record: usize) {
        self.waiting.insert(self.next_place, record);
        self.next_place += 1;
    }

    pub(super) fn put_back(&mut self, place: u64, record: usize) {
        self.waiting.insert(place, record);
    }

    pub(super) fn remove(&mut self, place: u64) {
        self.waiting.remove(&place);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, usize)> {
        self.waiting.iter().map(|(&place, &record)| (place, record))
    }

    pub(super) fn shuffle(&mut self, rng: &mut fastrand::Rng) {
        let mut records: Vec<usize> = self.waiting.values().copied().collect();
        rng.shuffle(&mut records);
        self.waiting.values_mut().zip(records).for_each(|(slot, record)| *slot = record);
    }
}
