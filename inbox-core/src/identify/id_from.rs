//! Where ids are read from.

use super::{Defect, cloud_events};
use crate::{Inbound, JsonPointer, MessageId, NameError};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use std::borrow::Cow;

/// Where the message id is read from.
///
/// Absent, `null` and empty are all *missing*, and [`MissingId`](super::MissingId) says what happens then.
/// An id that is there and cannot be used (too long, with a NUL, of another type, no UTF-8) makes a letter:
/// no other id takes its place.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum IdFrom {
    /// The id that the broker's own format carries. The default.
    #[default]
    Native,
    /// A value in the JSON payload: a string, or a number taken as it is written (`1`, `1.0` and `"1.0"`:
    /// the last two are one id, the first is another).
    JsonPointer(JsonPointer),
    /// The last header of this name, as UTF-8.
    Header(Box<str>),
    /// The `source` and the `id` of a [CloudEvent](https://cloudevents.io), which are unique together: the
    /// id is `SOURCE ID`, with one space. A source has no spaces; one that has is refused, so that
    /// two pairs never make one id.
    ///
    /// They are read from headers (binary mode) when there is one of them: `ce_source` and `ce_id`, or
    /// with `ce-`, `cloudEvents:` or `cloudEvents_` in front, in upper or lower case. If there are
    /// none they are read from the JSON payload (structured mode). The two ways are not mixed.
    CloudEvents,
    /// The place in the source: `TAG:SOURCE:PARTITION:POSITION`. It is stable across redeliveries of
    /// one log and no more: a producer's duplicate has another position, and a log that was made again
    /// repeats its positions. So the tag has to name *this* log, and change when it is made again.
    Position {
        /// What names this very log among all that could have the same positions.
        tag: Box<str>,
    },
    /// The payload's bytes: `sha256:` and 64 hexadecimal digits, whatever fingerprint is chosen. A
    /// tombstone has no such id.
    ///
    /// **Two messages with the same bytes are one message then, and the second one is dropped as a
    /// duplicate.** It is right only where the payload itself is unique, for example because an event's
    /// time or number is in it. "Add one to the counter", sent twice and meant twice, is applied once.
    Content,
    /// The first of these places where there is an id. A place is passed over when its id is missing, or
    /// when the payload that it should be read from is no JSON; one with a bad id is not.
    ///
    /// All deliveries of a message must find their id at the same place: a header that only some copies
    /// carry gives one message two ids.
    FirstOf(Vec<IdFrom>),
}

impl IdFrom {
    /// Reads the id of a record.
    ///
    /// # Errors
    /// [`Defect`] when there is none, or a bad one.
    pub fn read(&self, inbound: &Inbound) -> Result<MessageId, Defect> {
        match self {
            Self::Native => {
                let at = "the broker's message id";
                checked(at, inbound.native_id.as_deref().ok_or_else(|| missing(at))?)
            }
            Self::JsonPointer(pointer) => {
                let at = shortened(pointer.as_str());
                let payload = inbound.payload.as_deref().ok_or_else(|| missing(&*at))?;
                let value = json_value(pointer, payload)?.ok_or_else(|| missing(&*at))?;
                match json_string(value)? {
                    Some(id) => checked(&at, &id),
                    None if value.starts_with(|c: char| c == '-' || c.is_ascii_digit()) => {
                        checked(&at, value)
                    }
                    None => Err(Defect::IdType { at }),
                }
            }
            Self::Header(name) => {
                let at = format!("header {}", shortened(name));
                checked(&at, text(inbound.headers.get(name).ok_or_else(|| missing(&at))?, &at)?)
            }
            Self::CloudEvents => cloud_events::id_of(inbound),
            Self::Position { tag } => {
                let at = "the position in the source";
                let position = inbound.position.ok_or_else(|| missing(at))?;
                let partition = &inbound.partition;
                checked(at, &format!("{tag}:{}:{}:{}", partition.source, partition.number, position.at))
            }
            Self::Content => {
                let at = "the payload";
                let digest = Sha256::digest(inbound.payload.as_deref().ok_or_else(|| missing(at))?);
                let digits = digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
                checked(at, &format!("sha256:{digits}"))
            }
            Self::FirstOf(places) => first_of(places, inbound),
        }
    }

    /// Whether it can need the position of a record.
    pub(crate) fn needs_position(&self) -> bool {
        match self {
            Self::Position { .. } => true,
            Self::FirstOf(places) => places.iter().any(Self::needs_position),
            _ => false,
        }
    }

    /// Whether there is a list without any place.
    pub(crate) fn is_nowhere(&self) -> bool {
        matches!(self, Self::FirstOf(places) if places.is_empty() || places.iter().any(Self::is_nowhere))
    }
}

fn first_of(places: &[IdFrom], inbound: &Inbound) -> Result<MessageId, Defect> {
    let mut tried = Vec::new();
    let mut undecodable = None;
    for place in places {
        match place.read(inbound) {
            Err(Defect::IdMissing { at }) => tried.push(at),
            Err(defect @ Defect::Undecodable { .. }) => undecodable = undecodable.or(Some(defect)),
            found => return found,
        }
    }
    // A payload that does not decode is the likelier reason why there is no id.
    Err(undecodable.unwrap_or_else(|| missing(tried.join(", or else "))))
}

pub(super) fn missing(at: impl Into<String>) -> Defect {
    Defect::IdMissing { at: at.into() }
}

/// Makes an id of what was found; nothing but emptiness counts as missing.
pub(super) fn checked(at: &str, id: &str) -> Result<MessageId, Defect> {
    MessageId::new(id).map_err(|why| match why {
        NameError::Empty => missing(at),
        why => Defect::IdInvalid { at: at.to_owned(), why },
    })
}

pub(super) fn text<'a>(value: &'a [u8], at: &str) -> Result<&'a str, Defect> {
    std::str::from_utf8(value).map_err(|_| Defect::IdType { at: at.to_owned() })
}

/// The value that stands there; `None` when it is absent or `null`.
pub(super) fn json_value<'a>(pointer: &JsonPointer, payload: &'a [u8]) -> Result<Option<&'a str>, Defect> {
    let found = pointer.find(payload).map_err(undecodable)?;
    Ok(found.map(RawValue::get).filter(|value| !value.starts_with('n')))
}

/// A string without its quotes, its escapes undone; `None` when it is something else.
pub(super) fn json_string(value: &str) -> Result<Option<Cow<'_, str>>, Defect> {
    if !value.starts_with('"') {
        return Ok(None);
    }
    match serde_json::from_str::<&str>(value) {
        Ok(text) => Ok(Some(text.into())),
        // Nothing can be borrowed where there is something to unescape.
        Err(_) => serde_json::from_str(value).map(|text| Some(Cow::Owned(text))).map_err(undecodable),
    }
}

fn undecodable(error: serde_json::Error) -> Defect {
    Defect::Undecodable { why: error.to_string() }
}

/// Names are short; what is quoted in an error is cut all the same.
fn shortened(name: &str) -> String {
    name.chars().take(80).collect()
}
