//! What is told of letters, conflicts, checkpoints and counts.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use inbox_core::{Checkpoint, GroupStats, Inbound, Partition, StoredConflict, StoredLetter};
use serde::Serialize;
use std::time::{Duration, UNIX_EPOCH};

/// Something that is listed. Its JSON names are part of the command's interface.
pub(crate) trait Record: Serialize {
    /// The heads of the table.
    const COLUMNS: &'static [&'static str];
    /// One cell for each head.
    fn cells(&self) -> Vec<String>;
    /// Names and values, everything that is known.
    fn details(&self) -> Vec<(&'static str, String)> {
        Self::COLUMNS.iter().copied().zip(self.cells()).collect()
    }
}

/// The record that was delivered.
#[derive(Debug, Serialize)]
pub(crate) struct Delivered {
    source: String,
    partition: u32,
    position: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    headers: Vec<(String, Option<String>)>,
    /// Text as it came; absent when it is no text.
    payload: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<String>,
    /// The whole length when only the beginning was kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    oversize_bytes: Option<u64>,
}

impl From<&Inbound> for Delivered {
    fn from(inbound: &Inbound) -> Self {
        let text = |bytes: &Bytes| String::from_utf8(bytes.to_vec()).ok();
        let payload = inbound.payload.as_ref().and_then(text);
        let not_text = inbound.payload.as_ref().filter(|_| payload.is_none());
        Self {
            source: inbound.partition.source.as_str().to_owned(),
            partition: inbound.partition.number,
            position: inbound.position.map(|position| position.at),
            key: inbound.key.as_ref().map(lossy),
            headers: inbound
                .headers
                .iter()
                .map(|(name, value)| (name.to_owned(), value.map(lossy)))
                .collect(),
            payload_base64: not_text.map(|bytes| STANDARD.encode(bytes)),
            payload,
            oversize_bytes: inbound.oversize_bytes,
        }
    }
}

fn lossy(bytes: &Bytes) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl Delivered {
    fn place(&self) -> String {
        match self.position {
            Some(position) => format!("{}[{}] at {position}", self.source, self.partition),
            None => format!("{}[{}]", self.source, self.partition),
        }
    }

    fn content(&self) -> String {
        match (&self.payload, &self.payload_base64) {
            (Some(text), _) => text.clone(),
            (None, Some(base64)) => format!("(base64) {base64}"),
            (None, None) => "(none)".to_owned(),
        }
    }

    fn details(&self, out: &mut Vec<(&'static str, String)>) {
        out.push(("from", self.place()));
        if let Some(key) = &self.key {
            out.push(("key", key.clone()));
        }
        for (name, value) in &self.headers {
            out.push(("header", format!("{name}={}", value.as_deref().unwrap_or("(none)"))));
        }
        if let Some(bytes) = self.oversize_bytes {
            out.push(("whole length", format!("{bytes} bytes; only the beginning was kept")));
        }
        out.push(("payload", self.content()));
    }
}

/// A dead letter.
#[derive(Debug, Serialize)]
pub(crate) struct LetterRecord {
    letter_id: i64,
    group: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    scope: String,
    id: String,
    reason: String,
    error: String,
    attempts: u32,
    at: String,
    #[serde(flatten)]
    delivered: Delivered,
}

impl From<&StoredLetter> for LetterRecord {
    fn from(letter: &StoredLetter) -> Self {
        Self {
            letter_id: letter.letter_id,
            group: letter.group.clone(),
            scope: letter.claim.scope.as_str().to_owned(),
            id: letter.claim.id.as_str().to_owned(),
            reason: letter.reason.clone(),
            error: letter.error.clone(),
            attempts: letter.attempts,
            at: time(letter.created_at_ms),
            delivered: Delivered::from(&letter.inbound),
        }
    }
}

impl Record for LetterRecord {
    const COLUMNS: &'static [&'static str] =
        &["number", "group", "id", "reason", "attempts", "at", "error", "payload"];

    fn cells(&self) -> Vec<String> {
        vec![
            self.letter_id.to_string(),
            self.group.clone(),
            claim(&self.scope, &self.id),
            self.reason.clone(),
            self.attempts.to_string(),
            self.at.clone(),
            self.error.clone(),
            self.delivered.content(),
        ]
    }

    fn details(&self) -> Vec<(&'static str, String)> {
        // The payload comes last, behind where it was delivered from.
        let mut out: Vec<_> = Self::COLUMNS.iter().copied().zip(self.cells()).collect();
        out.pop();
        self.delivered.details(&mut out);
        out
    }
}

