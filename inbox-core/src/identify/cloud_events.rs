//! The id of a CloudEvent.

use super::{
    Defect,
    id_from::{checked, json_string, json_value, missing, text},
};
use crate::{Inbound, JsonPointer, MessageId, NameError};
use bytes::Bytes;

/// What stands before an attribute's name in a header: in Kafka, in HTTP, and in AMQP twice.
const PREFIXES: [&str; 4] = ["ce_", "ce-", "cloudevents:", "cloudevents_"];

pub(super) fn id_of(inbound: &Inbound) -> Result<MessageId, Defect> {
    let (source, id) = (header(inbound, "source"), header(inbound, "id"));
    if source.is_some() || id.is_some() {
        let attribute = |name, value: Option<&Bytes>| {
            let at = format!("CloudEvents header {name}");
            text(value.ok_or_else(|| missing(&at))?, &at).map(str::to_owned)
        };
        return joined(&attribute("source", source)?, &attribute("id", id)?);
    }
    let payload = inbound.payload.as_deref().ok_or_else(|| missing("CloudEvents source"))?;
    let attribute = |name| {
        let at = format!("CloudEvents {name}");
        let value = json_value(&JsonPointer::field(name), payload)?.ok_or_else(|| missing(&at))?;
        // Both attributes are strings: a number is no id that another implementation would accept.
        json_string(value)?.ok_or(Defect::IdType { at })
    };
    joined(&attribute("source")?, &attribute("id")?)
}

/// The last header with this attribute's name, and a value.
fn header<'a>(inbound: &'a Inbound, attribute: &str) -> Option<&'a Bytes> {
    let is_it = |name: &str| {
        let name = name.to_ascii_lowercase();
        PREFIXES.iter().any(|prefix| name.strip_prefix(prefix) == Some(attribute))
    };
    inbound.headers.iter().filter(|(name, _)| is_it(name)).last().and_then(|(_, value)| value)
}

fn joined(source: &str, id: &str) -> Result<MessageId, Defect> {
    for (at, part) in [("CloudEvents source", source), ("CloudEvents id", id)] {
        if part.is_empty() {
            return Err(missing(at));
        }
    }
    if source.contains(' ') {
        return Err(Defect::IdInvalid { at: "CloudEvents source".to_owned(), why: NameError::Space });
    }
    checked("CloudEvents source and id", &format!("{source} {id}"))
}
