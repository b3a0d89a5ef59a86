//! Checkpoints beside inbox rows: how far each partition is finished.

use crate::{
    Checkpoint, CheckpointMove, Fingerprint, Message, MoveRule, Partition, Passed, RecordMark, Ticket,
    Watermark,
};
use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// The watermarks of a run. Locked once per unit of work, not per message.
#[derive(Debug)]
pub(crate) struct Progress {
    inner: Mutex<Inner>,
    span_max: usize,
}

#[derive(Debug, Default)]
struct Inner {
    index: HashMap<Partition, usize>,
    parts: Vec<Part>,
}

#[derive(Debug)]
struct Part {
    partition: Partition,
    mark: Watermark<RecordMark>,
    /// The highest position that a committed transaction wrote.
    written: u64,
    /// It was taken away: what is still open there is not waited for. It counts until then.
    is_away: bool,
    /// A delivery could not enter: the checkpoint stays where it is until the partition begins anew.
    is_stuck: bool,
}

/// Names a delivery to the watermark of its partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    part: usize,
    ticket: Ticket,
}

/// Positions to be written by one transaction, to be confirmed after its commit.
#[derive(Debug, Default)]
pub(crate) struct Moves {
    pub(crate) moves: Vec<CheckpointMove>,
    parts: Vec<(usize, u64)>,
}

impl Progress {
    pub(crate) fn new(span_max: usize) -> Self {
        Self { inner: Mutex::default(), span_max }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a partition anew, behind `checkpoint`.
    pub(crate) fn begin(&self, partition: &Partition, checkpoint: Option<&Checkpoint>) {
        let mut inner = self.lock();
        let index = inner.part(partition, self.span_max);
        let part = &mut inner.parts[index];
        part.mark.restart();
        part.written = checkpoint.map_or(0, |c| c.next);
        part.is_away = false;
        part.is_stuck = false;
    }

    /// A delivery enters the watermark of its partition. When it cannot, the watermark must not pass
    /// it: the partition's checkpoint is not moved any more, and a restart begins before it.
    pub(crate) fn enter(&self, message: &Message) -> Option<Place> {
        let position = message.position()?;
        let note = RecordMark {
            at: position.at,
            digest: match message.fingerprint() {
                payload if payload.version() == Fingerprint::VERSION_PAYLOAD => payload,
                _ => Fingerprint::of_payload(message.payload().map(|p| &**p)),
            },
            timestamp_ms: message.timestamp_ms(),
        };
        let mut inner = self.lock();
        let part = inner.part(message.partition(), self.span_max);
        match inner.parts[part].mark.enter(position.at, position.next, note) {
            Ok(ticket) => Some(Place { part, ticket }),
            Err(error) => {
                tracing::warn!(target: "inbox", partition = %message.partition(), %error, "checkpoint is stuck");
                inner.parts[part].is_stuck = true;
                None
            }
        }
    }

    /// Partitions are taken away. What lanes still finish of them counts; what they were waiting for
    /// may never be finished, and must not hold up the others.
    pub(crate) fn take_away(&self, partitions: &[Partition]) {
        let mut inner = self.lock();
        for partition in partitions {
            let index = inner.part(partition, self.span_max);
            inner.parts[index].is_away = true;
        }
    }

    /// How many deliveries may come from any one partition, but for those whose watermark is full.
    pub(crate) fn room(&self) -> (usize, Vec<Partition>) {
        let inner = self.lock();
        let (full, free): (Vec<&Part>, Vec<&Part>) = inner
            .parts
            .iter()
            .filter(|part| !part.is_away)
            .partition(|part| part.mark.span() >= self.span_max);
        let room = free.iter().map(|part| self.span_max - part.mark.span()).min();
        // Where no known partition has room, nothing is asked for: not every broker looks at the list.
        let room = room.unwrap_or(if full.is_empty() { self.span_max } else { 0 });
        (room, full.into_iter().map(|part| part.partition.clone()).collect())
    }

    /// Deliveries are finished.
    pub(crate) fn finish(&self, places: impl IntoIterator<Item = Place>) {
        let mut inner = self.lock();
        for place in places {
            inner.parts[place.part].mark.finish(place.ticket);
        }
    }

    /// What a transaction that finishes these deliveries has to write.
    pub(crate) fn moves_if(&self, places: &[Place]) -> Moves {
        let inner = self.lock();
        let mut moves = Moves::default();
        for (index, part) in inner.parts.iter().enumerate() {
            let tickets: Vec<Ticket> = places.iter().filter(|p| p.part == index).map(|p| p.ticket).collect();
            let Some(Passed { next, note }) = part.mark.passed_if(&tickets) else { continue };
            if next > part.written && !part.is_stuck {
                moves.moves.push(CheckpointMove {
                    partition: part.partition.clone(),
                    rule: MoveRule::Forward,
                    to: Checkpoint::new(next, 0, Some(note)),
                });
                moves.parts.push((index, next));
            }
        }
        moves
    }

    /// The transaction that wrote them is committed.
    pub(crate) fn written(&self, moves: &Moves) {
        let mut inner = self.lock();
        for &(index, next) in &moves.parts {
            let written = &mut inner.parts[index].written;
            *written = next.max(*written);
        }
    }
}

impl Inner {
    fn part(&mut self, partition: &Partition, span_max: usize) -> usize {
        if let Some(&index) = self.index.get(partition) {
            return index;
        }
        self.parts.push(Part {
            partition: partition.clone(),
            mark: Watermark::new(span_max),
            written: 0,
            is_away: false,
            is_stuck: false,
        });
        self.index.insert(partition.clone(), self.parts.len() - 1);
        self.parts.len() - 1
    }
}
