//! The effect under test: never idempotent by itself.

use super::{MemoryConnection, MemoryError};
use inbox_core::{Fingerprint, Message};

/// The table that [`apply_effect`] appends to.
pub const EFFECTS: &str = "effects";

/// The counter that [`apply_effect`] raises by one.
pub const COUNTER: &str = "applied";

/// A row of an append-only table without a key: applying a message twice leaves two.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectRow {
    /// The message that it comes from.
    pub id: String,
    /// The message's ordering key.
    pub key: Option<String>,
    /// The message's content.
    pub content: Fingerprint,
    /// Its place in the table; rows of one transaction follow each other.
    pub seq: u64,
}

/// What a handler under test does: appends a row about the message to [`EFFECTS`] and adds one to
/// [`COUNTER`].
///
/// # Errors
/// [`MemoryError`] when the transaction cannot be used any more.
pub fn apply_effect(connection: &mut MemoryConnection, message: &Message) -> Result<(), MemoryError> {
    connection.append(EFFECTS, message)?;
    connection.add(COUNTER, 1)
}
