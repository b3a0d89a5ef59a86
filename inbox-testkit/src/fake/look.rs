//! Looking at a fake broker from outside.

use super::{
    log::LogPartition,
    state::{FakeQueueState, Place},
};
use std::collections::HashSet;

impl FakeQueueState {
    pub(super) fn is_settled(&self) -> bool {
        self.out.is_empty()
            && self.ready.is_empty()
            && self.log.partitions.values().all(LogPartition::is_finished)
    }

    pub(super) fn unsettled(&self) -> Vec<String> {
        let open = self.open_records();
        (0..self.records.len()).filter(|record| open.contains(record)).map(|r| self.id(r)).collect()
    }

    pub(super) fn covered(&self) -> Vec<String> {
        let open = self.open_records();
        let is_covered = |&record: &usize| {
            let entry = &self.records[record];
            !open.contains(&record) && !entry.acknowledged && !entry.skipped
        };
        (0..self.records.len()).filter(is_covered).map(|r| self.id(r)).collect()
    }

    pub(super) fn skipped(&self) -> Vec<String> {
        (0..self.records.len()).filter(|&r| self.records[r].skipped).map(|r| self.id(r)).collect()
    }

    /// Records that would still be delivered.
    fn open_records(&self) -> HashSet<usize> {
        let unfinished = |p: &LogPartition| p.records.get(p.committed..).unwrap_or_default().to_vec();
        let in_log = self.log.partitions.values().flat_map(unfinished);
        let in_queue = self.ready.iter().map(|(_, record)| record);
        // What is out in a log is beyond the group's position, or covered by a planted fault.
        let out = self.out.values().filter(|out| matches!(out.place, Place::Queue(_))).map(|out| out.record);
        in_queue.chain(in_log).chain(out).collect()
    }

    pub(super) fn deliveries(&self) -> Vec<(String, u32)> {
        (0..self.records.len()).map(|r| (self.id(r), self.records[r].deliveries)).collect()
    }

    pub(super) fn committed(&self, number: u32) -> Option<u64> {
        let partition = self.log.partitions.get(&number)?;
        let last = partition.committed.checked_sub(1).map(|index| partition.records[index]);
        Some(last.and_then(|record| self.records[record].inbound.position).map_or(0, |p| p.next))
    }

    fn id(&self, record: usize) -> String {
        self.records[record].inbound.native_id.as_deref().unwrap_or("-").to_owned()
    }
}
