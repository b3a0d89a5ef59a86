//! How a record gets the id under which it is claimed.

mod cloud_events;
mod defect;
mod id_from;

pub use defect::Defect;
pub use id_from::IdFrom;

use crate::{ClaimKey, Fingerprint, FingerprintOf, Inbound, LetterReason, Message, MessageId, Scope};
use sha2::{Digest, Sha256};

/// What is done with a record that has no id where one should be.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum MissingId {
    /// It becomes a letter. The default.
    #[default]
    DeadLetter,
    /// It is handled under its place in the source, as with [`IdFrom::Position`]. Only records without
    /// an id are: a bad one still makes a letter.
    Position {
        /// What names this very log among all that could have the same positions.
        tag: Box<str>,
    },
    /// It is handled under its content, with the danger that [`IdFrom::Content`] tells of. A bad id
    /// still makes a letter, and so does a tombstone without an id.
    Content,
    /// The run ends with [`RunError::Unidentified`](crate::RunError::Unidentified), which says where the
    /// record stands. It is not acknowledged. The same goes for a record with a bad id.
    Halt,
}

/// How records are identified: the rules by which a runner makes a [`Message`] of an [`Inbound`].
///
/// ```
/// use inbox_core::{Identity, Inbound, Partition, Source};
///
/// let mut inbound = Inbound::new(Partition { source: Source::new("web"), number: 0 }, None);
/// inbound.native_id = Some("e-102".into());
/// let (message, defect) = Identity::default().identify(inbound);
/// assert_eq!((message.id(), defect), ("e-102", None));
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Identity {
    /// The namespace of the ids.
    pub scope: Scope,
    /// Where ids are read from.
    pub from: IdFrom,
    /// What is done when there is none.
    pub missing: MissingId,
    /// What an id seen again is compared by.
    pub fingerprint: FingerprintOf,
}

impl Identity {
    /// Ids read from there, in the default scope, compared by payload; without one there is a letter.
    pub fn new(from: IdFrom) -> Self {
        Self { from, ..Self::default() }
    }

    /// Gives a record its identity. One with a defect is claimed under
    /// [its place](Identity::unidentified_key), so that a redelivery finds the letter that was written
    /// the first time.
    pub fn identify(&self, inbound: Inbound) -> (Message, Option<Defect>) {
        let fingerprint = self.fingerprint.of(&inbound);
        let found = match inbound.oversize_bytes {
            Some(bytes) => {
                Err(Defect::Oversize { bytes, kept: inbound.payload.as_ref().map_or(0, |p| p.len() as u64) })
            }
            None => self.id_of(&inbound),
        };
        let (claim, defect) = match found {
            Ok(id) => (ClaimKey { scope: self.scope.clone(), id }, None),
            Err(defect) => (Self::unidentified_key(&inbound), Some(defect)),
        };
        (Message::new(claim, fingerprint, inbound), defect)
    }

    /// What a record without a usable id is claimed under, whatever the rules: in the scope
    /// [`Scope::unidentified`], by a digest of its source, its partition and its position; by its payload
    /// where the broker has no positions.
    pub fn unidentified_key(inbound: &Inbound) -> ClaimKey {
        ClaimKey { scope: Scope::unidentified(), id: surrogate(inbound) }
    }

    /// Whether the run ends at a record with this defect.
    pub(crate) fn halts_at(&self, defect: &Defect) -> bool {
        self.missing == MissingId::Halt && defect.reason() == LetterReason::Unidentified
    }

    /// Whether records are, or may be, claimed by position.
    pub(crate) fn needs_position(&self) -> Option<&'static str> {
        if self.from.needs_position() {
            return Some("id_from");
        }
        matches!(self.missing, MissingId::Position { .. }).then_some("missing_id")
    }

    fn id_of(&self, inbound: &Inbound) -> Result<MessageId, Defect> {
        let defect = match self.from.read(inbound) {
            Err(defect) if defect.is_missing() => defect,
            found => return found,
        };
        let instead = match &self.missing {
            MissingId::DeadLetter | MissingId::Halt => return Err(defect),
            MissingId::Position { tag } => IdFrom::Position { tag: tag.clone() }.read(inbound),
            MissingId::Content => IdFrom::Content.read(inbound),
        };
        // When there is nothing instead either, what is told is that the id is missing.
        instead.map_err(|other| if other.is_missing() { defect } else { other })
    }
}

/// An id made of where the record stands; of its content where the broker has no positions.
fn surrogate(inbound: &Inbound) -> MessageId {
    let mut hash = Sha256::new();
    hash.update(inbound.partition.source.as_str());
    let source = hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect::<String>();
    let place = match inbound.position {
        Some(position) => format!("{source}:{}:{}", inbound.partition.number, position.at),
        None => {
            // Always of the payload: under a rule that compares nothing all such records would be one.
            let fingerprint = Fingerprint::of_payload(inbound.payload.as_deref());
            format!("{source}:{}:{fingerprint}", inbound.partition.number)
        }
    };
    // 16 + 2 + at most 10 + at most 35 characters: never refused.
    MessageId::new(place).unwrap_or_else(|_| unreachable!("a surrogate id is short and has no NUL"))
}

#[cfg(test)]
mod tests;
