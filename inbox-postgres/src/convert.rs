//! Rust's values as columns, and back.

use bytes::Bytes;
use inbox_core::{
    ClaimKey, Disposition, FaultClass, Fingerprint, Headers, Inbound, MessageId, Partition, Position, Scope,
    Source, StoreError,
};
use serde_json::{Value, json};
use sqlx::{
    Error, Postgres, Row as _,
    postgres::{PgArguments, PgRow},
    query::Query,
};
use std::borrow::Cow;

/// The columns of a record, in the order of [`RecordRow::bind`] and [`read_record`].
pub(crate) const RECORD_COLUMNS: &str = "source, partition, position_at, position_next, key, native_id, \
     message_type, headers, payload, timestamp_ms, oversize_bytes";

/// The number of [`RECORD_COLUMNS`].
pub(crate) const RECORD_WIDTH: usize = 11;

/// The first byte of an id that is kept as the 16 bytes of a UUID. It is in no UTF-8.
const UUID_TAG: u8 = 0xff;

/// The length of a UUID's usual text.
const UUID_TEXT_BYTES: usize = 36;

/// An id as it is kept: its text, but a UUID in its usual form (small letters, four dashes) as 17 bytes,
/// which makes table and index a third smaller.
pub(crate) fn id_to_column(id: &str) -> Cow<'_, [u8]> {
    match uuid_bytes(id.as_bytes()) {
        Some(bytes) => Cow::Owned(bytes.to_vec()),
        None => Cow::Borrowed(id.as_bytes()),
    }
}

fn uuid_bytes(text: &[u8]) -> Option<[u8; 17]> {
    if text.len() != UUID_TEXT_BYTES {
        return None;
    }
    let mut bytes = [0; 17];
    bytes[0] = UUID_TAG;
    let mut digits = 0;
    for (at, byte) in text.iter().enumerate() {
        let digit = match (byte, at) {
            (b'-', 8 | 13 | 18 | 23) => continue,
            (_, 8 | 13 | 18 | 23) => return None,
            (b'0'..=b'9', _) => byte - b'0',
            (b'a'..=b'f', _) => byte - b'a' + 10,
            _ => return None,
        };
        bytes[1 + digits / 2] |= if digits % 2 == 0 { digit << 4 } else { digit };
        digits += 1;
    }
    Some(bytes)
}

/// Reads [`id_to_column`].
pub(crate) fn id_from_column(column: &[u8]) -> Option<String> {
    let [UUID_TAG, uuid @ ..] = column else { return String::from_utf8(column.to_vec()).ok() };
    if uuid.len() != 16 {
        return None;
    }
    let mut text = String::with_capacity(UUID_TEXT_BYTES);
    for (at, byte) in uuid.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        for digit in [byte >> 4, byte & 15] {
            text.extend(char::from_digit(u32::from(digit), 16));
        }
    }
    Some(text)
}

/// PostgreSQL's integers have a sign. A number that does not fit is an error, never a wrapped one.
pub(crate) fn to_column(number: u64, what: &str) -> Result<i64, StoreError> {
    i64::try_from(number).map_err(|_| {
        let message = format!("{what} {number} is above {}, the largest integer of PostgreSQL", i64::MAX);
        StoreError::failed(FaultClass::Permanent, message)
    })
}

/// A column that holds what this crate never writes.
fn unreadable(what: impl Into<String>) -> Error {
    Error::Decode(what.into().into())
}

/// Reads a number that has no sign.
pub(crate) fn read_number<N: TryFrom<i64>>(row: &PgRow, column: usize) -> Result<N, Error> {
    let number: i64 = row.try_get(column)?;
    N::try_from(number).map_err(|_| unreadable(format!("column {column} holds {number}")))
}

fn read_number_or_null(row: &PgRow, column: usize) -> Result<Option<u64>, Error> {
    match row.try_get::<Option<i64>, _>(column)? {
        Some(_) => read_number(row, column).map(Some),
        None => Ok(None),
    }
}

pub(crate) fn fingerprint_of(bytes: &[u8]) -> Result<Fingerprint, Error> {
    Fingerprint::from_bytes(bytes).ok_or_else(|| unreadable("it is not a fingerprint of 17 bytes"))
}

/// Reads a fingerprint.
pub(crate) fn read_fingerprint(row: &PgRow, column: usize) -> Result<Fingerprint, Error> {
    fingerprint_of(row.try_get(column)?)
}

/// Reads a disposition.
pub(crate) fn read_disposition(code: i16) -> Result<Disposition, Error> {
    Disposition::from_code(code).ok_or_else(|| unreadable(format!("{code} is not a disposition")))
}

/// Reads scope and id, which stand beside each other as texts.
pub(crate) fn read_claim_key(row: &PgRow, column: usize) -> Result<ClaimKey, Error> {
    claim_key(row.try_get(column)?, row.try_get(column + 1)?)
}

