CREATE TABLE IF NOT EXISTS inbox_schema (
  version INTEGER PRIMARY KEY,
  applied_at_ms INTEGER NOT NULL
) STRICT;
CREATE TABLE inbox_groups (
  group_id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE
) STRICT;
CREATE TABLE inbox_claims (
  group_id INTEGER NOT NULL,
  scope TEXT NOT NULL,
  id TEXT NOT NULL,
  disposition INTEGER NOT NULL, -- 1 applied, 2 dead, 3 parked, 4 stored
  fingerprint BLOB NOT NULL,
  at_ms INTEGER NOT NULL,
  PRIMARY KEY (group_id, scope, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE inbox_letters (
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
  headers TEXT NOT NULL, -- JSON: [[name, text | null | {"hex": bytes}], ...]
  payload BLOB, -- NULL: a tombstone
  timestamp_ms INTEGER,
  oversize_bytes INTEGER,
  UNIQUE (group_id, scope, id)
) STRICT;
CREATE TABLE inbox_conflicts (
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
CREATE TABLE inbox_checkpoints (
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
CREATE TABLE inbox_init (
  digest BLOB NOT NULL PRIMARY KEY, -- SHA-256 of a script that was run
  applied_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO inbox_schema (version, applied_at_ms) VALUES (1, unixepoch() * 1000);
