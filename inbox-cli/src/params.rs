//! From a message to the values of the SQL's parameters.

use crate::{
    database::number_of,
    payload::{Fields, Payload},
    source::{MessagePart, ParamMapping, ParamSource},
};
use bytes::Bytes;
use inbox_core::{Group, JsonPointer, Message};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// What a message has for a parameter. Every kind of database makes values of its own of it.
#[derive(Debug, Clone)]
pub(crate) enum Found<'m> {
    /// It has none.
    Nothing,
    /// A piece of the payload, as it was written.
    Json(&'m RawValue),
    /// The payload, the key or a header: text, most often.
    Bytes(&'m Bytes),
    /// A part that is always text.
    Text(Cow<'m, str>),
    /// A part that is a number.
    Number(u64),
    /// A time, in milliseconds since 1970-01-01 UTC.
    TimestampMs(i64),
}

/// What to read for each parameter.
#[derive(Debug)]
pub(crate) struct ParamPlan {
    params: Vec<Param>,
    fields: Fields,
}

#[derive(Debug)]
struct Param {
    name: String,
    read: Read,
}

#[derive(Debug)]
enum Read {
    /// A field of the payload, named by the parameter itself: the payload has to be an object.
    Field(usize),
    /// A pointer: the slot of its first step and the steps behind it. Payloads that are no object are
    /// searched with the whole of it.
    Pointer {
        slot: usize,
        rest: Option<JsonPointer>,
        whole: JsonPointer,
    },
    /// The whole payload, as JSON.
    Document,
    Header(Box<str>),
    Message(MessagePart),
}

/// Why the parameters of the SQL and the `--param` options do not fit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PlanError {
    /// A mapping that no statement asks for.
    #[error("--param {name}: no --sql has a parameter :{name}{}", has(.known))]
    Unused { name: String, known: Vec<String> },
    /// Two mappings of one name.
    #[error("--param {name} is given twice; give it once")]
    Twice { name: String },
}

fn has(known: &[String]) -> String {
    match known {
        [] => "; there are no parameters".to_owned(),
        known => format!("; there is :{}", known.join(", :")),
    }
}

/// Why the parameters cannot be read from a message: it can never be applied.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Undecodable {
    /// A field is asked for and there is no payload.
    #[error("the message has no payload; :{param} is a field of it")]
    NoPayload { param: String },
    /// A field is asked for and the payload has none.
    #[error("the payload is {found}, not an object; :{param} is a field of it")]
    NotObject { param: String, found: &'static str },
    /// The payload is not text.
    #[error("the payload is not UTF-8 behind its first {valid} bytes")]
    NotText { valid: usize },
    /// The payload is not JSON.
    #[error("the payload is not JSON: {why}")]
    NotJson { why: serde_json::Error },
    /// What was found is nothing that could be bound.
    #[error("the value of :{param}: {why}")]
    BadValue { param: String, why: String },
}

impl ParamPlan {
    /// Plans how to read `names`, the parameters of all statements without the colon. A name may stand
    /// there more than once, when different values are made of what is found.
    pub(crate) fn build(names: &[String], mappings: &[ParamMapping]) -> Result<Self, PlanError> {
        for (n, ParamMapping { name, .. }) in mappings.iter().enumerate() {
            if mappings.iter().take(n).any(|earlier| earlier.name == *name) {
                return Err(PlanError::Twice { name: name.clone() });
            }
            if !names.contains(name) {
                let mut known = Vec::new();
                for name in names {
                    number_of(&mut known, name.clone());
                }
                return Err(PlanError::Unused { name: name.clone(), known });
            }
        }
        let mut fields = Fields::default();
        let params = names
            .iter()
            .map(|name| {
                let source = mappings.iter().find(|mapping| mapping.name == *name).map(|m| &m.source);
                let read = match source {
                    None => Read::Field(fields.want(name)),
                    Some(ParamSource::Header(header)) => Read::Header(header.clone()),
                    Some(ParamSource::Message(part)) => Read::Message(*part),
                    Some(ParamSource::Pointer(pointer)) => pointer_read(pointer, &mut fields),
                };
                Param { name: name.clone(), read }
            })
            .collect();
        Ok(Self { params, fields })
    }

    /// The values for one message, in the order of the names. `make` is told which of them it makes, and of
    /// what.
    pub(crate) fn bind<V, E: ToString>(
        &self,
        message: &Message,
        group: &Group,
        make: impl Fn(usize, Found<'_>) -> Result<V, E>,
    ) -> Result<Vec<V>, Undecodable> {
        let document = match message.payload() {
            Some(bytes) if self.params.iter().any(|param| param.read.needs_payload()) => {
                let text = std::str::from_utf8(bytes)
                    .map_err(|error| Undecodable::NotText { valid: error.valid_up_to() })?;
                let payload = self.fields.read(text).map_err(|why| Undecodable::NotJson { why })?;
                Some((text, payload))
            }
            _ => None,
        };
        let values = self.params.iter().enumerate().map(|(number, param)| {
            let found = param.find(message, group, document.as_ref())?;
            make(number, found).map_err(|why| {
                let (param, why) = (param.name.clone(), why.to_string());
                Undecodable::BadValue { param, why }
            })
        });
        values.collect()
    }
}

fn pointer_read(pointer: &JsonPointer, fields: &mut Fields) -> Read {
    let Some(steps) = pointer.as_str().strip_prefix('/') else { return Read::Document };
    let (first, rest) = match steps.split_once('/') {
        Some((first, rest)) => (first, JsonPointer::new(&format!("/{rest}")).ok()),
        None => (steps, None),
    };
    let slot = fields.want(&first.replace("~1", "/").replace("~0", "~"));
    Read::Pointer { slot, rest, whole: pointer.clone() }
}

impl Param {
    fn find<'m>(
        &self,
        message: &'m Message,
        group: &Group,
        document: Option<&(&'m str, Payload<'m>)>,
    ) -> Result<Found<'m>, Undecodable> {
        let raw = match &self.read {
            Read::Header(name) => {
                return Ok(message.headers().get(name).map_or(Found::Nothing, Found::Bytes));
            }
            Read::Message(part) => return Ok(part.of(message, group)),
            Read::Field(slot) => match document {
                None => return Err(Undecodable::NoPayload { param: self.name.clone() }),
                Some((_, Payload::Other(found))) => {
                    return Err(Undecodable::NotObject { param: self.name.clone(), found });
                }
                Some((_, Payload::Object(found))) => found.get(*slot).copied().flatten(),
            },
            Read::Document | Read::Pointer { .. } => match document {
                None => None,
                Some((text, payload)) => self.read.find(text, payload)?,
            },
        };
        Ok(raw.map_or(Found::Nothing, Found::Json))
    }
}

