//! Durable records of what was not applied: letters and conflicts.

use crate::{ClaimKey, Fingerprint, Group, InboxStore, Message, StoreError};
use async_trait::async_trait;

/// Why a message became a letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LetterReason {
    /// It has no usable id.
    Unidentified,
    /// Its payload could not be decoded.
    Undecodable,
    /// It is larger than the limit; the letter holds a prefix.
    Oversize,
    /// Its message type has no route.
    UnknownType,
    /// Its handler failed as often as the policy allows, or permanently.
    Failed,
    /// Whenever it was started, the process ended or the connection to the store was lost.
    Suspect,
}

impl LetterReason {
    /// The word that stores and the command line write; it never changes.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unidentified => "unidentified",
            Self::Undecodable => "undecodable",
            Self::Oversize => "oversize",
            Self::UnknownType => "unknown_type",
            Self::Failed => "failed",
            Self::Suspect => "suspect",
        }
    }

    /// Reads [`LetterReason::as_str`].
    pub fn from_word(word: &str) -> Option<Self> {
        [
            Self::Unidentified,
            Self::Undecodable,
            Self::Oversize,
            Self::UnknownType,
            Self::Failed,
            Self::Suspect,
        ]
        .into_iter()
        .find(|reason| reason.as_str() == word)
    }
}

/// The longest error text that is kept, in bytes.
pub const ERROR_BYTES_MAX: usize = 4096;

/// An error text as it is kept: cut to [`ERROR_BYTES_MAX`] between two characters, with `…` behind it.
pub fn cut_error(error: impl Into<String>) -> String {
    let mut error = error.into();
    if error.len() > ERROR_BYTES_MAX {
        let end = (0..=ERROR_BYTES_MAX - '…'.len_utf8()).rev().find(|&i| error.is_char_boundary(i));
        error.truncate(end.unwrap_or(0));
        error.push('…');
    }
    error
}

/// A dead message, to be written down.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Letter {
    /// The message, raw payload and headers included.
    pub message: Message,
    /// Why.
    pub reason: LetterReason,
    /// The last error, cut to [`ERROR_BYTES_MAX`].
    pub error: String,
    /// How often its handler was started.
    pub attempts: u32,
}

impl Letter {
    /// A letter about `message`.
    pub fn new(message: Message, reason: LetterReason, error: impl Into<String>, attempts: u32) -> Self {
        Self { message, reason, error: cut_error(error), attempts }
    }
}

/// A message that came with a known id and other content.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Conflict {
    /// The message that was not applied.
    pub message: Message,
    /// The fingerprint of the content that the row was written for.
    pub stored: Fingerprint,
}

impl Conflict {
    /// A conflict of `message` with what its row was `stored` for.
    pub fn new(message: Message, stored: Fingerprint) -> Self {
        Self { message, stored }
    }
}

/// A store that keeps letters and conflicts. Needed for dead-lettering.
///
/// # Contract
/// Each clause names the cases of `inbox_testkit::suite::store` that check it.
///
/// 1. What is written becomes durable with the transaction, as the claims do.
///    (`letters_with_the_transaction`)
/// 2. [`bury`](Letters::bury) gives the claim that this transaction holds the disposition *dead*.
///    (`buried_is_dead`, `burying_spares_the_others`)
/// 3. The same letter (group, scope, id) or the same conflict (group, scope, id, content) is kept once,
///    however often it is written. (`letter_kept_once`, `letters_of_groups_are_separate`,
///    `conflict_kept_once_and_counted`)
/// 4. A record reads back as it was. A number that cannot be held is an error; in a text, NUL may be
///    replaced. (`records_read_back_whole`, `absent_is_not_empty`, `large_payload`,
///    `large_numbers_in_letters`, `nul_in_texts_is_survived`)
#[async_trait]
pub trait Letters: InboxStore {
    /// Writes letters, and the disposition *dead* into their claims, which this transaction made.
    ///
    /// # Errors
    /// [`StoreError`]; the transaction must be rolled back.
    async fn bury(&self, tx: &mut Self::Tx, group: &Group, letters: &[Letter]) -> Result<(), StoreError>;

    /// Writes conflicts down, those that are already there once more counted.
    ///
    /// # Errors
    /// [`StoreError`]; the transaction must be rolled back.
    async fn record_conflicts(
        &self,
        tx: &mut Self::Tx,
        group: &Group,
        conflicts: &[Conflict],
    ) -> Result<(), StoreError>;
}

