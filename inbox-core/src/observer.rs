//! Those who want to know how messages ended.

use crate::Message;

/// What happened to a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Observed<'a> {
    /// Its effect was committed.
    Applied,
    /// It was found applied already.
    Duplicate,
    /// Its id was claimed for other content; that is recorded.
    Conflict,
    /// Its letter is committed, or was found.
    DeadLettered,
    /// It was stored, to be handled later.
    Stored,
    /// It was acknowledged before any work, as the strategy *at most once* does, and not handled.
    Dropped,
    /// Its type is ignored: it is acknowledged without a row.
    Ignored,
    /// An attempt failed, and is rolled back.
    Failed {
        /// Which attempt it was, from 1.
        attempt: u32,
        /// The error and its causes.
        error: &'a str,
        /// Whether another attempt follows.
        will_retry: bool,
    },
}

/// Sees outcomes after they are committed, on the thread that committed them: it must not block. What
/// it does is outside of every promise; a panic in it is caught and logged.
pub trait Observer: Send + Sync + 'static {
    /// `message` ended like this.
    fn observe(&self, message: &Message, observed: Observed<'_>);
}

impl<F: Fn(&Message, Observed<'_>) + Send + Sync + 'static> Observer for F {
    fn observe(&self, message: &Message, observed: Observed<'_>) {
        self(message, observed);
    }
}
