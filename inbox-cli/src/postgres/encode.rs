//! From what a message has to what PostgreSQL is sent: the binary format of the parameter's type, made
//! without loss or not at all.

use super::{
    json, numeric, time,
    types::{Kind, ParamType},
};
use crate::{decimal::Decimal, params::Found};
use inbox_postgres::sqlx::{
    Encode, Postgres, Type,
    encode::IsNull,
    error::BoxDynError,
    postgres::{PgArgumentBuffer, PgTypeInfo, types::Oid},
};
use serde_json::value::RawValue;
use std::{borrow::Cow, fmt};

/// A value in the binary format; none is NULL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Encoded {
    oid: u32,
    bytes: Option<Vec<u8>>,
}

/// Why a value cannot become what its parameter needs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unfit {
    /// What was found, such as "a string".
    what: &'static str,
    /// Which element of an array it is about, counted from 1, and what that is.
    element: Option<(usize, &'static str)>,
    type_name: String,
    why: Option<Cow<'static, str>>,
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cannot become {}", self.what, self.type_name)?;
        if let Some((number, what)) = self.element {
            write!(f, ": element {number} is {what}")?;
        }
        self.why.as_ref().map_or(Ok(()), |why| write!(f, ": {why}"))
    }
}

/// What was found, by its kind.
enum Given<'m> {
    Null,
    Bool(bool),
    Number(Cow<'m, str>),
    Text(Cow<'m, str>),
    Bytes(&'m [u8]),
    Array(&'m str),
    Object(&'m str),
    TimestampMs(i64),
}

/// Nothing more to say than that they do not fit, or why.
type Reason = Option<Cow<'static, str>>;

impl Encoded {
    /// The value for a parameter.
    pub(crate) fn new(of: &ParamType, found: Found<'_>) -> Result<Self, Unfit> {
        let what = what(&found);
        let unfit = |why: Reason| Unfit { what, element: None, type_name: of.name.clone(), why };
        let bytes = match of.element_oid {
            Some(element_oid) => array(of, element_oid, found, what)?,
            None => one(of.kind, found).map_err(unfit)?,
        };
        Ok(Self { oid: of.oid, bytes })
    }
}

fn what(found: &Found<'_>) -> &'static str {
    match found {
        Found::Nothing => "nothing",
        Found::Json(raw) => match raw.get().as_bytes().first() {
            Some(b'n') | None => "null",
            Some(b't' | b'f') => "true or false",
            Some(b'"') => "a string",
            Some(b'[') => "an array",
            Some(b'{') => "an object",
            Some(_) => "a number",
        },
        Found::Bytes(bytes) if std::str::from_utf8(bytes).is_err() => "bytes that are no text",
        Found::Bytes(_) | Found::Text(_) => "text",
        Found::Number(_) => "a number",
        Found::TimestampMs(_) => "a time in milliseconds",
    }
}

/// Encodes one value; `None` is NULL.
fn one(kind: Kind, found: Found<'_>) -> Result<Option<Vec<u8>>, Reason> {
    if let Kind::Json | Kind::Jsonb = kind {
        return document(kind, &found);
    }
    let given = match found {
        Found::Nothing => Given::Null,
        Found::Json(raw) => given(raw).map_err(|error| Some(error.to_string().into()))?,
        Found::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => Given::Text(text.into()),
            Err(_) => Given::Bytes(bytes),
        },
        Found::Text(text) => Given::Text(text),
        Found::Number(number) => Given::Number(number.to_string().into()),
        Found::TimestampMs(ms) => Given::TimestampMs(ms),
    };
    if let Given::Null = given {
        return Ok(None);
    }
    let mut out = Vec::new();
    scalar(kind, given, &mut out).map(|()| Some(out))
}

fn given(raw: &RawValue) -> Result<Given<'_>, serde_json::Error> {
    let text = raw.get();
    Ok(match text.as_bytes().first() {
        Some(b'n') | None => Given::Null,
        Some(b't') => Given::Bool(true),
        Some(b'f') => Given::Bool(false),
        Some(b'"') => Given::Text(serde_json::from_str::<String>(text)?.into()),
        Some(b'[') => Given::Array(text),
        Some(b'{') => Given::Object(text),
        Some(_) => Given::Number(text.into()),
    })
}

fn scalar(kind: Kind, given: Given<'_>, out: &mut Vec<u8>) -> Result<(), Reason> {
    match (kind, given) {
        (Kind::Text, given) => text(given, out)?,
        (Kind::Bytes, Given::Text(text)) => out.extend_from_slice(text.as_bytes()),
        (Kind::Bytes, Given::Bytes(bytes)) => out.extend_from_slice(bytes),
        (Kind::Bool, Given::Bool(value)) => out.push(value.into()),
        (Kind::Bool, Given::Text(text)) => match &*text {
            "true" | "t" => out.push(1),
            "false" | "f" => out.push(0),
            _ => return Err(Some("it is neither true nor false".into())),
        },
        (Kind::Integer(bytes), Given::Number(text) | Given::Text(text)) => integer(bytes, &text, out)?,
        (Kind::Integer(bytes), Given::TimestampMs(ms)) => integer(bytes, &ms.to_string(), out)?,
        (Kind::Numeric, Given::Number(text) | Given::Text(text)) => match &*text {
            "NaN" => numeric::push_nan(out),
            text if numeric::is_number(text) => numeric::push(text, out).map_err(|why| Some(why.into()))?,
            _ => return Err(Some("it is no number".into())),
        },
        // Not by way of a double, which would round twice.
        (Kind::Real, Given::Number(text) | Given::Text(text)) => {
            out.extend(float(&text, f32::is_infinite, |value| value == 0.0)?.to_be_bytes());
        }
        (Kind::Double, Given::Number(text) | Given::Text(text)) => {
            out.extend(float(&text, f64::is_infinite, |value| value == 0.0)?.to_be_bytes());
        }
        (Kind::Date, Given::Text(text)) => put(time::date(&text).map(i32::to_be_bytes), out)?,
        (Kind::Time, Given::Text(text)) => put(time::time(&text).map(i64::to_be_bytes), out)?,
        (Kind::Timestamp, Given::Text(text)) => put(time::timestamp(&text).map(i64::to_be_bytes), out)?,
        (Kind::TimestampTz, Given::Text(text)) => put(time::timestamptz(&text).map(i64::to_be_bytes), out)?,
        (Kind::TimestampTz, Given::TimestampMs(ms)) => {
            put(time::timestamptz_of_ms(ms).map(i64::to_be_bytes), out)?;
        }
        (Kind::Uuid, Given::Text(text)) => put(uuid(&text).ok_or("it is no UUID"), out)?,
        _ => return Err(None),
    }
    Ok(())
}

fn put<const N: usize>(bytes: Result<[u8; N], &'static str>, out: &mut Vec<u8>) -> Result<(), Reason> {
    out.extend(bytes.map_err(|why| Some(why.into()))?);
    Ok(())
}

/// Everything but bytes is text, as it was written.
fn text(given: Given<'_>, out: &mut Vec<u8>) -> Result<(), Reason> {
    let text: Cow<'_, str> = match given {
        Given::Null | Given::Bytes(_) => return Err(None),
        Given::Bool(value) => if value { "true" } else { "false" }.into(),
        Given::Number(text) | Given::Text(text) => text,
        Given::Array(text) | Given::Object(text) => text.into(),
        Given::TimestampMs(ms) => ms.to_string().into(),
    };
    if text.contains('\0') {
        return Err(Some("it has a NUL, which PostgreSQL's text cannot hold".into()));
    }
    out.extend_from_slice(text.as_bytes());
    Ok(())
}

fn integer(bytes: u8, text: &str, out: &mut Vec<u8>) -> Result<(), Reason> {
    let number = match text.parse::<i64>() {
        Ok(number) => number,
        Err(_) if !numeric::is_number(text) => return Err(Some("it is no number".into())),
        // Perhaps 1.0 or 1e3.
        Err(_) => {
            let text = text.strip_prefix('+').unwrap_or(text);
            let whole = Decimal::parse(text).and_then(|number| number.to_i64());
            whole.ok_or(Some("it is not a whole number, or beyond the range".into()))?
        }
    };
    let beyond = |_| Some("it is beyond the range".into());
    match bytes {
        2 => out.extend(i16::try_from(number).map_err(beyond)?.to_be_bytes()),
        4 => out.extend(i32::try_from(number).map_err(beyond)?.to_be_bytes()),
        _ => out.extend(number.to_be_bytes()),
    }
    Ok(())
}

/// The nearest one that there is.
fn float<F: std::str::FromStr + Copy>(
    text: &str,
    is_infinite: impl Fn(F) -> bool,
    is_zero: impl Fn(F) -> bool,
) -> Result<F, Reason> {
    let no_number = || Some("it is no number".into());
    if !matches!(text, "NaN" | "Infinity" | "-Infinity") {
        if !numeric::is_number(text) {
            return Err(no_number());
        }
        let digits = text.split(['e', 'E']).next().unwrap_or(text);
        let is_nothing = !digits.contains(|c| matches!(c, '1'..='9'));
        let value = text.parse::<F>().map_err(|_| no_number())?;
        if is_infinite(value) || (is_zero(value) && !is_nothing) {
            return Err(Some("it is beyond the range".into()));
        }
        return Ok(value);
    }
    text.parse::<F>().map_err(|_| no_number())
}

/// 32 hexadecimal digits, hyphens between any groups of four, perhaps in braces: as the server reads it.
fn uuid(text: &str) -> Option<[u8; 16]> {
    let inner = text.strip_prefix('{').map_or(Some(text), |text| text.strip_suffix('}'))?;
    let mut digits = String::with_capacity(32);
    for part in inner.split('-') {
        if part.is_empty() || part.len() % 4 != 0 || !part.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        digits.push_str(part);
    }
    if digits.len() != 32 {
        return None;
    }
    u128::from_str_radix(&digits, 16).ok().map(u128::to_be_bytes)
}

/// Encodes `json` and `jsonb`: a piece of the payload as it is; what comes from elsewhere has to be JSON.
fn document(kind: Kind, found: &Found<'_>) -> Result<Option<Vec<u8>>, Reason> {
    let not_json = |_| Some("it is not JSON".into());
    let (number, raw);
    let text = match found {
        Found::Nothing => return Ok(None),
        Found::Json(raw) => raw.get(),
        Found::Bytes(bytes) => {
            raw = serde_json::from_slice::<&RawValue>(bytes).map_err(not_json)?;
            raw.get()
        }
        Found::Text(text) => {
            raw = serde_json::from_str::<&RawValue>(text).map_err(not_json)?;
            raw.get()
        }
        Found::Number(value) => {
            number = value.to_string();
            &number
        }
        Found::TimestampMs(ms) => {
            number = ms.to_string();
            &number
        }
    };
    if text == "null" {
        return Ok(None);
    }
    let mut out = Vec::with_capacity(text.len() + 1);
    if kind == Kind::Jsonb {
        json::check_strings(text).map_err(|why| Some(why.into()))?;
        // The version of the format.
        out.push(1);
    }
    out.extend_from_slice(text.as_bytes());
    Ok(Some(out))
}

/// Encodes an array of one dimension.
fn array(
    of: &ParamType,
    element_oid: u32,
    found: Found<'_>,
    what: &'static str,
) -> Result<Option<Vec<u8>>, Unfit> {
    let unfit = |element, why| Unfit { what, element, type_name: of.name.clone(), why };
    let text = match &found {
        Found::Nothing => return Ok(None),
        Found::Json(raw) => raw.get(),
        Found::Bytes(bytes) => std::str::from_utf8(bytes).map_err(|_| unfit(None, None))?,
        Found::Text(text) => text,
        Found::Number(_) | Found::TimestampMs(_) => return Err(unfit(None, None)),
    };
    if text == "null" {
        return Ok(None);
    }
    let elements: Vec<&RawValue> = serde_json::from_str(text).map_err(|_| unfit(None, None))?;
    let length = i32::try_from(elements.len()).map_err(|_| unfit(None, Some("it is too long".into())))?;
    let mut has_null = false;
    let mut out = Vec::with_capacity(20 + elements.len() * 8);
    // Dimensions, whether there are nulls, the type; of each dimension the length and the first number.
    out.extend([i32::from(length > 0).to_be_bytes(), [0; 4], element_oid.to_be_bytes()].concat());
    if length > 0 {
        out.extend([length.to_be_bytes(), 1_i32.to_be_bytes()].concat());
    }
    for (number, raw) in (1..).zip(elements) {
        let element = Found::Json(raw);
        let at = Some((number, self::what(&element)));
        match one(of.kind, element).map_err(|why| unfit(at, why))? {
            Some(bytes) => {
                let length =
                    i32::try_from(bytes.len()).map_err(|_| unfit(at, Some("it is too long".into())))?;
                out.extend(length.to_be_bytes());
                out.extend(bytes);
            }
            None => {
                has_null = true;
                out.extend((-1_i32).to_be_bytes());
            }
        }
    }
    if let Some(flag) = out.get_mut(7) {
        *flag = has_null.into();
    }
    Ok(Some(out))
}

impl Type<Postgres> for Encoded {
    fn type_info() -> PgTypeInfo {
        // Each value tells its own.
        PgTypeInfo::with_oid(Oid(0))
    }

    fn compatible(_: &PgTypeInfo) -> bool {
        true
    }
}

impl Encode<'_, Postgres> for Encoded {
    fn encode_by_ref(&self, out: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        match &self.bytes {
            Some(bytes) => {
                out.extend_from_slice(bytes);
                Ok(IsNull::No)
            }
            None => Ok(IsNull::Yes),
        }
    }

    fn produces(&self) -> Option<PgTypeInfo> {
        Some(PgTypeInfo::with_oid(Oid(self.oid)))
    }

    fn size_hint(&self) -> usize {
        self.bytes.as_ref().map_or(0, Vec::len)
    }
}

#[cfg(test)]
#[path = "encode_tests.rs"]
mod tests;
