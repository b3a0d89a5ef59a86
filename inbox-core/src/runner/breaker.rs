//! The breaker: when distinct messages keep failing, it is not the messages.

use std::{
    collections::HashSet,
    num::NonZeroUsize,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

/// Counts distinct messages that fail in a row. While it is open nothing is taken in, one message is tried
/// at a time, and failing costs none of them an attempt.
#[derive(Debug, Default)]
pub(crate) struct Breaker {
    /// It opens when so many have failed; without it never.
    after: Option<NonZeroUsize>,
    failing: Mutex<HashSet<u64>>,
    /// How many are failing: looked at after every commit, so without the lock.
    count: AtomicUsize,
    is_open: AtomicBool,
}

impl Breaker {
    pub(crate) fn new(after: Option<NonZeroUsize>) -> Self {
        Self { after, ..Self::default() }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Acquire)
    }

    /// The message with this number has failed. Tells whether the breaker is open now.
    pub(crate) fn failed(&self, number: u64) -> bool {
        let Some(after) = self.after else { return false };
        let mut failing = self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        if failing.len() < after.get() {
            failing.insert(number);
            self.count.store(failing.len(), Ordering::Release);
        }
        let is_open = failing.len() >= after.get();
        if is_open && !self.is_open.swap(true, Ordering::AcqRel) {
            tracing::warn!(target: "inbox", messages = failing.len(), "breaker opened");
        }
        is_open
    }

    /// A message was applied.
    pub(crate) fn succeeded(&self) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        self.failing.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.count.store(0, Ordering::Release);
        if self.is_open.swap(false, Ordering::AcqRel) {
            tracing::info!(target: "inbox", "breaker closed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_opens_after_distinct_failures_in_a_row_and_closes_with_a_success() {
        let breaker = Breaker::new(NonZeroUsize::new(3));
        assert!(!breaker.failed(1));
        assert!(!breaker.failed(1), "the same one again is one");
        assert!(!breaker.failed(2));
        breaker.succeeded();
        assert!(!breaker.failed(3));
        assert!(!breaker.failed(4));
        assert!(!breaker.is_open());
        assert!(breaker.failed(5));
        assert!(breaker.is_open());
        assert!(breaker.failed(5));
        breaker.succeeded();
        assert!(!breaker.is_open());
        assert!(!breaker.failed(6));
    }

    #[test]
    fn without_a_bound_it_never_opens() {
        let breaker = Breaker::new(None);
        assert!((0..10_000).all(|number| !breaker.failed(number)));
        assert!(!breaker.is_open());
    }
}
