//! Queues per ordering key, from which lanes take what is ready.

use bytes::Bytes;
use std::collections::{HashMap, VecDeque};

/// Items wait here. Those of one key are taken in order and never by two units of work at once; those
/// without a key are independent. What is ready is taken in the order in which it came.
#[derive(Debug)]
pub(crate) struct KeyQueues<T> {
    order: VecDeque<Slot<T>>,
    keys: HashMap<Bytes, KeyQueue<T>>,
    waiting: usize,
}

#[derive(Debug)]
enum Slot<T> {
    Single(T),
    Key(Bytes),
}

#[derive(Debug)]
struct KeyQueue<T> {
    items: VecDeque<T>,
    state: KeyState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeyState {
    /// It stands in `order`.
    Ready,
    /// Some of its items are in a unit of work, or suspended: the others wait.
    Held,
}

impl<T> KeyQueues<T> {
    pub(crate) fn new() -> Self {
        Self { order: VecDeque::new(), keys: HashMap::new(), waiting: 0 }
    }

    /// The number of items that wait, ready or not.
    pub(crate) fn len(&self) -> usize {
        self.waiting
    }

    /// Puts an item behind the others of its key.
    pub(crate) fn push(&mut self, key: Option<Bytes>, item: T) {
        self.waiting += 1;
        let Some(key) = key else { return self.order.push_back(Slot::Single(item)) };
        match self.keys.get_mut(&key) {
            Some(queue) => queue.items.push_back(item),
            None => {
                let queue = KeyQueue { items: VecDeque::from([item]), state: KeyState::Ready };
                self.keys.insert(key.clone(), queue);
                self.order.push_back(Slot::Key(key));
            }
        }
    }

    /// Puts an item in front of those of its key for which `is_later` says so, which all stand behind
    /// the others.
    pub(crate) fn push_before(&mut self, key: Option<Bytes>, item: T, is_later: impl Fn(&T) -> bool) {
        match key.as_ref().and_then(|key| self.keys.get_mut(key)) {
            None => self.push(key, item),
            Some(queue) => {
                let earlier = queue.items.iter().rposition(|other| !is_later(other));
                queue.items.insert(earlier.map_or(0, |index| index + 1), item);
                self.waiting += 1;
            }
        }
    }

    /// Takes up to `max` ready items. Their keys are held until [`free`](Self::free).
    pub(crate) fn take(&mut self, max: usize) -> Vec<T> {
        let mut taken = Vec::with_capacity(max.min(self.waiting));
        while taken.len() < max {
            match self.order.pop_front() {
                None => break,
                Some(Slot::Single(item)) => taken.push(item),
                Some(Slot::Key(key)) => {
                    let Some(queue) = self.keys.get_mut(&key) else { continue };
                    if queue.items.is_empty() {
                        // All of it was removed; a key without items must not be held for ever.
                        self.keys.remove(&key);
                    } else {
                        queue.state = KeyState::Held;
                        let count = queue.items.len().min(max - taken.len());
                        taken.extend(queue.items.drain(..count));
                    }
                }
            }
        }
        self.waiting -= taken.len();
        taken
    }

    /// Puts items back before the others of their key, in the order given. Their key must be held.
    pub(crate) fn put_back(&mut self, items: Vec<(Option<Bytes>, T)>) {
        self.waiting += items.len();
        for (key, item) in items.into_iter().rev() {
            match key {
                None => self.order.push_front(Slot::Single(item)),
                Some(key) => self
                    .keys
                    .entry(key)
                    .or_insert_with(|| KeyQueue { items: VecDeque::new(), state: KeyState::Held })
                    .items
                    .push_front(item),
            }
        }
    }

    /// Lets a held key flow again.
    pub(crate) fn free(&mut self, key: &Bytes) {
        let Some(queue) = self.keys.get_mut(key) else { return };
        if queue.state != KeyState::Held {
            return;
        }
        if queue.items.is_empty() {
            self.keys.remove(key);
        } else {
            queue.state = KeyState::Ready;
            self.order.push_back(Slot::Key(key.clone()));
        }
    }

