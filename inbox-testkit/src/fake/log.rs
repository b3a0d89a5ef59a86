//! The partitions of a log.

use inbox_core::{Position, Ticket, Watermark};
use std::collections::BTreeMap;

/// One partition: its records, how far the group has come, and what is under way.
#[derive(Debug)]
pub(super) struct LogPartition {
    /// Indexes of all records, in order.
    pub(super) records: Vec<usize>,
    /// How many records are finished, as the log keeps it for the group.
    pub(super) committed: usize,
    /// How many records are delivered.
    pub(super) read: usize,
    /// Whether it may deliver: it is assigned and the assignment was answered.
    pub(super) open: bool,
    mark: Watermark<usize>,
}

impl LogPartition {
    fn new(open: bool) -> Self {
        Self { records: Vec::new(), committed: 0, read: 0, open, mark: Watermark::new(usize::MAX) }
    }

    /// Reading begins again at the lowest unfinished record; receipts from before mean nothing.
    pub(super) fn rewind(&mut self) {
        self.read = self.committed;
        self.mark.restart();
    }

    /// Reading begins at a record that somebody else's books name.
    pub(super) fn begin_at(&mut self, index: usize) {
        self.committed = index.min(self.records.len());
        self.rewind();
    }

    /// The next record goes out.
    pub(super) fn deliver(&mut self, position: Position) -> Option<Ticket> {
        let ticket = self.mark.enter(position.at, position.next, self.read).ok()?;
        self.read += 1;
        Some(ticket)
    }

    /// A record is finished; tells whether the group's position moved.
    pub(super) fn finish(&mut self, ticket: Ticket) -> bool {
        let moved = self.mark.finish(ticket);
        if let Some(passed) = self.mark.passed() {
            // Never back: a planted fault may already be further.
            self.committed = self.committed.max(passed.note + 1);
        }
        moved
    }

    pub(super) fn is_finished(&self) -> bool {
        self.committed >= self.records.len()
    }
}

/// All partitions, by number.
#[derive(Debug, Default)]
pub(super) struct Log {
    pub(super) partitions: BTreeMap<u32, LogPartition>,
    /// The connection that owns them.
    pub(super) owner: Option<u64>,
}

impl Log {
    /// Adds a record and gives its index in the partition. A new partition is open when the log has no
    /// rebalances.
    pub(super) fn push(&mut self, number: u32, record: usize, open: bool) -> usize {
        let partition = self.partitions.entry(number).or_insert_with(|| LogPartition::new(open));
        partition.records.push(record);
        partition.records.len() - 1
    }
}
