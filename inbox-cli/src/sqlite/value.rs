//! Values on their way from a message into SQLite, which takes any value in any column.

use crate::{decimal::Decimal, params::Found};
use bytes::Bytes;
use rusqlite::{
    ToSql,
    types::{ToSqlOutput, ValueRef},
};
use serde_json::value::RawValue;

/// A value that can be bound to a parameter.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    /// There is none.
    Null,
    /// A whole number, or a truth value as 0 or 1.
    Integer(i64),
    /// A number that a double holds without loss.
    Real(f64),
    /// Text; also a number with more digits than the types above hold.
    Text(String),
    /// Bytes that are not text.
    Blob(Bytes),
}

impl Value {
    /// The value of what a message has.
    ///
    /// # Errors
    /// When a string has an escape that is no character (half of a surrogate pair).
    pub(crate) fn from_found(found: Found<'_>) -> Result<Self, serde_json::Error> {
        Ok(match found {
            Found::Nothing => Self::Null,
            Found::Json(raw) => Self::from_json(raw)?,
            Found::Bytes(bytes) => Self::from_bytes(bytes),
            Found::Text(text) => Self::Text(text.into_owned()),
            Found::Number(number) => Self::from_u64(number),
            Found::TimestampMs(ms) => Self::Integer(ms),
        })
    }

    /// The value of a piece of JSON. Objects and arrays become their text as it was written.
    ///
    /// # Errors
    /// When a string has an escape that is no character (half of a surrogate pair).
    fn from_json(raw: &RawValue) -> Result<Self, serde_json::Error> {
        let text = raw.get();
        Ok(match text.as_bytes().first() {
            Some(b'n') | None => Self::Null,
            Some(b't') => Self::Integer(1),
            Some(b'f') => Self::Integer(0),
            Some(b'"') => Self::Text(serde_json::from_str(text)?),
            Some(b'-' | b'0'..=b'9') => Self::from_number(text),
            Some(_) => Self::Text(text.to_owned()),
        })
    }

    /// A number keeps all its digits: what neither an `i64` nor a double holds exactly stays text. A
    /// number that is written whole never becomes a double, so that a column of them does not change its type with
    /// the number of zeros at the end; one that is written with a fraction or an exponent is a double
    /// where that holds it, and an integer where only that does.
    fn from_number(text: &str) -> Self {
        if text.bytes().all(|b| b == b'-' || b.is_ascii_digit()) {
            return text.parse().map_or_else(|_| Self::Text(text.to_owned()), Self::Integer);
        }
        match text.parse::<f64>() {
            // `{:e}` writes the shortest digits that read back as the same double.
            Ok(real) if real.is_finite() && Decimal::same(text, &format!("{real:e}")) => Self::Real(real),
            _ => match Decimal::parse(text).and_then(|number| number.to_i64()) {
                Some(whole) => Self::Integer(whole),
                None => Self::Text(text.to_owned()),
            },
        }
    }

    /// Text where the bytes are text, otherwise the bytes.
    fn from_bytes(bytes: &Bytes) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Blob(bytes.clone()),
        }
    }

    /// A number that may be beyond an `i64`.
    fn from_u64(number: u64) -> Self {
        i64::try_from(number).map_or_else(|_| Self::Text(number.to_string()), Self::Integer)
    }
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Integer(number) => ValueRef::Integer(*number),
            Self::Real(number) => ValueRef::Real(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Blob(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn value(json: &str) -> Value {
        Value::from_json(serde_json::from_str::<&RawValue>(json).unwrap()).unwrap()
    }

    #[test]
    fn types_are_kept() {
        for (json, expected) in [
            ("null", Value::Null),
            ("true", Value::Integer(1)),
            ("false", Value::Integer(0)),
            ("9223372036854775807", Value::Integer(i64::MAX)),
            ("-9223372036854775808", Value::Integer(i64::MIN)),
            ("9223372036854775808", Value::Text("9223372036854775808".into())),
            ("10000000000000000000", Value::Text("10000000000000000000".into())),
            ("12.50", Value::Real(12.5)),
            ("1e3", Value::Real(1000.0)),
            ("0.1", Value::Real(0.1)),
            ("9007199254740993.0", Value::Integer(9_007_199_254_740_993)),
            ("-900719925474099.3e1", Value::Integer(-9_007_199_254_740_993)),
            ("9007199254740992.0", Value::Real(9_007_199_254_740_992.0)),
            ("9007199254740993.5", Value::Text("9007199254740993.5".into())),
            ("9223372036854775809.0", Value::Text("9223372036854775809.0".into())),
            ("0.1000000000000000055", Value::Text("0.1000000000000000055".into())),
            ("1e400", Value::Text("1e400".into())),
            ("1e-400", Value::Text("1e-400".into())),
            (r#""a\u00e9\n\u0000""#, Value::Text("aé\n\0".into())),
            (r#"{"a": [1, 2.00]}"#, Value::Text(r#"{"a": [1, 2.00]}"#.into())),
            ("[]", Value::Text("[]".into())),
        ] {
            assert_eq!(value(json), expected, "{json}");
        }
        let half = serde_json::from_str::<&RawValue>(r#""\ud800""#).unwrap();
        assert!(Value::from_json(half).is_err());
    }

    /// The number written without an exponent: sign, digits before and after the point, no zeros at
    /// the outer ends. Another way than `Decimal`'s, to check it by.
    fn plain(text: &str) -> (bool, String, String) {
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().unwrap()),
            None => (text, 0),
        };
        let negative = mantissa.starts_with('-');
        let mantissa = mantissa.trim_start_matches('-');
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let (mut whole, mut fraction) = (whole.to_owned(), fraction.to_owned());
        for _ in 0..exponent.max(0) {
            whole.push(if fraction.is_empty() { '0' } else { fraction.remove(0) });
        }
        for _ in 0..(-exponent).max(0) {
            fraction.insert(0, whole.pop().unwrap_or('0'));
        }
        let whole = whole.trim_start_matches('0').to_owned();
        let fraction = fraction.trim_end_matches('0').to_owned();
        (negative && !(whole.is_empty() && fraction.is_empty()), whole, fraction)
    }

    fn shown(value: &Value) -> String {
        match value {
            Value::Integer(number) => number.to_string(),
            Value::Real(number) => format!("{number:?}"),
            Value::Text(text) => text.clone(),
            other => panic!("a number became {other:?}"),
        }
    }

    proptest! {
        #[test]
        fn no_digit_of_any_number_is_lost(
            text in r"-?(0|[1-9][0-9]{0,24})(\.[0-9]{1,24})?([eE][+-]?[0-9]{1,3})?"
        ) {
            prop_assert_eq!(plain(&shown(&value(&text))), plain(&text));
        }

        #[test]
        fn no_digit_of_a_short_number_is_lost(text in r"-?(0|[1-9][0-9]{0,18})(\.[0-9]{1,6})?(e[0-9])?") {
            prop_assert_eq!(plain(&shown(&value(&text))), plain(&text));
        }

        #[test]
        fn a_double_stays_a_double(number in proptest::num::f64::NORMAL) {
            prop_assert_eq!(value(&format!("{number:?}")), Value::Real(number));
        }

        #[test]
        fn text_stays_text(text in any::<String>()) {
            prop_assert_eq!(value(&serde_json::to_string(&text).unwrap()), Value::Text(text));
        }
    }
}
