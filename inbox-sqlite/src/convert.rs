//! Between the core's types and columns.

use bytes::Bytes;
use inbox_core::{
    ClaimKey, FaultClass, Fingerprint, Headers, Inbound, MessageId, Partition, Position, Scope, Source,
    StoreError,
};
use rusqlite::{
    Row, ToSql,
    types::{Null, Type},
};
use serde_json::{Value, json};
use std::time::{SystemTime, UNIX_EPOCH};

/// The columns of a record, in the order of [`RecordRow::values`] and [`read_record`].
pub(crate) const RECORD_COLUMNS: &str = "source, partition, position_at, position_next, key, native_id, \
     message_type, headers, payload, timestamp_ms, oversize_bytes";

/// The number of [`RECORD_COLUMNS`].
pub(crate) const RECORD_WIDTH: usize = 11;

/// Now, in milliseconds since 1970-01-01 UTC.
pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// SQLite's integers have a sign. A number that does not fit is an error, never a wrapped one.
pub(crate) fn to_column(number: u64, what: &str) -> Result<i64, StoreError> {
    i64::try_from(number).map_err(|_| {
        let message = format!("{what} {number} is above {}, the largest integer of SQLite", i64::MAX);
        StoreError::failed(FaultClass::Permanent, message)
    })
}

/// A column that holds what this crate never writes.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Unreadable(String);

fn unreadable(column: usize, kind: Type, what: impl Into<String>) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, kind, Box::new(Unreadable(what.into())))
}

/// Reads a number that has no sign.
pub(crate) fn read_number<N: TryFrom<i64>>(row: &Row<'_>, column: usize) -> rusqlite::Result<N> {
    let number: i64 = row.get(column)?;
    N::try_from(number).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, number))
}

fn read_number_or_null(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<u64>> {
    match row.get::<_, Option<i64>>(column)? {
        Some(_) => read_number(row, column).map(Some),
        None => Ok(None),
    }
}

/// Reads a fingerprint.
pub(crate) fn read_fingerprint(row: &Row<'_>, column: usize) -> rusqlite::Result<Fingerprint> {
    let bytes = row.get_ref(column)?.as_blob()?;
    Fingerprint::from_bytes(bytes)
        .ok_or_else(|| unreadable(column, Type::Blob, "it is not a fingerprint of 17 bytes"))
}

/// Reads scope and id, which stand beside each other.
pub(crate) fn read_claim_key(row: &Row<'_>, column: usize) -> rusqlite::Result<ClaimKey> {
    let scope = Scope::stored(row.get_ref(column)?.as_str()?)
        .map_err(|e| unreadable(column, Type::Text, format!("it is not a scope: {e}")))?;
    let id = MessageId::new(row.get_ref(column + 1)?.as_str()?)
        .map_err(|e| unreadable(column + 1, Type::Text, format!("it is not a message id: {e}")))?;
    Ok(ClaimKey { scope, id })
}

/// A record, ready to be bound.
pub(crate) struct RecordRow<'r> {
    inbound: &'r Inbound,
    position: Option<(i64, i64)>,
    oversize_bytes: Option<i64>,
    key: Option<&'r [u8]>,
    payload: Option<&'r [u8]>,
    headers: String,
    source: &'r str,
}

impl<'r> RecordRow<'r> {
    pub(crate) fn new(inbound: &'r Inbound) -> Result<Self, StoreError> {
        let position = match inbound.position {
            Some(p) => Some((to_column(p.at, "the position")?, to_column(p.next, "the position")?)),
            None => None,
        };
        Ok(Self {
            inbound,
            position,
            oversize_bytes: inbound.oversize_bytes.map(|b| to_column(b, "the length")).transpose()?,
            key: inbound.key.as_deref(),
            payload: inbound.payload.as_deref(),
            headers: headers_to_json(&inbound.headers),
            source: inbound.partition.source.as_str(),
        })
    }

    /// The values of [`RECORD_COLUMNS`].
    pub(crate) fn values(&self) -> [&dyn ToSql; RECORD_WIDTH] {
        let (at, next): (&dyn ToSql, &dyn ToSql) = match &self.position {
            Some((at, next)) => (at, next),
            None => (&Null, &Null),
        };
        [
            &self.source,
            &self.inbound.partition.number,
            at,
            next,
            &self.key,
            &self.inbound.native_id,
            &self.inbound.message_type,
            &self.headers,
            &self.payload,
            &self.inbound.timestamp_ms,
            &self.oversize_bytes,
        ]
    }
}

