//! Opening, migrations and init scripts.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::*;
use inbox_core::{Claim, FaultClass, InboxStore};
use inbox_sqlite::{OpenError, SqliteStore, Synchronous};
use std::{path::Path, sync::Barrier, thread, time::Duration};
use tempfile::TempDir;

fn error_of(outcome: Result<SqliteStore, OpenError>) -> OpenError {
    let error = outcome.unwrap_err();
    let text = error.to_string();
    assert!(!text.contains('\n'), "{text}");
    error
}

fn pragma(connection: &rusqlite::Connection, name: &str) -> String {
    connection
        .query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, rusqlite::types::Value>(0))
        .map(|value| match value {
            rusqlite::types::Value::Integer(n) => n.to_string(),
            rusqlite::types::Value::Text(text) => text,
            other => format!("{other:?}"),
        })
        .unwrap()
}

#[tokio::test]
async fn the_connection_has_the_settings_its_promises_need() {
    let db = Database::new().await;
    let tx = db.store.begin(&limits()).await.unwrap();
    let settings =
        ["journal_mode", "synchronous", "foreign_keys", "wal_autocheckpoint", "journal_size_limit"];
    assert_eq!(settings.map(|name| pragma(&tx, name)), ["wal", "2", "1", "1000", "67108864"]);
    drop(tx);
    let fast = SqliteStore::options()
        .synchronous(Synchronous::Normal)
        .checkpoint_pages(10)
        .journal_bytes_max(4096)
        .open(&db.path)
        .unwrap();
    let tx = fast.begin(&limits()).await.unwrap();
    assert_eq!(settings.map(|name| pragma(&tx, name)), ["wal", "1", "1", "10", "4096"]);
    assert_eq!(fast.describe(), format!("sqlite:{}", db.path.display()));
}

#[test]
fn many_may_open_a_new_database_at_once() {
    for _ in 0..5 {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("test.db");
        let barrier = Barrier::new(8);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    barrier.wait();
                    SqliteStore::options().open_timeout(Duration::from_secs(60)).open(&path).unwrap();
                });
            }
        });
        let connection = rusqlite::Connection::open(&path).unwrap();
        let versions: i64 =
            connection.query_row("SELECT count(*) FROM inbox_schema", [], |r| r.get(0)).unwrap();
        assert_eq!(versions, 3);
    }
}

#[tokio::test]
async fn a_newer_schema_is_refused() {
    let db = Database::new().await;
    let connection = rusqlite::Connection::open(&db.path).unwrap();
    connection.execute("INSERT INTO inbox_schema VALUES (99, 0)", []).unwrap();
    let error = error_of(SqliteStore::open(&db.path));
    assert!(matches!(error, OpenError::NewerSchema { found: 99, .. }), "{error}");
    assert!(error.to_string().contains("use a newer program"), "{error}");
}

#[tokio::test]
async fn prefixes_keep_inboxes_apart() {
    let db = Database::new().await;
    deliver(&db.store, "a").await;
    let other = SqliteStore::options().prefix("other_").open(&db.path).unwrap();
    assert_eq!(deliver(&other, "a").await, Claim::Fresh);
    for prefix in ["", "1a", "Inbox_", "a-b", "a;", "sqlite_x", &"a".repeat(32)] {
        let error = error_of(SqliteStore::options().prefix(prefix).open(&db.path));
        assert!(matches!(error, OpenError::Prefix { .. }), "{error}");
    }
    SqliteStore::options().prefix("a".repeat(31)).open(&db.path).unwrap();
}

