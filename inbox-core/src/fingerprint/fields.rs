//! The fingerprint of chosen fields.

use super::{Fingerprint, canonical::canonical_value};
use crate::JsonPointer;
use sha2::{Digest, Sha256};

/// How many bytes at the beginning of the digest name the list of fields. Lists that differ are rules
/// that differ: their fingerprints are not compared.
pub(super) const TAG_BYTES: usize = 4;

/// The first four bytes of SHA-256 over the pointers, then the first twelve of SHA-256 over the pointers
/// with what stands there. Every text is preceded by its length as eight big-endian bytes.
pub(super) fn of_fields(fields: &[JsonPointer], payload: Option<&[u8]>) -> Fingerprint {
    let mut rule = Sha256::new();
    for field in fields {
        update_with_length(&mut rule, field.as_str().as_bytes());
    }
    let content = digest_of(fields, payload);
    let mut digest = [0; 16];
    digest[..TAG_BYTES].copy_from_slice(&rule.finalize()[..TAG_BYTES]);
    digest[TAG_BYTES..].copy_from_slice(&content.finalize()[..16 - TAG_BYTES]);
    Fingerprint { version: Fingerprint::VERSION_FIELDS, digest }
}

/// One byte (0 for a tombstone, 1 for JSON, 2 for any other payload, which then follows as it is), and
/// for JSON each pointer, followed by 0 when nothing stands there, by 1 and the canonical value, or by 2
/// and the value as written when it has no canonical form.
fn digest_of(fields: &[JsonPointer], payload: Option<&[u8]>) -> Sha256 {
    let mut hash = Sha256::new();
    let Some(payload) = payload else {
        hash.update([0]);
        return hash;
    };
    hash.update([1]);
    for field in fields {
        update_with_length(&mut hash, field.as_str().as_bytes());
        match field.find(payload) {
            Ok(None) => hash.update([0]),
            Ok(Some(value)) => match canonical_value(value) {
                Ok(form) => {
                    hash.update([1]);
                    update_with_length(&mut hash, &form);
                }
                Err(_) => {
                    hash.update([2]);
                    update_with_length(&mut hash, value.get().as_bytes());
                }
            },
            Err(_) => {
                let mut hash = Sha256::new();
                hash.update([2]);
                hash.update(payload);
                return hash;
            }
        }
    }
    hash
}

fn update_with_length(hash: &mut Sha256, bytes: &[u8]) {
    hash.update((bytes.len() as u64).to_be_bytes());
    hash.update(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(fields: &[&str], payload: Option<&str>) -> Fingerprint {
        let fields: Vec<_> = fields.iter().map(|text| JsonPointer::new(text).unwrap()).collect();
        of_fields(&fields, payload.map(str::as_bytes))
    }

    #[test]
    fn only_the_chosen_fields_count() {
        let fields = &["/id", "/sum"];
        let one = of(fields, Some(r#"{"id":"e-102","sum":12500,"at":1}"#));
        assert_eq!(one, of(fields, Some(r#"{ "at":2, "sum":125.00e2, "id":"\u0065-102" }"#)));
        assert!(one.conflicts_with(of(fields, Some(r#"{"id":"e-102","sum":12501}"#))));
    }

    #[test]
    fn absent_null_empty_tombstone_and_broken_are_five_things() {
        let all: Vec<_> = [Some("{}"), Some(r#"{"a":null}"#), Some(r#"{"a":""}"#), None, Some("{\"a\":")]
            .map(|payload| of(&["/a"], payload))
            .into();
        for (n, one) in all.iter().enumerate() {
            assert!(all[n + 1..].iter().all(|other| one.conflicts_with(*other)), "{n}");
        }
        let nested = |levels| format!(r#"{{"a":{}{}}}"#, "[".repeat(levels), "]".repeat(levels));
        assert!(of(&["/a"], Some(&nested(1000))).conflicts_with(of(&["/a"], Some(&nested(1001)))));
    }

    #[test]
    fn a_value_does_not_pass_for_its_neighbour() {
        let fields = &["/a", "/b"];
        let one = of(fields, Some(r#"{"a":"x","b":"yz"}"#));
        assert!(one.conflicts_with(of(fields, Some(r#"{"a":"xy","b":"z"}"#))));
        assert!(one.conflicts_with(of(fields, Some(r#"{"a":"yz","b":"x"}"#))));
    }

    #[test]
    fn another_list_is_another_rule_and_is_not_compared() {
        let payload = Some(r#"{"a":1,"b":2}"#);
        let other = Some(r#"{"a":3,"b":4}"#);
        assert!(!of(&["/a"], payload).conflicts_with(of(&["/a", "/b"], other)));
        assert!(!of(&["/a", "/b"], payload).conflicts_with(of(&["/b", "/a"], other)));
    }
}