/// Reads [`RECORD_COLUMNS`], the first of which is column `at`.
pub(crate) fn read_record(row: &Row<'_>, at: usize) -> rusqlite::Result<Inbound> {
    let bytes = |column: usize| -> rusqlite::Result<Option<Bytes>> {
        Ok(row.get::<_, Option<Vec<u8>>>(column)?.map(Bytes::from))
    };
    let source = Source::new(row.get_ref(at)?.as_str()?);
    let mut inbound = Inbound::new(Partition { source, number: read_number(row, at + 1)? }, bytes(at + 8)?);
    inbound.position = match (read_number_or_null(row, at + 2)?, read_number_or_null(row, at + 3)?) {
        (Some(at), Some(next)) => Some(Position { at, next }),
        _ => None,
    };
    inbound.key = bytes(at + 4)?;
    inbound.native_id = row.get::<_, Option<String>>(at + 5)?.map(String::into_boxed_str);
    inbound.message_type = row.get::<_, Option<String>>(at + 6)?.map(String::into_boxed_str);
    inbound.headers = headers_from_json(row.get_ref(at + 7)?.as_str()?)
        .ok_or_else(|| unreadable(at + 7, Type::Text, "it is not a list of headers"))?;
    inbound.timestamp_ms = row.get(at + 9)?;
    inbound.oversize_bytes = read_number_or_null(row, at + 10)?;
    Ok(inbound)
}

/// Headers as JSON that people can read in the database: a list of pairs, whose value is a text, null
/// when it is absent, or `{"hex": …}` when it is not UTF-8.
fn headers_to_json(headers: &Headers) -> String {
    let pairs: Vec<Value> = headers
        .iter()
        .map(|(name, value)| match value.map(|bytes| (std::str::from_utf8(bytes), bytes)) {
            None => json!([name, null]),
            Some((Ok(text), _)) => json!([name, text]),
            Some((Err(_), bytes)) => {
                let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                json!([name, { "hex": hex }])
            }
        })
        .collect();
    Value::Array(pairs).to_string()
}

fn headers_from_json(text: &str) -> Option<Headers> {
    let mut headers = Headers::new();
    let Ok(Value::Array(pairs)) = serde_json::from_str(text) else { return None };
    for pair in pairs {
        let (name, value) = match pair.as_array()?.as_slice() {
            [Value::String(name), value] => (name.clone(), value),
            _ => return None,
        };
        let value = match value {
            Value::Null => None,
            Value::String(text) => Some(Bytes::from(text.clone())),
            other => Some(from_hex(other.get("hex")?.as_str()?)?),
        };
        headers.push(name, value);
    }
    Some(headers)
}

fn from_hex(text: &str) -> Option<Bytes> {
    let digits: Option<Vec<u32>> = text.chars().map(|c| c.to_digit(16)).collect();
    let pairs = digits?;
    if pairs.len() % 2 != 0 {
        return None;
    }
    pairs.chunks(2).map(|pair| u8::try_from(pair[0] * 16 + pair[1]).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_keep_order_repeats_absent_values_and_bytes() {
        let mut headers = Headers::new();
        headers.push("a", Some(Bytes::from_static(b"text \"quoted\" \0 end")));
        headers.push("a", None);
        headers.push("", Some(Bytes::new()));
        headers.push("b\0", Some(Bytes::from_static(&[0, 159, 146, 150])));
        headers.push("c", Some(Bytes::from_static(b"{\"hex\":\"00\"}")));
        assert_eq!(headers_from_json(&headers_to_json(&headers)), Some(headers));
        assert_eq!(headers_from_json("[]"), Some(Headers::new()));
    }

    #[test]
    fn what_is_no_list_of_headers_is_refused() {
        for text in ["", "{}", "[1]", "[[\"a\"]]", "[[\"a\",1]]", "[[\"a\",{\"hex\":\"0\"}]]", "[[1,null]]"] {
            assert_eq!(headers_from_json(text), None, "{text}");
        }
    }

    #[test]
    fn numbers_do_not_wrap() {
        assert_eq!(to_column(i64::MAX as u64, "it").unwrap(), i64::MAX);
        let error = to_column(u64::MAX, "the position").unwrap_err().to_string();
        assert!(error.starts_with("the position 18446744073709551615 is above"), "{error}");
    }
}