/// Joins scope and id.
pub(crate) fn claim_key(scope: &str, id: &str) -> Result<ClaimKey, Error> {
    let scope = Scope::stored(scope).map_err(|e| unreadable(format!("it is not a scope: {e}")))?;
    let id = MessageId::new(id).map_err(|e| unreadable(format!("it is not a message id: {e}")))?;
    Ok(ClaimKey { scope, id })
}

/// A text without NUL, which PostgreSQL cannot hold: U+FFFD stands for it.
pub(crate) fn without_nul(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { Cow::Owned(text.replace('\0', "\u{fffd}")) } else { Cow::Borrowed(text) }
}

/// A record, ready to be bound.
pub(crate) struct RecordRow<'r> {
    inbound: &'r Inbound,
    position: Option<(i64, i64)>,
    oversize_bytes: Option<i64>,
    headers: String,
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
            headers: headers_to_json(&inbound.headers),
        })
    }

    /// Binds the values of [`RECORD_COLUMNS`] behind the others.
    pub(crate) fn bind<'q>(self, query: Query<'q, Postgres, PgArguments>) -> Query<'q, Postgres, PgArguments>
    where
        'r: 'q,
    {
        let Inbound { partition, key, native_id, message_type, payload, timestamp_ms, .. } = self.inbound;
        query
            .bind(without_nul(partition.source.as_str()))
            .bind(i64::from(partition.number))
            .bind(self.position.map(|(at, _)| at))
            .bind(self.position.map(|(_, next)| next))
            .bind(key.as_deref())
            .bind(native_id.as_deref().map(without_nul))
            .bind(message_type.as_deref().map(without_nul))
            .bind(self.headers)
            .bind(payload.as_deref())
            .bind(*timestamp_ms)
            .bind(self.oversize_bytes)
    }
}

/// Reads [`RECORD_COLUMNS`], the first of which is column `at`.
pub(crate) fn read_record(row: &PgRow, at: usize) -> Result<Inbound, Error> {
    let bytes = |column: usize| -> Result<Option<Bytes>, Error> {
        Ok(row.try_get::<Option<&[u8]>, _>(column)?.map(Bytes::copy_from_slice))
    };
    let text = |column: usize| -> Result<Option<Box<str>>, Error> {
        Ok(row.try_get::<Option<&str>, _>(column)?.map(Box::from))
    };
    let source = Source::new(row.try_get::<&str, _>(at)?);
    let mut inbound = Inbound::new(Partition { source, number: read_number(row, at + 1)? }, bytes(at + 8)?);
    inbound.position = match (read_number_or_null(row, at + 2)?, read_number_or_null(row, at + 3)?) {
        (Some(at), Some(next)) => Some(Position { at, next }),
        _ => None,
    };
    inbound.key = bytes(at + 4)?;
    inbound.native_id = text(at + 5)?;
    inbound.message_type = text(at + 6)?;
    inbound.headers =
        headers_from_json(row.try_get(at + 7)?).ok_or_else(|| unreadable("it is not a list of headers"))?;
    inbound.timestamp_ms = row.try_get(at + 9)?;
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
    let digits: Vec<u32> = text.chars().map(|c| c.to_digit(16)).collect::<Option<_>>()?;
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    digits.chunks(2).map(|pair| u8::try_from(pair[0] * 16 + pair[1]).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_kept_exactly_and_uuids_in_17_bytes() {
        let uuid = "0123a567-89ab-cdef-0123-456789abcdef";
        assert_eq!(id_to_column(uuid).len(), 17);
        let others = [
            "a",
            "é",
            "0123A567-89ab-cdef-0123-456789abcdef",
            "0123a567089ab-cdef-0123-456789abcdef",
            "0123a56--89ab-cdef-0123-456789abcdef",
            "0123a567-89ab-cdef-0123-456789abcdeg",
            "0123a567-89ab-cdef-0123-456789abcde",
            "0123a567-89ab-cdef-0123-456789abcdef0",
            "éééééééééééééééééé",
        ];
        for id in others {
            assert_eq!(&*id_to_column(id), id.as_bytes());
        }
        for id in others.into_iter().chain([uuid, "ffffffff-ffff-ffff-ffff-ffffffffffff"]) {
            assert_eq!(id_from_column(&id_to_column(id)).as_deref(), Some(id));
        }
        assert_eq!(id_from_column(&[UUID_TAG, 1]), None);
    }

    #[test]
    fn headers_keep_order_repeats_absent_values_and_bytes() {
        let mut headers = Headers::new();
        headers.push("a", Some(Bytes::from_static(b"text \"quoted\" \0 end")));
        headers.push("a", None);
        headers.push("", Some(Bytes::new()));
        headers.push("b\0", Some(Bytes::from_static(&[0, 159, 146, 150])));
        headers.push("c", Some(Bytes::from_static(b"{\"hex\":\"00\"}")));
        let json = headers_to_json(&headers);
        assert!(!json.contains('\0'));
        assert_eq!(headers_from_json(&json), Some(headers));
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