    /// Takes out every waiting item for which `is_it` says so; keys stay as they are.
    pub(crate) fn remove(&mut self, mut is_it: impl FnMut(&T) -> bool) -> Vec<T> {
        let mut removed = Vec::new();
        let mut kept = VecDeque::with_capacity(self.order.len());
        for slot in self.order.drain(..) {
            match slot {
                Slot::Single(item) if is_it(&item) => removed.push(item),
                slot => kept.push_back(slot),
            }
        }
        self.order = kept;
        for queue in self.keys.values_mut() {
            for item in std::mem::take(&mut queue.items) {
                if is_it(&item) {
                    removed.push(item);
                } else {
                    queue.items.push_back(item);
                }
            }
        }
        self.waiting -= removed.len();
        removed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(n: u8) -> Option<Bytes> {
        (n > 0).then(|| Bytes::from(vec![n]))
    }

    #[test]
    fn a_held_key_waits_and_the_others_flow() {
        let mut queues = KeyQueues::new();
        for item in [(1, "a1"), (1, "a2"), (2, "b1"), (0, "x")] {
            queues.push(key(item.0), item);
        }
        assert_eq!(queues.take(1), [(1, "a1")]);
        assert_eq!(queues.take(9), [(2, "b1"), (0, "x")]);
        assert_eq!(queues.len(), 1);
        assert!(queues.take(9).is_empty());
        queues.put_back(vec![(key(1), (1, "a1"))]);
        queues.free(&key(1).unwrap());
        assert_eq!(queues.take(9), [(1, "a1"), (1, "a2")]);
        queues.free(&key(1).unwrap());
        assert_eq!(queues.len(), 0);
    }

    #[test]
    fn no_more_is_taken_than_asked_for() {
        let mut queues = KeyQueues::new();
        for item in [(0, "x"), (1, "a1"), (1, "a2"), (1, "a3")] {
            queues.push(key(item.0), item);
        }
        assert_eq!(queues.take(2), [(0, "x"), (1, "a1")]);
        assert_eq!(queues.len(), 2);
    }

    #[test]
    fn an_item_that_waited_elsewhere_takes_its_place() {
        let mut queues = KeyQueues::new();
        for n in [1, 2, 7, 9] {
            queues.push(key(1), n);
        }
        queues.push_before(key(1), 5, |&n| n > 5);
        queues.push_before(key(1), 0, |&n| n > 0);
        queues.push_before(key(1), 10, |&n| n > 10);
        queues.push_before(key(2), 3, |_| true);
        assert_eq!(queues.len(), 8);
        assert_eq!(queues.take(9), [0, 1, 2, 5, 7, 9, 10, 3]);
    }

    #[test]
    fn removing_leaves_the_rest_in_order() {
        let mut queues = KeyQueues::new();
        for n in 0..6u8 {
            queues.push(key(n % 3), n);
        }
        let mut removed = queues.remove(|n| *n < 3);
        removed.sort_unstable();
        assert_eq!(removed, [0, 1, 2]);
        assert_eq!(queues.len(), 3);
        let mut rest = queues.take(9);
        rest.sort_unstable();
        assert_eq!(rest, [3, 4, 5]);
    }

    #[test]
    fn a_key_of_which_all_was_removed_flows_again() {
        let mut queues = KeyQueues::new();
        queues.push(key(1), "a1");
        assert_eq!(queues.remove(|_| true), ["a1"]);
        assert!(queues.take(9).is_empty());
        queues.push(key(1), "a2");
        assert_eq!(queues.take(9), ["a2"]);
    }

    proptest! {
        /// Nothing is lost or doubled, a key is never in two units at once, and its order is kept.
        #[test]
        fn keys_are_serial_and_in_order(script in proptest::collection::vec((0u8..4, 0u8..4, 1usize..4), 1..80)) {
            let mut queues = KeyQueues::new();
            let mut units: Vec<Vec<(u8, u32)>> = Vec::new();
            let mut done: Vec<(u8, u32)> = Vec::new();
            let mut pushed = 0;
            let mut script = script.into_iter();
            loop {
                let step = script.next();
                match step {
                    Some((k, 0 | 1, _)) => {
                        queues.push(key(k), (k, pushed));
                        pushed += 1;
                    }
                    Some((_, 2, max)) => {
                        let unit = queues.take(max);
                        prop_assert!(unit.len() <= max);
                        for &(k, _) in unit.iter().filter(|item| item.0 > 0) {
                            prop_assert!(!units.iter().flatten().any(|&(other, _)| other == k));
                        }
                        units.push(unit);
                    }
                    Some((_, _, fate)) if !units.is_empty() => {
                        let unit = units.remove(0);
                        // The first part is done, the rest goes back.
                        let cut = if fate == 1 { unit.len() / 2 } else { unit.len() };
                        done.extend(&unit[..cut]);
                        queues.put_back(unit[cut..].iter().map(|&item| (key(item.0), item)).collect());
                        for &(k, _) in &unit {
                            if let Some(k) = key(k) {
                                queues.free(&k);
                            }
                        }
                    }
                    Some(_) => {}
                    None => {
                        for unit in std::mem::take(&mut units) {
                            done.extend(&unit);
                            for &(k, _) in &unit {
                                if let Some(k) = key(k) {
                                    queues.free(&k);
                                }
                            }
                        }
                        let unit = queues.take(3);
                        if unit.is_empty() {
                            break;
                        }
                        units.push(unit);
                    }
                }
            }
            prop_assert_eq!(queues.len(), 0);
            prop_assert_eq!(done.len() as u32, pushed);
            for k in 1u8..4 {
                let of_key: Vec<u32> = done.iter().filter(|item| item.0 == k).map(|item| item.1).collect();
                prop_assert!(of_key.is_sorted(), "key {}: {:?}", k, of_key);
            }
        }
    }
}
