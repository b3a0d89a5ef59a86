//! How a record gets the id under which it is claimed.

use crate::{ClaimKey, Fingerprint, Inbound, JsonPointer, Message, MessageId, NameError, Scope};
use sha2::{Digest, Sha256};
use std::borrow::Cow;

/// Where the message id is read from.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum IdFrom {
    /// The id that the broker's own format carries. The default.
    Native,
    /// A value in the JSON payload: a string, or a number taken as it is written.
    JsonPointer(JsonPointer),
    /// The last header of this name, as UTF-8.
    Header(Box<str>),
    /// The place in the source: `TAG:SOURCE:PARTITION:POSITION`. It is stable across redeliveries of
    /// one log and no more: a producer's duplicate has another position, and a log that was made again
    /// repeats its positions. So the tag has to name *this* log, and change when it is made again.
    Position {
        /// What names this very log among all that could have the same positions.
        tag: Box<str>,
    },
}

/// Why a record cannot be handed to a handler whatever is tried: it goes straight to a letter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Defect {
    /// There is no id where it should be.
    #[error("no message id: {at} is missing")]
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

/// Identity rules of a runner: scope, and where ids come from.
#[derive(Debug, Clone)]
pub(crate) struct Identifier {
    pub(crate) scope: Scope,
    pub(crate) from: IdFrom,
}

impl Identifier {
    /// Gives `inbound` its identity. A record with a defect is claimed by its place in the source, so
    /// that a redelivery finds the letter that was written the first time.
    pub(crate) fn identify(&self, inbound: Inbound) -> (Message, Option<Defect>) {
        let fingerprint = Fingerprint::of_payload(inbound.payload.as_deref());
        let found = match inbound.oversize_bytes {
            Some(bytes) => {
                Err(Defect::Oversize { bytes, kept: inbound.payload.as_ref().map_or(0, |p| p.len() as u64) })
            }
            None => self.id_of(&inbound),
        };
        match found {
            Ok(id) => (Message::new(ClaimKey { scope: self.scope.clone(), id }, fingerprint, inbound), None),
            Err(defect) => {
                let claim = ClaimKey { scope: Scope::unidentified(), id: surrogate(&inbound, fingerprint) };
                (Message::new(claim, fingerprint, inbound), Some(defect))
            }
        }
    }

    fn id_of(&self, inbound: &Inbound) -> Result<MessageId, Defect> {
        let missing = |at: String| Defect::IdMissing { at };
        let (at, text): (String, Cow<'_, str>) = match &self.from {
            IdFrom::Native => {
                let at = || "the broker's message id".to_owned();
                (at(), inbound.native_id.as_deref().ok_or_else(|| missing(at()))?.into())
            }
            IdFrom::Header(name) => {
                let at = || format!("header {name}");
                let value = inbound.headers.get(name).ok_or_else(|| missing(at()))?;
                (at(), std::str::from_utf8(value).map_err(|_| Defect::IdType { at: at() })?.into())
            }
            IdFrom::Position { tag } => {
                let at = || "the position in the source".to_owned();
                let position = inbound.position.ok_or_else(|| missing(at()))?;
                let partition = &inbound.partition;
                (at(), format!("{tag}:{}:{}:{}", partition.source, partition.number, position.at).into())
            }
            IdFrom::JsonPointer(pointer) => {
                // Names of fields are short; what is quoted in an error is cut all the same.
                let at = || pointer.as_str().chars().take(80).collect::<String>();
                let payload = inbound.payload.as_deref().ok_or_else(|| missing(at()))?;
                let value = pointer
                    .find(payload)
                    .map_err(|error| Defect::Undecodable { why: error.to_string() })?
                    .ok_or_else(|| missing(at()))?
                    .get();
                match value.as_bytes().first() {
                    Some(b'"') => {
                        let text = serde_json::from_str::<Cow<'_, str>>(value)
                            .map_err(|error| Defect::Undecodable { why: error.to_string() })?;
                        (at(), text)
                    }
                    Some(b'-' | b'0'..=b'9') => (at(), value.into()),
                    Some(b'n') => return Err(missing(at())),
                    _ => return Err(Defect::IdType { at: at() }),
                }
            }
        };
        MessageId::new(&*text).map_err(|why| match why {
            NameError::Empty => missing(at),
            why => Defect::IdInvalid { at, why },
        })
    }
}

/// An id made of where the record stands; of its content where the broker has no positions.
fn surrogate(inbound: &Inbound, fingerprint: Fingerprint) -> MessageId {
    let mut hash = Sha256::new();
    hash.update(inbound.partition.source.as_str());
    let source = hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect::<String>();
    let place = match inbound.position {
        Some(position) => format!("{source}:{}:{}", inbound.partition.number, position.at),
        None => format!("{source}:{}:{fingerprint}", inbound.partition.number),
    };
    // 16 + 2 + at most 10 + at most 35 characters: never refused.
    MessageId::new(place).unwrap_or_else(|_| unreachable!("a surrogate id is short and has no NUL"))
}
