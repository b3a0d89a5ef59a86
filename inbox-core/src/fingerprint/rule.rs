//! The rules by which a fingerprint is computed.

use super::{Fingerprint, canonical, fields};
use crate::{Inbound, JsonPointer};
use sha2::{Digest, Sha256};
use std::{fmt, sync::Arc};

/// What of a record is its content: the part whose change under the same id is a conflict.
///
/// Each rule has its version, and fingerprints of different rules are not compared. So the rule may be
/// changed at any time: rows that were written by the old one find duplicates as before, but no
/// conflicts.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub enum FingerprintOf {
    /// The payload's bytes, version 1: [`Fingerprint::of_payload`]. The default.
    #[default]
    Payload,
    /// The payload's value as JSON, version 2: whitespace, the order of members, escapes and the way a
    /// number is written do not count; a number's digits all do. For producers that serialize anew when
    /// they send again.
    ///
    /// Of a name that occurs twice in an object the last counts. A payload that is no JSON, is nested
    /// deeper than 128 levels, or holds an exponent beyond 64 bits is taken as its bytes.
    CanonicalJson,
    /// The values at these places in the JSON payload, version 3, each taken as its value. For messages
    /// with parts that change from one sending to the next, such as a time. Absent and `null` are two
    /// things. A payload that is no JSON is taken as its bytes.
    ///
    /// Another list, or another order, is another rule, which is not compared with this one.
    Fields(Vec<JsonPointer>),
    /// A rule of the application.
    Own(OwnFingerprint),
    /// Nothing: an id seen again is a duplicate whatever it carries.
    Off,
}

impl FingerprintOf {
    /// The fingerprint of a record.
    pub fn of(&self, inbound: &Inbound) -> Fingerprint {
        let payload = inbound.payload.as_deref();
        match self {
            Self::Payload => Fingerprint::of_payload(payload),
            Self::CanonicalJson => of_canonical_json(payload),
            Self::Fields(fields) => fields::of_fields(fields, payload),
            Self::Own(own) => own.of(inbound),
            Self::Off => Fingerprint::off(),
        }
    }
}

/// Version 2: the first 16 bytes of SHA-256 over one byte (0 for a tombstone, 1 for JSON, 2 for any other
/// payload) followed by the canonical form, or by the payload as it is.
fn of_canonical_json(payload: Option<&[u8]>) -> Fingerprint {
    let mut hash = Sha256::new();
    match payload.map(|bytes| canonical::canonical(bytes).map_err(|_| bytes)) {
        None => hash.update([0]),
        Some(Ok(form)) => {
            hash.update([1]);
            hash.update(form);
        }
        Some(Err(bytes)) => {
            hash.update([2]);
            hash.update(bytes);
        }
    }
    Fingerprint::of_hash(Fingerprint::VERSION_CANONICAL_JSON, hash)
}

/// Why a version cannot be given to a rule of the application.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("fingerprint version {version} is reserved; take one from 128 to 255")]
pub struct OwnVersionError {
    version: u8,
}

type ContentOf = dyn Fn(&Inbound) -> Vec<u8> + Send + Sync;

/// An application's own rule: a function that gives the bytes which stand for a record's content.
#[derive(Clone)]
pub struct OwnFingerprint {
    version: u8,
    content: Arc<ContentOf>,
}

impl OwnFingerprint {
    /// Makes a rule. The fingerprint is the first 16 bytes of SHA-256 over what `content` gives.
    ///
    /// Take another `version` whenever `content` changes: rows of the old one are then not compared with
    /// the new one. The function must give the same bytes for the same record in every run, and must
    /// not panic: it is called outside of the handler, so a panic ends the run.
    ///
    /// # Errors
    /// [`OwnVersionError`] when `version` is below [`Fingerprint::VERSION_OWN_MIN`].
    pub fn new(
        version: u8,
        content: impl Fn(&Inbound) -> Vec<u8> + Send + Sync + 'static,
    ) -> Result<Self, OwnVersionError> {
        if version < Fingerprint::VERSION_OWN_MIN {
            return Err(OwnVersionError { version });
        }
        Ok(Self { version, content: Arc::new(content) })
    }

    /// The version that its fingerprints carry.
    pub fn version(&self) -> u8 {
        self.version
    }

    fn of(&self, inbound: &Inbound) -> Fingerprint {
        Fingerprint::of_hash(self.version, Sha256::new_with_prefix((self.content)(inbound)))
    }
}

impl fmt::Debug for OwnFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OwnFingerprint(v{})", self.version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Partition, Source};

    fn of(rule: &FingerprintOf, payload: Option<&'static str>) -> String {
        let partition = Partition { source: Source::new("test"), number: 0 };
        rule.of(&Inbound::new(partition, payload.map(Into::into))).to_string()
    }

    /// Golden vectors, computed apart from this code:
    /// `printf '\001{"a":"x","b":15e-1}' | sha256sum`, `printf '\000' | sha256sum` and
    /// `printf '\002{"a":1' | sha256sum`, the first 32 digits of each.
    #[test]
    fn version_2_keeps_its_golden_vectors() {
        let rule = FingerprintOf::CanonicalJson;
        assert_eq!(of(&rule, Some(r#" {"b": 1.50, "a": "\u0078"}"#)), "v2:cb0da4f50d4ab24f422d8cae8027fb99");
        assert_eq!(of(&rule, None), "v2:6e340b9cffb37a989ca544e6bb780a2c");
        assert_eq!(of(&rule, Some("{\"a\":1")), "v2:bde0cf6bd25f6a2f7f3b4d679050865f");
    }

    /// Golden vector, computed apart from this code: the first 8 digits of
    /// `printf '\0\0\0\0\0\0\0\002/a\0\0\0\0\0\0\0\002/b' | sha256sum`, then the first 24 of
    /// `printf '\001\0\0\0\0\0\0\0\002/a\001\0\0\0\0\0\0\0\0011\0\0\0\0\0\0\0\002/b\0' | sha256sum`.
    #[test]
    fn version_3_keeps_its_golden_vector() {
        let rule = FingerprintOf::Fields(["/a", "/b"].map(|text| JsonPointer::new(text).unwrap()).into());
        assert_eq!(of(&rule, Some(r#"{"c":9,"a":1.0}"#)), "v3:87da575ed9605142455f5bb2e8180a2c");
    }

    /// Golden vector, computed apart from this code: `printf 'order-7' | sha256sum`.
    #[test]
    fn an_own_rule_has_its_version_and_its_bytes() {
        let rule = OwnFingerprint::new(200, |_| b"order-7".to_vec()).unwrap();
        assert_eq!(rule.version(), 200);
        assert_eq!(of(&FingerprintOf::Own(rule), None), "v200:df8cf80227ec3237922df0ecd88385c5");
        let error = OwnFingerprint::new(127, |_| Vec::new()).unwrap_err();
        assert_eq!(error.to_string(), "fingerprint version 127 is reserved; take one from 128 to 255");
    }

    #[test]
    fn the_default_is_the_payload_and_off_compares_nothing() {
        assert_eq!(of(&FingerprintOf::default(), Some("")), "v1:4bf5122f344554c53bde2ebb8cd2b7e3");
        assert_eq!(of(&FingerprintOf::Off, Some("")), of(&FingerprintOf::Off, Some("x")));
    }
}
