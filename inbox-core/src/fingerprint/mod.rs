//! Content fingerprints: how an id seen again with other content is told from a duplicate.

mod canonical;
mod decimal;
mod fields;
mod rule;

pub use rule::{FingerprintOf, OwnFingerprint, OwnVersionError};

use sha2::{Digest, Sha256};
use std::fmt;

/// A versioned digest of a message's content: one version byte and sixteen bytes of digest.
///
/// Fingerprints of different versions are never compared, so a new rule for computing them cannot
/// turn old rows into conflicts.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint {
    version: u8,
    digest: [u8; 16],
}

/// The length of a stored fingerprint, in bytes.
pub const FINGERPRINT_BYTES: usize = 17;

impl Fingerprint {
    /// The version of "not compared": such a fingerprint conflicts with nothing.
    pub const VERSION_OFF: u8 = 0;
    /// The version of [`Fingerprint::of_payload`].
    pub const VERSION_PAYLOAD: u8 = 1;

    /// The version of [`FingerprintOf::CanonicalJson`].
    pub const VERSION_CANONICAL_JSON: u8 = 2;
    /// The version of [`FingerprintOf::Fields`].
    pub const VERSION_FIELDS: u8 = 3;
    /// The lowest version that an application may give to a [rule of its own](OwnFingerprint).
    pub const VERSION_OWN_MIN: u8 = 128;

    /// A fingerprint that is never compared.
    pub const fn off() -> Self {
        Self { version: Self::VERSION_OFF, digest: [0; 16] }
    }

    /// Version 1: the first 16 bytes of SHA-256 over one byte (1 when there is a payload, 0 for a
    /// tombstone) followed by the payload's bytes.
    pub fn of_payload(payload: Option<&[u8]>) -> Self {
        let mut hash = Sha256::new();
        match payload {
            Some(bytes) => {
                hash.update([1]);
                hash.update(bytes);
            }
            None => hash.update([0]),
        }
        Self::of_hash(Self::VERSION_PAYLOAD, hash)
    }

    fn of_hash(version: u8, hash: Sha256) -> Self {
        let full = hash.finalize();
        let mut digest = [0; 16];
        digest.copy_from_slice(&full[..16]);
        Self { version, digest }
    }

    /// The stored form: the version, then the digest.
    pub fn to_bytes(self) -> [u8; FINGERPRINT_BYTES] {
        let mut bytes = [0; FINGERPRINT_BYTES];
        bytes[0] = self.version;
        bytes[1..].copy_from_slice(&self.digest);
        bytes
    }

    /// Reads the stored form; `None` when it does not have [`FINGERPRINT_BYTES`] bytes.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (version, digest) = bytes.split_first()?;
        Some(Self { version: *version, digest: digest.try_into().ok()? })
    }

    /// The rule it was computed by.
    pub fn version(self) -> u8 {
        self.version
    }

    /// Whether both were computed by the same rule and differ: the content is another one.
    pub fn conflicts_with(self, other: Self) -> bool {
        let same_rule = match self.version {
            Self::VERSION_OFF => false,
            // The rule is the list of fields, of which the digest's beginning is a digest.
            Self::VERSION_FIELDS => self.digest[..fields::TAG_BYTES] == other.digest[..fields::TAG_BYTES],
            _ => true,
        };
        self.version == other.version && same_rule && self.digest != other.digest
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}:", self.version)?;
        self.digest.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Golden vectors, computed apart from this code:
    /// `printf '\001' | sha256sum`, `printf '\000' | sha256sum`, `printf '\001{"a":1}' | sha256sum`.
    #[test]
    fn version_1_keeps_its_golden_vectors() {
        let of = |payload: Option<&str>| Fingerprint::of_payload(payload.map(str::as_bytes)).to_string();
        assert_eq!(of(Some("")), "v1:4bf5122f344554c53bde2ebb8cd2b7e3");
        assert_eq!(of(None), "v1:6e340b9cffb37a989ca544e6bb780a2c");
        assert_eq!(of(Some("{\"a\":1}")), "v1:9a0aa8a2ab9f7fb0acd07a1425444f8b");
    }

    #[test]
    fn only_equal_versions_are_compared() {
        let a = Fingerprint::of_payload(Some(b"a"));
        let b = Fingerprint::of_payload(Some(b"b"));
        assert!(a.conflicts_with(b));
        assert!(!a.conflicts_with(a));
        assert!(!a.conflicts_with(Fingerprint::off()));
        assert!(!Fingerprint::off().conflicts_with(b));
        assert!(!a.conflicts_with(Fingerprint { version: 2, ..b }));
    }

    #[test]
    fn the_stored_form_reads_back() {
        let a = Fingerprint::of_payload(Some(b"a"));
        assert_eq!(Fingerprint::from_bytes(&a.to_bytes()), Some(a));
        assert_eq!(Fingerprint::from_bytes(b"short"), None);
        assert_eq!(Fingerprint::from_bytes(&[]), None);
    }
}
