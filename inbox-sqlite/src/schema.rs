//! The store's tables and their versions.

use crate::OpenError;
use rusqlite::{Connection, OptionalExtension, TransactionBehavior};
use std::path::Path;

/// What each version changes; the first entry makes version 1. `{p}` is the prefix. Entries are never
/// edited once released, new ones are added behind.
const MIGRATIONS: &[&str] = &[
    "
CREATE TABLE {p}groups (
  group_id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE
) STRICT;
CREATE TABLE {p}claims (
  group_id INTEGER NOT NULL,
  scope TEXT NOT NULL,
  id TEXT NOT NULL,
  disposition INTEGER NOT NULL, -- 1 applied, 2 dead, 3 parked, 4 stored
  fingerprint BLOB NOT NULL,
  at_ms INTEGER NOT NULL,
  PRIMARY KEY (group_id, scope, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE {p}letters (
  letter_id INTEGER PRIMARY KEY AUTOINCREMENT,
  group_id INTEGER NOT NULL,
  scope TEXT NOT NULL,
  id TEXT NOT NULL,
  reason TEXT NOT NULL,
  error TEXT NOT NULL,
  attempts INTEGER NOT NULL,
  created_at_ms INTEGER NOT NULL,
  source TEXT NOT NULL,
  partition INTEGER NOT NULL,
  position_at INTEGER,
  position_next INTEGER,
  key BLOB,
  native_id TEXT,
  message_type TEXT,
  headers TEXT NOT NULL, -- JSON: [[name, text | null | {\"hex\": bytes}], ...]
  payload BLOB, -- NULL: a tombstone
  timestamp_ms INTEGER,
  oversize_bytes INTEGER,
  UNIQUE (group_id, scope, id)
) STRICT;
CREATE TABLE {p}conflicts (
  conflict_id INTEGER PRIMARY KEY AUTOINCREMENT,
  group_id INTEGER NOT NULL,
  scope TEXT NOT NULL,
  id TEXT NOT NULL,
  stored BLOB NOT NULL, -- fingerprint of the content that was applied
  refused BLOB NOT NULL, -- fingerprint of the content below
  seen INTEGER NOT NULL,
  first_at_ms INTEGER NOT NULL,
  last_at_ms INTEGER NOT NULL,
  source TEXT NOT NULL,
  partition INTEGER NOT NULL,
  position_at INTEGER,
  position_next INTEGER,
  key BLOB,
  native_id TEXT,
  message_type TEXT,
  headers TEXT NOT NULL,
  payload BLOB,
  timestamp_ms INTEGER,
  oversize_bytes INTEGER,
  UNIQUE (group_id, scope, id, refused)
) STRICT;
CREATE TABLE {p}checkpoints (
  group_id INTEGER NOT NULL,
  source TEXT NOT NULL,
  partition INTEGER NOT NULL,
  next INTEGER NOT NULL,
  epoch INTEGER NOT NULL,
  mark_at INTEGER,
  mark_digest BLOB,
  mark_timestamp_ms INTEGER,
  updated_at_ms INTEGER NOT NULL,
  PRIMARY KEY (group_id, source, partition)
) STRICT, WITHOUT ROWID;
CREATE TABLE {p}init (
  digest BLOB NOT NULL PRIMARY KEY, -- SHA-256 of a script that was run
  applied_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
",
    "
CREATE TABLE {p}stored ( -- the messages of claims with disposition 4
  stored_id INTEGER PRIMARY KEY, -- rises in the order of keeping
  group_id INTEGER NOT NULL,
  scope TEXT NOT NULL,
  id TEXT NOT NULL,
  attempts INTEGER NOT NULL,
  error TEXT, -- of the last attempt that failed
  due_at_ms INTEGER NOT NULL, -- 0: at once
  source TEXT NOT NULL,
  partition INTEGER NOT NULL,
  position_at INTEGER,
  position_next INTEGER,
  key BLOB,
  native_id TEXT,
  message_type TEXT,
  headers TEXT NOT NULL,
  payload BLOB,
  timestamp_ms INTEGER,
  oversize_bytes INTEGER,
  UNIQUE (group_id, scope, id)
) STRICT;
CREATE INDEX {p}stored_due ON {p}stored (group_id, stored_id, due_at_ms);
",
    "
CREATE TABLE {p}runs ( -- those that were opened and have not ended cleanly
  group_id INTEGER NOT NULL,
  instance TEXT NOT NULL,
  open_max INTEGER NOT NULL, -- the largest bound since the last clean end
  opened_at_ms INTEGER NOT NULL,
  PRIMARY KEY (group_id, instance)
) STRICT, WITHOUT ROWID;
CREATE TABLE {p}marks ( -- starts of messages that may take the process down
  group_id INTEGER NOT NULL,
  scope TEXT NOT NULL,
  id TEXT NOT NULL,
  marks INTEGER NOT NULL,
  at_ms INTEGER NOT NULL,
  PRIMARY KEY (group_id, scope, id)
) STRICT, WITHOUT ROWID;
",
];

const VERSIONS: &str = "
CREATE TABLE IF NOT EXISTS {p}schema (
  version INTEGER PRIMARY KEY,
  applied_at_ms INTEGER NOT NULL
) STRICT;
";

/// The newest version.
const KNOWN: i64 = MIGRATIONS.len() as i64;

/// Checks the prefix, because it becomes part of statements.
pub(crate) fn check_prefix(prefix: &str) -> Result<(), OpenError> {
    let mut bytes = prefix.bytes();
    let first_fits = bytes.next().is_some_and(|b| b.is_ascii_lowercase() || b == b'_');
    let rest_fits = bytes.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    // SQLite keeps names that begin with sqlite_ for itself.
    if first_fits && rest_fits && prefix.len() <= 31 && !prefix.starts_with("sqlite_") {
        Ok(())
    } else {
        Err(OpenError::Prefix { prefix: prefix.into() })
    }
}

/// Everything at once, for people.
pub(crate) fn script(prefix: &str) -> String {
    let mut script = VERSIONS.trim_start().to_owned();
    for (version, migration) in (1..).zip(MIGRATIONS) {
        script.push_str(migration.trim_start());
        script.push_str(&format!(
            "INSERT INTO {{p}}schema (version, applied_at_ms) VALUES ({version}, unixepoch() * 1000);\n"
        ));
    }
    script.replace("{p}", prefix)
}

/// Brings the tables up to date. Several processes may do so at once: the write lock lets them in one by
/// one, and the later ones find nothing left to do.
pub(crate) fn migrate(connection: &mut Connection, prefix: &str, path: &Path) -> Result<(), OpenError> {
    let failed = |source: rusqlite::Error| OpenError::Migrate {
        path: path.into(),
        prefix: prefix.into(),
        reason: crate::error::one_line(&source),
        source: source.into(),
    };
    // A database that is up to date is opened without waiting for a writer.
    let found = version(connection, prefix).map_err(failed)?;
    check_version(found, prefix, path)?;
    if found == KNOWN {
        return Ok(());
    }
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    let found = version(&tx, prefix).map_err(failed)?;
    check_version(found, prefix, path)?;
    tx.execute_batch(&VERSIONS.replace("{p}", prefix)).map_err(failed)?;
    for (version, migration) in (1_i64..).zip(MIGRATIONS).filter(|(version, _)| *version > found) {
        tx.execute_batch(&migration.replace("{p}", prefix)).map_err(failed)?;
        tx.execute(
            &format!("INSERT INTO {prefix}schema (version, applied_at_ms) VALUES (?1, ?2)"),
            (version, crate::convert::now_ms()),
        )
        .map_err(failed)?;
    }
    tx.commit().map_err(failed)
}

fn version(connection: &Connection, prefix: &str) -> rusqlite::Result<i64> {
    let exists = connection
        .query_row(
            "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?1",
            [format!("{prefix}schema")],
            |_| Ok(()),
        )
        .optional()?
        .is_some();
    if !exists {
        return Ok(0);
    }
    connection
        .query_row(&format!("SELECT coalesce(max(version), 0) FROM {prefix}schema"), [], |row| row.get(0))
}

fn check_version(found: i64, prefix: &str, path: &Path) -> Result<(), OpenError> {
    if found > KNOWN {
        return Err(OpenError::NewerSchema { path: path.into(), prefix: prefix.into(), found, known: KNOWN });
    }
    Ok(())
}