/// A conflict.
#[derive(Debug, Serialize)]
pub(crate) struct ConflictRecord {
    conflict_id: i64,
    group: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    scope: String,
    id: String,
    seen: u32,
    first_at: String,
    stored_fingerprint: String,
    refused_fingerprint: String,
    #[serde(flatten)]
    delivered: Delivered,
}

impl From<&StoredConflict> for ConflictRecord {
    fn from(conflict: &StoredConflict) -> Self {
        Self {
            conflict_id: conflict.conflict_id,
            group: conflict.group.clone(),
            scope: conflict.claim.scope.as_str().to_owned(),
            id: conflict.claim.id.as_str().to_owned(),
            seen: conflict.seen,
            first_at: time(conflict.first_at_ms),
            stored_fingerprint: conflict.stored.to_string(),
            refused_fingerprint: conflict.refused.to_string(),
            delivered: Delivered::from(&conflict.inbound),
        }
    }
}

impl Record for ConflictRecord {
    const COLUMNS: &'static [&'static str] =
        &["number", "group", "id", "seen", "first at", "refused payload"];

    fn cells(&self) -> Vec<String> {
        vec![
            self.conflict_id.to_string(),
            self.group.clone(),
            claim(&self.scope, &self.id),
            self.seen.to_string(),
            self.first_at.clone(),
            self.delivered.content(),
        ]
    }
}

/// How far a group has read a partition.
#[derive(Debug, Serialize)]
pub(crate) struct CheckpointRecord {
    source: String,
    partition: u32,
    next: u64,
    epoch: u64,
}

impl From<&(Partition, Checkpoint)> for CheckpointRecord {
    fn from((partition, checkpoint): &(Partition, Checkpoint)) -> Self {
        Self {
            source: partition.source.as_str().to_owned(),
            partition: partition.number,
            next: checkpoint.next,
            epoch: checkpoint.epoch,
        }
    }
}

impl Record for CheckpointRecord {
    const COLUMNS: &'static [&'static str] = &["source", "partition", "next", "epoch"];

    fn cells(&self) -> Vec<String> {
        vec![self.source.clone(), self.partition.to_string(), self.next.to_string(), self.epoch.to_string()]
    }
}

/// The counts of one group.
#[derive(Debug, Serialize)]
pub(crate) struct StatsRecord {
    group: String,
    applied: u64,
    dead: u64,
    parked: u64,
    stored: u64,
    conflicts: u64,
}

impl From<&GroupStats> for StatsRecord {
    fn from(stats: &GroupStats) -> Self {
        Self {
            group: stats.group.clone(),
            applied: stats.applied,
            dead: stats.dead,
            parked: stats.parked,
            stored: stats.stored,
            conflicts: stats.conflicts,
        }
    }
}

impl Record for StatsRecord {
    const COLUMNS: &'static [&'static str] = &["group", "applied", "dead", "parked", "stored", "conflicts"];

    fn cells(&self) -> Vec<String> {
        let counts = [self.applied, self.dead, self.parked, self.stored, self.conflicts];
        std::iter::once(self.group.clone()).chain(counts.map(|count| count.to_string())).collect()
    }
}

fn claim(scope: &str, id: &str) -> String {
    if scope.is_empty() { id.to_owned() } else { format!("{scope}/{id}") }
}

/// The last second of the year 9999: the last that has a date of the usual form.
const LAST_SECOND: u64 = 253_402_300_799;

/// RFC 3339 in UTC; the bare number where that has no form for it.
fn time(ms: i64) -> String {
    match u64::try_from(ms) {
        Ok(since) if since / 1000 <= LAST_SECOND => {
            humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_millis(since)).to_string()
        }
        _ => format!("{ms} ms"),
    }
}

#[cfg(test)]
#[path = "records_tests.rs"]
mod tests;
