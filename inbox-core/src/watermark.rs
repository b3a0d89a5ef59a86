//! The point below which every delivery of a partition is finished.

use crate::mutant::{self, Mutant};
use std::collections::VecDeque;

/// Tracks one partition or channel: deliveries enter in order and finish in any order.
///
/// It runs over *delivered* positions, so gaps between them do not matter, and it carries an epoch, so
/// that a completion from before a rebalance or reconnect changes nothing. `T` is kept with each
/// delivery until the point has passed it.
#[derive(Debug)]
pub struct Watermark<T> {
    epoch: u64,
    /// The number, in this epoch, of the first entry in `open`.
    first: u64,
    open: VecDeque<Entry<T>>,
    /// The last delivery that the point has passed.
    passed: Option<Passed<T>>,
    last_at: Option<u64>,
    span_max: usize,
}

#[derive(Debug)]
struct Entry<T> {
    next: u64,
    done: bool,
    note: Option<T>,
}

/// The last delivery below the point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passed<T> {
    /// Where reading goes on.
    pub next: u64,
    /// What was kept with it.
    pub note: T,
}

/// Names a delivery to the watermark it entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ticket {
    epoch: u64,
    number: u64,
}

/// Why a delivery cannot enter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WatermarkError {
    /// As many deliveries as are allowed are between the lowest unfinished one and this one.
    #[error("{span_max} deliveries are open behind an unfinished one")]
    Full {
        /// The bound.
        span_max: usize,
    },
    /// It does not come after the ones before it.
    #[error("position {at} does not come after {last}")]
    OutOfOrder {
        /// The position of the refused delivery.
        at: u64,
        /// The one before.
        last: u64,
    },
}

impl<T> Watermark<T> {
    /// An empty one that lets at most `span_max` deliveries be open or finished ahead of the point.
    pub fn new(span_max: usize) -> Self {
        Self { epoch: 0, first: 0, open: VecDeque::new(), passed: None, last_at: None, span_max }
    }

    /// Begins a new epoch: everything open is forgotten, tickets from before mean nothing.
    pub fn restart(&mut self) {
        self.epoch += 1;
        self.first = 0;
        self.open.clear();
        self.passed = None;
        self.last_at = None;
    }

    /// The number of [`restart`](Self::restart)s so far.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// A delivery that begins at `at` and behind which reading would go on at `next`.
    ///
    /// # Errors
    /// [`WatermarkError`] when the span is full or `at` does not rise.
    pub fn enter(&mut self, at: u64, next: u64, note: T) -> Result<Ticket, WatermarkError> {
        if self.open.len() >= self.span_max {
            return Err(WatermarkError::Full { span_max: self.span_max });
        }
        if let Some(last) = self.last_at.filter(|&last| at <= last) {
            return Err(WatermarkError::OutOfOrder { at, last });
        }
        self.last_at = Some(at);
        self.open.push_back(Entry { next, done: false, note: Some(note) });
        Ok(Ticket { epoch: self.epoch, number: self.first + self.open.len() as u64 - 1 })
    }

    fn index(&self, ticket: Ticket) -> Option<usize> {
        if ticket.epoch != self.epoch {
            return None;
        }
        let index = usize::try_from(ticket.number.checked_sub(self.first)?).ok()?;
        (index < self.open.len()).then_some(index)
    }

    /// Finishes a delivery. Tells whether the point moved; a ticket from another epoch, or one that
    /// was finished before, changes nothing.
    pub fn finish(&mut self, ticket: Ticket) -> bool {
        let Some(index) = self.index(ticket) else { return false };
        self.open[index].done = true;
        let mut moved = false;
        while self.open.front().is_some_and(|entry| entry.done) {
            if let Some(Entry { next, note: Some(note), .. }) = self.open.pop_front() {
                self.passed = Some(Passed { next, note });
            }
            self.first += 1;
            moved = true;
        }
        moved
    }

    /// The last delivery below the point; `None` before the first one is passed in this epoch.
    pub fn passed(&self) -> Option<&Passed<T>> {
        self.passed.as_ref()
    }

    /// How many deliveries are open, or finished behind an open one.
    pub fn span(&self) -> usize {
        self.open.len()
    }
}

