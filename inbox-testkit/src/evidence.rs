//! What the database has committed about a message, asked from outside the run.

use inbox_core::{Disposition, Fingerprint};
use std::{fmt, sync::Arc};

/// What is committed about an id at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Evidence {
    /// Its claim: disposition and the content it was claimed for.
    pub claim: Option<(Disposition, Fingerprint)>,
    /// Whether there is a letter.
    pub letter: bool,
    /// Whether the very content that was asked about is recorded as a conflict.
    pub conflict: bool,
    /// How many effects of it with the very content that was asked about are there.
    pub effects: usize,
}

/// Asks the database about an id with a content. It must not go through the store under test, and it
/// must not wait: it is asked in the middle of a settlement.
#[derive(Clone)]
pub struct Witness(Arc<Ask>);

type Ask = dyn Fn(&str, Fingerprint) -> Evidence + Send + Sync;

impl Witness {
    /// A witness that asks like this.
    pub fn new(ask: impl Fn(&str, Fingerprint) -> Evidence + Send + Sync + 'static) -> Self {
        Self(Arc::new(ask))
    }

    /// What is committed about `id` now; `content` is what was delivered.
    pub fn ask(&self, id: &str, content: Fingerprint) -> Evidence {
        (self.0)(id, content)
    }
}

impl fmt::Debug for Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Witness")
    }
}
