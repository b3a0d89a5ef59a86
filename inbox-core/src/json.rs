//! Reading one value out of a JSON document by a JSON pointer, without building the document.

use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;

/// A checked JSON pointer (RFC 6901): empty, or `/` before each step.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct JsonPointer {
    text: Box<str>,
    steps: Box<[Box<str>]>,
}

/// Why a text is no JSON pointer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a JSON pointer: write it as /field or /outer/inner")]
pub struct PointerError {
    text: String,
}

impl JsonPointer {
    /// Checks `text` and splits it into its steps (`~1` stands for `/`, `~0` for `~`).
    ///
    /// # Errors
    /// [`PointerError`] when it is neither empty nor begins with `/`, or has a bad escape.
    pub fn new(text: &str) -> Result<Self, PointerError> {
        let refuse = || PointerError { text: text.chars().take(80).collect() };
        let mut steps = Vec::new();
        if !text.is_empty() {
            for step in text.strip_prefix('/').ok_or_else(refuse)?.split('/') {
                let bad = step
                    .match_indices('~')
                    .any(|(i, _)| !matches!(step.as_bytes().get(i + 1), Some(b'0' | b'1')));
                if bad {
                    return Err(refuse());
                }
                steps.push(step.replace("~1", "/").replace("~0", "~").into_boxed_str());
            }
        }
        Ok(Self { text: text.into(), steps: steps.into_boxed_slice() })
    }

    /// The pointer to one field of the outermost object, whatever characters its name has.
    pub fn field(name: &str) -> Self {
        let text = format!("/{}", name.replace('~', "~0").replace('/', "~1"));
        Self { text: text.into(), steps: Box::new([name.into()]) }
    }

    /// The pointer as written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The raw text of the value it points to, `None` when there is none. The whole document is
    /// checked: what is returned comes from valid JSON. Of a name that occurs twice in one object the
    /// last counts, as in `serde_json::Value`.
    ///
    /// # Errors
    /// When `document` is not one JSON value.
    pub fn find<'a>(&self, document: &'a [u8]) -> Result<Option<&'a RawValue>, serde_json::Error> {
        // What is skipped would not be checked; and a text is read faster than bytes.
        let document = std::str::from_utf8(document).map_err(serde_json::Error::custom)?;
        let mut json = serde_json::Deserializer::from_str(document);
        let found = Walk { steps: &self.steps }.deserialize(&mut json)?;
        json.end()?;
        Ok(found)
    }
}

impl fmt::Display for JsonPointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

struct Walk<'p> {
    steps: &'p [Box<str>],
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = Option<&'de RawValue>;

    fn deserialize<D: serde::Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        if self.steps.is_empty() {
            return serde::Deserialize::deserialize(json).map(Some);
        }
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (step, rest) = self.steps.split_first().ok_or_else(|| A::Error::custom("no step left"))?;
        let mut found = None;
        while let Some(is_it) = map.next_key_seed(NameIs(step))? {
            if is_it {
                found = map.next_value_seed(Walk { steps: rest })?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let (step, rest) = self.steps.split_first().ok_or_else(|| A::Error::custom("no step left"))?;
        // RFC 6901: an index has no leading zero.
        let index = step.parse::<usize>().ok().filter(|n| n.to_string() == **step);
        let mut found = None;
        for at in 0.. {
            if Some(at) == index {
                match seq.next_element_seed(Walk { steps: rest })? {
                    Some(value) => found = value,
                    None => break,
                }
            } else if seq.next_element::<IgnoredAny>()?.is_none() {
                break;
            }
        }
        Ok(found)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(None)
    }
    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(None)
    }
    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(None)
    }
    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(None)
    }
    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(None)
    }
    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }
}

struct NameIs<'p>(&'p str);

impl<'de> DeserializeSeed<'de> for NameIs<'_> {
    type Value = bool;
    fn deserialize<D: serde::Deserializer<'de>>(self, json: D) -> Result<bool, D::Error> {
        json.deserialize_str(self)
    }
}

impl Visitor<'_> for NameIs<'_> {
    type Value = bool;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field name")
    }
    fn visit_str<E>(self, name: &str) -> Result<bool, E> {
        Ok(name == self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(pointer: &str, document: &str) -> Option<String> {
        let pointer = JsonPointer::new(pointer).unwrap();
        pointer.find(document.as_bytes()).unwrap().map(|raw| raw.get().to_owned())
    }

    #[test]
    fn values_are_found_with_every_digit() {
        assert_eq!(find("/a", r#"{"a": 12345678901234567890.0100}"#).unwrap(), "12345678901234567890.0100");
        assert_eq!(find("/a/1/b", r#"{"a":[0,{"b":"x"}]}"#).unwrap(), "\"x\"");
        assert_eq!(find("/a~1b/~0", r#"{"a/b":{"~":null}}"#).unwrap(), "null");
        assert_eq!(find("", "[1]").unwrap(), "[1]");
        assert_eq!(find("/a", r#"{"a":1,"a":2}"#).unwrap(), "2");
    }

    #[test]
    fn what_is_not_there_is_none() {
        assert_eq!(find("/b", r#"{"a":1}"#), None);
        assert_eq!(find("/a/b", r#"{"a":1}"#), None);
        assert_eq!(find("/01", "[1,2]"), None);
        assert_eq!(find("/2", "[1,2]"), None);
        for scalar in ["true", "1", "-1", "1.5", "\"s\"", "null"] {
            assert_eq!(find("/a", scalar), None, "{scalar}");
        }
    }

    #[test]
    fn the_whole_document_is_checked() {
        let pointer = JsonPointer::new("/a").unwrap();
        for bad in [r#"{"a":1"#, r#"{"a":1} x"#, "", "{\"a\":1,}", "\u{feff}{}"] {
            assert!(pointer.find(bad.as_bytes()).is_err(), "{bad:?}");
        }
        assert!(pointer.find(b"{\"a\":1,\"b\":\"\xff\"}").is_err());
    }

    #[test]
    fn pointers_are_checked() {
        assert!(JsonPointer::new("a").is_err());
        assert!(JsonPointer::new("/a~2").is_err());
        assert!(JsonPointer::new("/a~").is_err());
        assert_eq!(JsonPointer::field("a/b~c"), JsonPointer::new("/a~1b~0c").unwrap());
    }

    #[test]
    fn a_deep_document_is_an_error_and_not_a_crash() {
        let pointer = JsonPointer::new("/a").unwrap();
        let deep = "[".repeat(100_000);
        assert!(pointer.find(deep.as_bytes()).is_err());
    }
}
