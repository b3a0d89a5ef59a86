//! Reading many fields of one JSON object in one pass.

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::{collections::HashMap, fmt};

/// The fields that are wanted of each payload.
#[derive(Debug, Default)]
pub(crate) struct Fields {
    slots: HashMap<Box<str>, usize>,
}

/// What a payload held.
#[derive(Debug)]
pub(crate) enum Payload<'a> {
    /// An object: the raw value of each wanted field, by slot. Of a name that occurs twice the last counts.
    Object(Vec<Option<&'a RawValue>>),
    /// Something else, by its name.
    Other(&'static str),
}

impl Fields {
    /// Wants one more field, and gives its slot.
    pub(crate) fn want(&mut self, name: &str) -> usize {
        let next = self.slots.len();
        *self.slots.entry(name.into()).or_insert(next)
    }

    /// Reads the wanted fields. The whole text is checked to be one JSON value.
    pub(crate) fn read<'a>(&self, json: &'a str) -> Result<Payload<'a>, serde_json::Error> {
        let mut from = serde_json::Deserializer::from_str(json);
        let found = from.deserialize_any(Collect(self))?;
        from.end()?;
        Ok(found)
    }
}

struct Collect<'f>(&'f Fields);

impl<'de> Visitor<'de> for Collect<'_> {
    type Value = Payload<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = vec![None; self.0.slots.len()];
        while let Some(slot) = map.next_key_seed(SlotOf(self.0))? {
            match slot.and_then(|slot| found.get_mut(slot)) {
                Some(place) => *place = Some(map.next_value::<&RawValue>()?),
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(Payload::Object(found))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Payload::Other("an array"))
    }
    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(Payload::Other("true or false"))
    }
    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(Payload::Other("a number"))
    }
    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(Payload::Other("a number"))
    }
    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(Payload::Other("a number"))
    }
    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(Payload::Other("a string"))
    }
    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Payload::Other("null"))
    }
}

struct SlotOf<'f>(&'f Fields);

impl<'de> DeserializeSeed<'de> for SlotOf<'_> {
    type Value = Option<usize>;
    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_str(self)
    }
}

impl Visitor<'_> for SlotOf<'_> {
    type Value = Option<usize>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field name")
    }
    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.slots.get(name).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(names: &[&str]) -> Fields {
        let mut fields = Fields::default();
        for name in names {
            fields.want(name);
        }
        fields
    }

    #[test]
    fn wanted_fields_come_by_slot_whatever_stands_between() {
        let mut wanted = fields(&["b", "é"]);
        assert_eq!(wanted.want("b"), 0);
        let read = wanted.read(r#" {"a":[{"b":1}],"\u0062": 2.50 ,"\u00e9":"x","b":3.0} "#).unwrap();
        let Payload::Object(found) = read else { panic!("{read:?}") };
        let found: Vec<_> = found.into_iter().map(|raw| raw.map(RawValue::get)).collect();
        assert_eq!(found, [Some("3.0"), Some("\"x\"")]);
    }

    #[test]
    fn what_is_no_object_is_named_and_what_is_no_json_is_refused() {
        let wanted = fields(&["a"]);
        for (json, name) in
            [("[1,{}]", "an array"), ("1.5", "a number"), ("null", "null"), ("\"s\"", "a string")]
        {
            assert!(matches!(wanted.read(json).unwrap(), Payload::Other(found) if found == name), "{json}");
        }
        for bad in ["", "{", r#"{"a":1} x"#, r#"{"b":01,"a":1}"#, r#"{"a":1,}"#] {
            assert!(wanted.read(bad).is_err(), "{bad}");
        }
        assert!(wanted.read(&"[".repeat(100_000)).is_err());
        assert!(wanted.read(&format!("{{\"a\":{}", "[".repeat(100_000))).is_err());
    }
}