impl Read {
    fn needs_payload(&self) -> bool {
        matches!(self, Self::Field(_) | Self::Pointer { .. } | Self::Document)
    }

    fn find<'a>(&self, text: &'a str, payload: &Payload<'a>) -> Result<Option<&'a RawValue>, Undecodable> {
        let found = match (self, payload) {
            (Self::Document, _) => serde_json::from_str(text).map(Some),
            (Self::Pointer { slot, rest, .. }, Payload::Object(found)) => {
                match (found.get(*slot).copied().flatten(), rest) {
                    (Some(outer), Some(rest)) => rest.find(outer.get().as_bytes()),
                    (outer, _) => Ok(outer),
                }
            }
            (Self::Pointer { whole, .. }, Payload::Other(_)) => whole.find(text.as_bytes()),
            (Self::Field(_) | Self::Header(_) | Self::Message(_), _) => Ok(None),
        };
        found.map_err(|why| Undecodable::NotJson { why })
    }
}

impl MessagePart {
    fn of<'m>(self, message: &'m Message, group: &Group) -> Found<'m> {
        let text = |text: &'m str| Found::Text(Cow::Borrowed(text));
        match self {
            Self::Id => text(message.id()),
            Self::Key => message.key().map_or(Found::Nothing, Found::Bytes),
            Self::Position => {
                message.position().map_or(Found::Nothing, |position| Found::Number(position.at))
            }
            Self::Partition => Found::Number(message.partition().number.into()),
            Self::Source => text(message.partition().source.as_str()),
            Self::Timestamp => message.timestamp_ms().map_or(Found::Nothing, Found::TimestampMs),
            Self::Payload => message.payload().map_or(Found::Nothing, Found::Bytes),
            Self::Type => message.inbound().message_type.as_deref().map_or(Found::Nothing, text),
            Self::IdempotencyKey => Found::Text(Cow::Owned(message.idempotency_key(group))),
        }
    }
}

#[cfg(test)]
#[path = "params_tests.rs"]
mod tests;
