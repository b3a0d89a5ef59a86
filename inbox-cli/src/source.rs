//! Where a parameter's value is read from: the language of `--param NAME=SOURCE`.

use inbox_core::{JsonPointer, PointerError};
use std::str::FromStr;

/// `NAME=SOURCE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ParamMapping {
    /// The parameter, without the colon.
    pub(crate) name: String,
    /// Where its value is read from.
    pub(crate) source: ParamSource,
}

/// A place in a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ParamSource {
    /// A value inside the JSON payload; all of it when the pointer is empty.
    Pointer(JsonPointer),
    /// `header:NAME`: the last header of this name.
    Header(Box<str>),
    /// `message:PART`.
    Message(MessagePart),
}

/// What a message has beside the payload's fields and the headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MessagePart {
    /// The message id.
    Id,
    /// The ordering key.
    Key,
    /// Where it begins in its partition.
    Position,
    /// The number of its partition.
    Partition,
    /// The name of its source.
    Source,
    /// When it was produced, in milliseconds since 1970-01-01 UTC.
    Timestamp,
    /// The payload as it came.
    Payload,
    /// The message type.
    Type,
    /// The key for effects outside the database.
    IdempotencyKey,
}

const PARTS: [(&str, MessagePart); 9] = [
    ("id", MessagePart::Id),
    ("key", MessagePart::Key),
    ("position", MessagePart::Position),
    ("partition", MessagePart::Partition),
    ("source", MessagePart::Source),
    ("timestamp", MessagePart::Timestamp),
    ("payload", MessagePart::Payload),
    ("type", MessagePart::Type),
    ("idempotency_key", MessagePart::IdempotencyKey),
];

/// Why a `--param` cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MappingError {
    /// There is no `=`.
    #[error("write it as NAME=SOURCE, such as city=/address/city")]
    NoSource,
    /// Nothing stands before the `=`.
    #[error("the name before '=' is missing; write it as NAME=SOURCE")]
    NoName,
    /// `header:` alone.
    #[error("the name behind header: is missing")]
    NoHeader,
    /// `message:` with an unknown part.
    #[error("a message has no {part:?}; it has {known}", known = known_parts())]
    UnknownPart { part: String },
    /// Something else than a source.
    #[error("{text:?} is no source; use /JSON/pointer, header:NAME or message:PART")]
    UnknownSource { text: String },
    /// It begins like a pointer and is none.
    #[error(transparent)]
    Pointer(#[from] PointerError),
}

fn known_parts() -> String {
    PARTS.map(|(name, _)| name).join(", ")
}

impl FromStr for ParamMapping {
    type Err = MappingError;

    fn from_str(text: &str) -> Result<Self, MappingError> {
        let (name, source) = text.split_once('=').ok_or(MappingError::NoSource)?;
        // People copy the parameter as it stands in the SQL.
        let name = name.strip_prefix([':', '@', '$']).unwrap_or(name);
        if name.is_empty() {
            return Err(MappingError::NoName);
        }
        Ok(Self { name: name.to_owned(), source: source.parse()? })
    }
}

impl FromStr for ParamSource {
    type Err = MappingError;

    fn from_str(text: &str) -> Result<Self, MappingError> {
        if text.is_empty() || text.starts_with('/') {
            return Ok(Self::Pointer(JsonPointer::new(text)?));
        }
        match text.split_once(':') {
            Some(("header", "")) => Err(MappingError::NoHeader),
            Some(("header", name)) => Ok(Self::Header(name.into())),
            Some(("message", part)) => PARTS
                .iter()
                .find(|(name, _)| *name == part)
                .map(|&(_, part)| Self::Message(part))
                .ok_or_else(|| MappingError::UnknownPart { part: part.to_owned() }),
            _ => Err(MappingError::UnknownSource { text: text.to_owned() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_source_is_read() {
        let source = |text: &str| text.parse::<ParamMapping>().map(|mapping| (mapping.name, mapping.source));
        let pointer = |text| ParamSource::Pointer(JsonPointer::new(text).unwrap());
        assert_eq!(source("city=/a/b"), Ok(("city".into(), pointer("/a/b"))));
        assert_eq!(source(":all="), Ok(("all".into(), pointer(""))));
        assert_eq!(source("h=header:a=b"), Ok(("h".into(), ParamSource::Header("a=b".into()))));
        for (name, part) in PARTS {
            assert_eq!(source(&format!("p=message:{name}")), Ok(("p".into(), ParamSource::Message(part))));
        }
    }

    #[test]
    fn what_is_no_source_is_refused() {
        for (text, why) in [
            ("city", "NAME=SOURCE"),
            ("=/a", "missing"),
            (":=/a", "missing"),
            ("a=b", "is no source"),
            ("a=header:", "missing"),
            ("a=message:ids", "it has id, key"),
            ("a=/~2", "not a JSON pointer"),
        ] {
            let error = text.parse::<ParamMapping>().unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
