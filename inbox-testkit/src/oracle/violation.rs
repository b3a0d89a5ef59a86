//! A broken promise.

use std::fmt;

/// The promises that a run can break.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Guarantee {
    /// An effect at most once per id, and at least once while the broker redelivers.
    G1,
    /// No acknowledgement without proof.
    G2,
    /// A duplicate is acknowledged and its handler does not run.
    G3,
    /// Other content under a known id is recorded and never applied.
    G5,
    /// Row and effect together or not at all.
    G6,
    /// A settlement covers only what is finished.
    G7,
    /// What is not applied leaves a row and a letter.
    G8,
    /// Order within a key.
    G9,
}

/// A promise that a run broke.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{guarantee}: {detail}")]
pub struct Violation {
    /// Which one.
    pub guarantee: Guarantee,
    /// How.
    pub detail: String,
}

impl Violation {
    /// A broken promise.
    pub fn new(guarantee: Guarantee, detail: impl Into<String>) -> Self {
        Self { guarantee, detail: detail.into() }
    }
}

impl fmt::Display for Guarantee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}