impl<T: Clone> Watermark<T> {
    /// Where the point would be if these were finished too. Nothing is changed.
    pub fn passed_if(&self, finished: &[Ticket]) -> Option<Passed<T>> {
        let mut also: Vec<usize> = finished.iter().filter_map(|&ticket| self.index(ticket)).collect();
        also.sort_unstable();
        let mut also = also.into_iter().peekable();
        let mut last = None;
        for (index, entry) in self.open.iter().enumerate() {
            while also.next_if(|&a| a < index).is_some() {}
            let is_passed = entry.done || also.peek() == Some(&index) || mutant::is(Mutant::PassesUnfinished);
            if !is_passed {
                break;
            }
            last = Some(entry);
        }
        match last {
            Some(Entry { next, note: Some(note), .. }) => Some(Passed { next: *next, note: note.clone() }),
            _ => self.passed.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_point_waits_for_the_lowest() {
        let mut mark = Watermark::new(10);
        let tickets: Vec<_> = [3, 7, 20].iter().map(|&at| mark.enter(at, at + 1, at).unwrap()).collect();
        assert!(!mark.finish(tickets[1]));
        assert!(!mark.finish(tickets[2]));
        assert_eq!(mark.passed(), None);
        assert_eq!(mark.passed_if(&tickets[..1]).unwrap().next, 21);
        assert!(mark.finish(tickets[0]));
        assert_eq!(mark.passed(), Some(&Passed { next: 21, note: 20 }));
        assert_eq!(mark.span(), 0);
    }

    #[test]
    fn a_batch_is_foreseen_as_if_it_were_finished() {
        let mut mark = Watermark::new(10);
        let tickets: Vec<_> = (0..5).map(|at| mark.enter(at, at + 1, at).unwrap()).collect();
        mark.finish(tickets[2]);
        // In no order, one of them twice and one that is finished already.
        let batch = [3, 1, 2, 0, 1].map(|n: usize| tickets[n]);
        let foreseen = mark.passed_if(&batch);
        assert_eq!((foreseen, mark.passed()), (Some(Passed { next: 4, note: 3 }), None));
        batch.iter().for_each(|&ticket| _ = mark.finish(ticket));
        assert_eq!(mark.passed(), foreseen.as_ref());
    }

    #[test]
    fn an_old_epoch_changes_nothing() {
        let mut mark = Watermark::new(10);
        let old = mark.enter(0, 1, ()).unwrap();
        mark.restart();
        let new = mark.enter(0, 1, ()).unwrap();
        assert_eq!(mark.passed_if(&[old]), None);
        assert!(!mark.finish(old));
        assert_eq!(mark.passed(), None);
        assert!(mark.finish(new));
        assert!(!mark.finish(new));
    }

    #[test]
    fn an_epoch_begins_with_each_restart_and_with_nothing_passed() {
        let mut mark = Watermark::new(10);
        let first = mark.enter(7, 8, ()).unwrap();
        assert!(mark.finish(first));
        for epoch in 0..3 {
            assert_eq!(mark.epoch(), epoch);
            mark.restart();
            assert_eq!((mark.passed(), mark.span()), (None, 0));
        }
        assert!(mark.enter(0, 1, ()).is_ok());
    }

    #[test]
    fn a_ticket_that_it_never_gave_changes_nothing() {
        let (mut mark, mut other) = (Watermark::new(10), Watermark::new(10));
        let own = mark.enter(0, 1, ()).unwrap();
        other.enter(0, 1, ()).unwrap();
        let foreign = other.enter(1, 2, ()).unwrap();
        assert!(!mark.finish(foreign));
        assert_eq!(mark.passed_if(&[foreign]), None);
        assert!(mark.finish(own));
    }

    #[test]
    fn the_span_is_bounded_and_positions_rise() {
        let mut mark = Watermark::new(2);
        let first = mark.enter(5, 6, ()).unwrap();
        assert_eq!(mark.enter(5, 6, ()), Err(WatermarkError::OutOfOrder { at: 5, last: 5 }));
        mark.enter(6, 7, ()).unwrap();
        assert_eq!(mark.enter(7, 8, ()), Err(WatermarkError::Full { span_max: 2 }));
        mark.finish(first);
        assert!(mark.enter(7, 8, ()).is_ok());
    }

    proptest! {
        /// Against the plain definition: the point is behind the longest finished prefix.
        #[test]
        fn it_is_the_longest_finished_prefix(
            gaps in proptest::collection::vec(1u64..5, 1..40),
            order in proptest::collection::vec(any::<prop::sample::Index>(), 0..60),
        ) {
            let mut mark = Watermark::new(100);
            let mut at = 0;
            let mut model: Vec<(u64, bool)> = Vec::new();
            let mut tickets = Vec::new();
            for gap in gaps {
                at += gap;
                tickets.push(mark.enter(at, at + 1, at).unwrap());
                model.push((at, false));
            }
            for pick in order {
                let i = pick.index(tickets.len());
                let expected = |model: &[(u64, bool)]| model.iter().take_while(|e| e.1).last().map(|e| e.0);
                let before = expected(&model);
                model[i].1 = true;
                let foreseen = mark.passed_if(&[tickets[i]]).map(|p| p.note);
                let moved = mark.finish(tickets[i]);
                prop_assert_eq!(mark.passed().map(|p| p.note), expected(&model));
                prop_assert_eq!(foreseen, expected(&model));
                prop_assert_eq!(moved, before != expected(&model));
            }
        }
    }
}