#[test]
fn what_cannot_be_opened_is_named() {
    let directory = TempDir::new().unwrap();
    let inside = |name: &str| directory.path().join(name);

    let error = error_of(SqliteStore::open(inside("missing/test.db")));
    assert!(matches!(error, OpenError::NoDirectory { .. }), "{error}");
    assert!(error.to_string().contains("missing/test.db"), "{error}");

    std::fs::write(inside("text"), "this is not a database, but it is long enough ".repeat(100)).unwrap();
    let error = error_of(SqliteStore::open(inside("text")));
    assert!(matches!(error, OpenError::NotADatabase { .. }), "{error}");

    let error = error_of(SqliteStore::open(directory.path()));
    assert!(matches!(error, OpenError::Sqlite { .. }), "{error}");

    let error = error_of(SqliteStore::options().create(false).open(inside("absent.db")));
    assert!(matches!(error, OpenError::Sqlite { .. }), "{error}");
    assert!(!inside("absent.db").exists());

    for path in ["", ":memory:", "file:x?mode=memory&cache=shared"] {
        let error = error_of(SqliteStore::open(Path::new(path)));
        assert!(matches!(error, OpenError::NotAFile { .. }), "{error}");
    }
}

#[tokio::test]
async fn the_printed_schema_is_the_one_that_is_made() {
    let db = Database::new().await;
    let tables = |connection: &rusqlite::Connection| -> Vec<String> {
        let mut list = connection
            .prepare("SELECT sql FROM sqlite_schema WHERE name LIKE 'inbox_%' ORDER BY name")
            .unwrap();
        list.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    let printed = rusqlite::Connection::open_in_memory().unwrap();
    printed.execute_batch(&SqliteStore::schema_sql()).unwrap();
    let made = rusqlite::Connection::open(&db.path).unwrap();
    assert_eq!(tables(&printed), tables(&made));
    assert_eq!(tables(&made).len(), 11);
    // Whoever ran the script before finds nothing left to do.
    let path = db.path.with_file_name("by_hand.db");
    rusqlite::Connection::open(&path).unwrap().execute_batch(&SqliteStore::schema_sql()).unwrap();
    SqliteStore::open(path).unwrap();
}

#[tokio::test]
async fn an_init_script_runs_once() {
    let db = Database::new().await;
    let script = "INSERT INTO effects VALUES ('init'); INSERT INTO effects VALUES ('init2');";
    assert!(db.store.apply_init(script).await.unwrap());
    assert!(!db.store.apply_init(script).await.unwrap());
    assert!(!db.other().apply_init(script).await.unwrap());
    assert_eq!(db.effects(), ["init", "init2"]);
}

#[tokio::test]
async fn a_failing_init_script_leaves_nothing_and_says_where() {
    let db = Database::new().await;
    for (script, expected) in [
        (
            "INSERT INTO effects VALUES ('a');\n\nINSERT INTO nowhere VALUES (1);",
            "the init script failed: no such table: nowhere",
        ),
        ("INSERT INTO effects VALUES ('a');\nSELEC 1;", "at line 2: near \"SELEC\": syntax error"),
        (
            "INSERT INTO effects VALUES ('a');\nINSERT INTO effects VALUES (NULL);",
            "NOT NULL constraint failed",
        ),
        ("INSERT INTO effects VALUES ('a'); COMMIT;", "which was refused"),
        ("INSERT INTO effects VALUES ('a'); BEGIN;", "cannot start a transaction within a transaction"),
        ("INSERT INTO effects VALUES ('a'); ROLLBACK; BEGIN;", "a statement rolled it back"),
    ] {
        let error = db.store.apply_init(script).await.unwrap_err();
        let text = error.to_string();
        assert!(text.contains(expected) && !text.contains('\n'), "{text}");
        assert_eq!(db.effects(), Vec::<String>::new());
    }
    assert_eq!(deliver(&db.store, "a").await, Claim::Fresh);
}

#[tokio::test]
async fn a_removed_file_is_not_made_again_empty() {
    let db = Database::new().await;
    let mut tx = claimed(&db.store, "a").await;
    // The store loses its connection, and then the file goes away.
    let own = std::mem::replace(&mut *tx, rusqlite::Connection::open_in_memory().unwrap());
    own.execute_batch("ROLLBACK").unwrap();
    drop((own, tx));
    std::fs::remove_file(&db.path).unwrap();
    let error = db.store.begin(&limits()).await.unwrap_err();
    assert_eq!(error.class(), Some(FaultClass::Outage));
    assert!(!db.path.exists());
}
