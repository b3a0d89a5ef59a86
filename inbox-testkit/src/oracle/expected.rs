//! What has to come out of a run.

use inbox_core::{Fingerprint, Strategy};
use std::collections::BTreeMap;

/// What has to become of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Its effect is there, once.
    Applied,
    /// Its letter is there, once, and no effect.
    Dead,
    /// One of both: a fault may have used up its attempts.
    Either,
}

/// What has to come out of a run, with the ids in the order in which they were first published.
#[derive(Debug, Clone, Default)]
pub struct Expected {
    fates: BTreeMap<String, Fate>,
    order: Vec<(String, Option<String>)>,
    conflicts: BTreeMap<String, Vec<Fingerprint>>,
    unordered: bool,
    waived: bool,
    strategy: Strategy,
}

impl Expected {
    /// Nothing was published yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A message was published and must become this. Published again it is a duplicate: no call.
    #[must_use]
    pub fn message(mut self, id: &str, key: Option<&str>, fate: Fate) -> Self {
        self.fates.insert(id.to_owned(), fate);
        self.order.push((id.to_owned(), key.map(str::to_owned)));
        self
    }

    /// A message that must be applied.
    #[must_use]
    pub fn applied(self, id: &str, key: Option<&str>) -> Self {
        self.message(id, key, Fate::Applied)
    }

    /// A message that must become a letter.
    #[must_use]
    pub fn dead(self, id: &str, key: Option<&str>) -> Self {
        self.message(id, key, Fate::Dead)
    }

    /// A known id was published with this other content, which must be recorded.
    #[must_use]
    pub fn conflict(mut self, id: &str, content: Fingerprint) -> Self {
        self.conflicts.entry(id.to_owned()).or_default().push(content);
        self
    }

    /// The broker keeps no order, so none is expected.
    #[must_use]
    pub fn unordered(self) -> Self {
        Self { unordered: true, ..self }
    }

    /// Acknowledging without a commit is allowed: a lossy strategy, or ignored types.
    #[must_use]
    pub fn waived(self) -> Self {
        Self { waived: true, ..self }
    }

    /// The strategy whose promises hold. Default: exactly once.
    #[must_use]
    pub fn under(self, strategy: Strategy) -> Self {
        Self { strategy, ..self }
    }

    /// A message that must be applied may also become a letter: faults may use its attempts up.
    #[must_use]
    pub fn or_dead(mut self) -> Self {
        for fate in self.fates.values_mut().filter(|fate| **fate == Fate::Applied) {
            *fate = Fate::Either;
        }
        self
    }

    /// The strategy whose promises hold.
    pub fn strategy(&self) -> Strategy {
        self.strategy
    }

    /// What each id must become.
    pub fn fates(&self) -> &BTreeMap<String, Fate> {
        &self.fates
    }

    /// Ids and keys in the order of publishing.
    pub fn order(&self) -> &[(String, Option<String>)] {
        &self.order
    }

    /// The contents that must be recorded as conflicts.
    pub fn conflicts(&self) -> &BTreeMap<String, Vec<Fingerprint>> {
        &self.conflicts
    }

    /// Whether order is expected.
    pub fn is_ordered(&self) -> bool {
        !self.unordered
    }

    /// Whether acknowledging without a commit is allowed.
    pub fn allows_waived(&self) -> bool {
        self.waived
    }
}