/// A letter as it was read back.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct StoredLetter {
    /// Its number in the store.
    pub letter_id: i64,
    /// The group whose message it was.
    pub group: String,
    /// What it was claimed under.
    pub claim: ClaimKey,
    /// Why it died.
    pub reason: String,
    /// The last error.
    pub error: String,
    /// How often its handler was started.
    pub attempts: u32,
    /// When it was written, in milliseconds since 1970-01-01 UTC.
    pub created_at_ms: i64,
    /// The record, as far as it is kept.
    pub inbound: crate::Inbound,
}

/// A conflict as it was read back.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct StoredConflict {
    /// Its number in the store.
    pub conflict_id: i64,
    /// The group whose message it was.
    pub group: String,
    /// The id that came again.
    pub claim: ClaimKey,
    /// The fingerprint of the content that was applied first.
    pub stored: Fingerprint,
    /// The fingerprint of the content that was refused.
    pub refused: Fingerprint,
    /// How often it came.
    pub seen: u32,
    /// When it first came, in milliseconds since 1970-01-01 UTC.
    pub first_at_ms: i64,
    /// The refused record.
    pub inbound: crate::Inbound,
}

/// Which records to list.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Page {
    /// Only those of this group; of all groups when absent.
    pub group: Option<Group>,
    /// Only those numbered above this one.
    pub after: i64,
    /// At most this many.
    pub rows_max: u32,
}

impl Page {
    /// The first `rows_max` records of `group`, or of all groups.
    pub fn first(group: Option<Group>, rows_max: u32) -> Self {
        Self { group, after: 0, rows_max }
    }
}

impl StoredLetter {
    /// Joins the columns of a letter; for stores.
    #[allow(clippy::too_many_arguments)]
    pub fn new(
        letter_id: i64,
        group: String,
        claim: ClaimKey,
        reason: String,
        error: String,
        attempts: u32,
        created_at_ms: i64,
        inbound: crate::Inbound,
    ) -> Self {
        Self { letter_id, group, claim, reason, error, attempts, created_at_ms, inbound }
    }
}

impl StoredConflict {
    /// Joins the columns of a conflict; for stores.
    #[allow(clippy::too_many_arguments)]
    pub fn new(
        conflict_id: i64,
        group: String,
        claim: ClaimKey,
        stored: Fingerprint,
        refused: Fingerprint,
        seen: u32,
        first_at_ms: i64,
        inbound: crate::Inbound,
    ) -> Self {
        Self { conflict_id, group, claim, stored, refused, seen, first_at_ms, inbound }
    }
}

/// A store whose letters and conflicts can be looked at.
///
/// # Contract
/// Each clause names the cases of `inbox_testkit::suite::store` that check it.
///
/// 1. Pages go up by number, and cover every record once. (`pages_cover_everything_once`)
/// 2. A letter is found by its number. (`letter_by_number`)
/// 3. Counts are exact, groups by name. (`rows_are_counted_by_group`)
#[async_trait]
pub trait Inspect: Letters {
    /// Letters by rising number, payloads included.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn letters(&self, page: &Page) -> Result<Vec<StoredLetter>, StoreError>;

    /// One letter.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn letter(&self, letter_id: i64) -> Result<Option<StoredLetter>, StoreError>;

    /// Conflicts by rising number, payloads included.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn conflicts(&self, page: &Page) -> Result<Vec<StoredConflict>, StoreError>;

    /// How many rows each group has, by name of the group.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn group_stats(&self) -> Result<Vec<GroupStats>, StoreError>;
}

/// Counts of one group's records.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupStats {
    /// The group's name.
    pub group: String,
    /// Claims with the disposition applied.
    pub applied: u64,
    /// Claims with the disposition dead.
    pub dead: u64,
    /// Claims with the disposition parked.
    pub parked: u64,
    /// Claims with the disposition stored.
    pub stored: u64,
    /// Conflicts, each content once.
    pub conflicts: u64,
}

impl GroupStats {
    /// No rows yet.
    pub fn new(group: impl Into<String>) -> Self {
        Self { group: group.into(), ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_cut_between_characters() {
        let whole = "x".repeat(ERROR_BYTES_MAX);
        assert_eq!(cut_error(whole.as_str()), whole);
        assert_eq!(cut_error(whole + "x"), "x".repeat(ERROR_BYTES_MAX - 3) + "…");
        // 4093 is odd, so the last é does not fit.
        let cut = cut_error("é".repeat(ERROR_BYTES_MAX));
        assert_eq!(cut, "é".repeat((ERROR_BYTES_MAX - 4) / 2) + "…");
    }
}
