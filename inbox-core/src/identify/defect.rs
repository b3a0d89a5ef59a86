//! What can be wrong with a record before any handler sees it.

use crate::{LetterReason, NameError};

/// Why a record cannot be handed to a handler whatever is tried: it goes straight to a letter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Defect {
    /// There is no id where it should be: it is absent, `null` or empty.
    #[error("no message id: {at} is missing or empty")]
    IdMissing {
        /// Where it was looked for.
        at: String,
    },
    /// What stands there cannot be an id.
    #[error("bad message id: {at}: {why}")]
    IdInvalid {
        /// Where it was found.
        at: String,
        /// What is wrong with it.
        why: NameError,
    },
    /// What stands there is not text or a number.
    #[error("bad message id: {at} is neither a string nor a number")]
    IdType {
        /// Where it was found.
        at: String,
    },
    /// The payload is not what the id or the handler's arguments are read from.
    #[error("undecodable: {why}")]
    Undecodable {
        /// The decoder's message.
        why: String,
    },
    /// The record is larger than the broker's limit; only a prefix was kept.
    #[error("too large: {bytes} bytes; the first {kept} are kept")]
    Oversize {
        /// The whole length.
        bytes: u64,
        /// The length of the prefix.
        kept: u64,
    },
}

impl Defect {
    /// The reason that its letter gives.
    pub fn reason(&self) -> LetterReason {
        match self {
            Self::IdMissing { .. } | Self::IdInvalid { .. } | Self::IdType { .. } => {
                LetterReason::Unidentified
            }
            Self::Undecodable { .. } => LetterReason::Undecodable,
            Self::Oversize { .. } => LetterReason::Oversize,
        }
    }

    /// Whether there is no id at all, as opposed to a bad one.
    pub(super) fn is_missing(&self) -> bool {
        matches!(self, Self::IdMissing { .. })
    }
}
