//! Databases of earlier versions.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::*;
use inbox_core::{Claim, InboxStore, Inspect, Page, StoredInbox};
use inbox_sqlite::{SqliteStore, rusqlite::Connection};
use std::{path::PathBuf, sync::Barrier, thread, time::Duration};
use tempfile::TempDir;

/// The tables as version 1 made them. This file never changes.
const SCHEMA_V1: &str = include_str!("data/schema_v1.sql");

/// A database of version 1 with an applied message, a dead one with its letter, and a checkpoint.
fn version_1() -> (TempDir, PathBuf) {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("old.db");
    let old = Connection::open(&path).unwrap();
    old.execute_batch(SCHEMA_V1).unwrap();
    old.execute("INSERT INTO inbox_groups VALUES (7, 'billing')", []).unwrap();
    for (id, disposition) in [("a", 1), ("d", 2)] {
        let fingerprint = request(id, "x").fingerprint.to_bytes();
        let insert = "INSERT INTO inbox_claims VALUES (7, '', ?1, ?2, ?3, 0)";
        old.execute(insert, (id, disposition, fingerprint.as_slice())).unwrap();
    }
    old.execute_batch(
        "INSERT INTO inbox_letters (group_id, scope, id, reason, error, attempts, created_at_ms, source,
                                    partition, headers, payload)
         VALUES (7, '', 'd', 'failed', 'no', 3, 5, 'test', 0, '[]', x'78');
         INSERT INTO inbox_checkpoints VALUES (7, 'test', 0, 42, 1, NULL, NULL, NULL, 0);",
    )
    .unwrap();
    (directory, path)
}

fn versions(path: &PathBuf) -> Vec<i64> {
    let look = Connection::open(path).unwrap();
    let mut list = look.prepare("SELECT version FROM inbox_schema ORDER BY version").unwrap();
    list.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

#[test]
fn version_1_is_as_it_was_released() {
    assert!(SqliteStore::schema_sql().starts_with(SCHEMA_V1));
}

#[tokio::test]
async fn a_database_of_version_1_is_migrated_and_keeps_its_rows() {
    let (_directory, path) = version_1();
    assert_eq!(versions(&path), [1]);
    let store = SqliteStore::open(&path).unwrap();
    assert_eq!(versions(&path), [1, 2, 3]);

    let mut tx = store.begin(&limits()).await.unwrap();
    let answers = store.claim(&mut tx, &group(), &["a", "d", "n"].map(|id| request(id, "x"))).await.unwrap();
    assert_eq!(answers, [Claim::Applied, Claim::Dead, Claim::Fresh]);
    store.keep(&mut tx, &group(), &[message("n", "x")]).await.unwrap();
    store.commit(tx).await.unwrap();
    let letters = store.letters(&Page::first(Some(group()), 10)).await.unwrap();
    assert_eq!((letters.len(), letters[0].attempts, letters[0].error.as_str()), (1, 3, "no"));
    let next: i64 = Connection::open(&path)
        .unwrap()
        .query_row("SELECT next FROM inbox_checkpoints WHERE group_id = 7", [], |row| row.get(0))
        .unwrap();
    assert_eq!(next, 42);

    // The next program finds nothing to do, and what the first one kept.
    let store = SqliteStore::open(&path).unwrap();
    assert_eq!(versions(&path), [1, 2, 3]);
    assert_eq!(store.due(&group(), 10).await.unwrap()[0].message.id(), "n");
}

#[test]
fn many_may_migrate_at_once() {
    let (_directory, path) = version_1();
    let barrier = Barrier::new(8);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                barrier.wait();
                SqliteStore::options().open_timeout(Duration::from_secs(60)).open(&path).unwrap();
            });
        }
    });
    assert_eq!(versions(&path), [1, 2, 3]);
}

/// A migration that cannot be done leaves the database as it was.
#[test]
fn a_migration_that_fails_changes_nothing() {
    let (_directory, path) = version_1();
    let old = Connection::open(&path).unwrap();
    old.execute_batch("CREATE TABLE other (x); CREATE INDEX inbox_stored_due ON other (x);").unwrap();
    let error = SqliteStore::open(&path).unwrap_err().to_string();
    assert!(error.contains("inbox_stored_due"), "{error}");
    assert_eq!(versions(&path), [1]);
    let tables = "SELECT count(*) FROM sqlite_schema WHERE name = 'inbox_stored'";
    assert_eq!(old.query_row(tables, [], |row| row.get::<_, i64>(0)).unwrap(), 0);
}
