//! A version below 128 is not to be had for a rule of the application's own.

use inbox_core::{Fingerprint, OwnFingerprint};
use std::sync::Arc;

fn rule() -> OwnFingerprint {
    OwnFingerprint { version: Fingerprint::VERSION_PAYLOAD, content: Arc::new(|_| Vec::new()) }
}

fn main() {}
