//! From a message to the values of the SQL's parameters.

use crate::{
    payload::{Fields, Payload},
    source::{MessagePart, ParamMapping, ParamSource},
    value::Value,
};
use bytes::Bytes;
use inbox_core::{Group, JsonPointer, Message};
use serde_json::value::RawValue;

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
    /// A string holds half of a surrogate pair.
    #[error("the value of :{param}: {why}")]
    BadString { param: String, why: serde_json::Error },
}

impl ParamPlan {
    /// Plans how to read `names`, the parameters of all statements, each once and without the colon.
    pub(crate) fn build(names: &[String], mappings: &[ParamMapping]) -> Result<Self, PlanError> {
        for (n, ParamMapping { name, .. }) in mappings.iter().enumerate() {
            if mappings.iter().take(n).any(|earlier| earlier.name == *name) {
                return Err(PlanError::Twice { name: name.clone() });
            }
            if !names.contains(name) {
                return Err(PlanError::Unused { name: name.clone(), known: names.to_vec() });
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

    /// The values for one message, in the order of the names.
    pub(crate) fn bind(&self, message: &Message, group: &Group) -> Result<Vec<Value>, Undecodable> {
        let document = match message.payload() {
            Some(bytes) if self.params.iter().any(|param| param.read.needs_payload()) => {
                let text = std::str::from_utf8(bytes)
                    .map_err(|error| Undecodable::NotText { valid: error.valid_up_to() })?;
                let payload = self.fields.read(text).map_err(|why| Undecodable::NotJson { why })?;
                Some((text, payload))
            }
            _ => None,
        };
        self.params
            .iter()
            .map(|param| match &param.read {
                Read::Header(name) => Ok(message.headers().get(name).map_or(Value::Null, Value::from_bytes)),
                Read::Message(part) => Ok(part.of(message, group)),
                Read::Field(slot) => match &document {
                    None => Err(Undecodable::NoPayload { param: param.name.clone() }),
                    Some((_, Payload::Other(found))) => {
                        Err(Undecodable::NotObject { param: param.name.clone(), found })
                    }
                    Some((_, Payload::Object(found))) => param.value(found.get(*slot).copied().flatten()),
                },
                Read::Document | Read::Pointer { .. } => match &document {
                    None => Ok(Value::Null),
                    Some((text, payload)) => param.value(param.read.find(text, payload)?),
                },
            })
            .collect()
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
    fn value(&self, raw: Option<&RawValue>) -> Result<Value, Undecodable> {
        raw.map_or(Ok(Value::Null), Value::from_json)
            .map_err(|why| Undecodable::BadString { param: self.name.clone(), why })
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
    fn of(self, message: &Message, group: &Group) -> Value {
        let bytes = |bytes: Option<&Bytes>| bytes.map_or(Value::Null, Value::from_bytes);
        match self {
            Self::Id => Value::Text(message.id().to_owned()),
            Self::Key => bytes(message.key()),
            Self::Position => message.position().map_or(Value::Null, |position| Value::from_u64(position.at)),
            Self::Partition => Value::Integer(message.partition().number.into()),
            Self::Source => Value::Text(message.partition().source.as_str().to_owned()),
            Self::Timestamp => message.timestamp_ms().map_or(Value::Null, Value::Integer),
            Self::Payload => bytes(message.payload()),
            Self::Type => match &message.inbound().message_type {
                Some(name) => Value::Text(name.to_string()),
                None => Value::Null,
            },
            Self::IdempotencyKey => Value::Text(message.idempotency_key(group)),
        }
    }
}

#[cfg(test)]
#[path = "params_tests.rs"]
mod tests;
