//! Transactions that end in another way than by the store.
// Older versions of rusqlite set hooks through a shared reference.
#![allow(missing_docs, clippy::unwrap_used, unused_mut)]

mod common;

use common::*;
use inbox_core::{Claim, CommitError, FaultClass, InboxStore, Resolution};
use std::time::Duration;

const ENDLESS: &str = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c)";

/// Lets a "handler" run the statements, whatever they say, and expects that nothing is stored.
async fn nothing_is_stored_after(statements: &[&str]) -> String {
    let db = Database::new().await;
    let tx = claimed(&db.store, "a").await;
    effect(&tx, "before").unwrap();
    for sql in statements {
        let _ = tx.execute_batch(sql);
    }
    let _ = effect(&tx, "after");
    let (class, message) = rolled_back(db.store.commit(tx).await);
    assert_eq!(class, FaultClass::HandlerFault, "{message}");
    assert_eq!(db.effects(), Vec::<String>::new(), "after {statements:?}");
    assert_eq!(db.resolve("a").await, Resolution::Absent);
    // The store goes on.
    assert_eq!(deliver(&db.store, "a").await, Claim::Fresh);
    assert_eq!(db.effects(), ["a"]);
    message
}

#[tokio::test]
async fn a_handler_cannot_commit() {
    for ending in ["COMMIT", "END TRANSACTION"] {
        let message = nothing_is_stored_after(&[ending]).await;
        assert!(message.contains("which was refused"), "{message}");
    }
}

#[tokio::test]
async fn a_handler_cannot_commit_and_begin_anew() {
    nothing_is_stored_after(&["COMMIT", "BEGIN"]).await;
    nothing_is_stored_after(&["COMMIT; BEGIN IMMEDIATE"]).await;
    nothing_is_stored_after(&["COMMIT", "BEGIN", "COMMIT", "BEGIN"]).await;
}

#[tokio::test]
async fn a_handler_cannot_roll_back_and_go_on() {
    let message = nothing_is_stored_after(&["ROLLBACK"]).await;
    assert!(message.contains("which was refused"), "{message}");
    nothing_is_stored_after(&["ROLLBACK", "BEGIN"]).await;
    nothing_is_stored_after(&["ROLLBACK", "BEGIN IMMEDIATE", "INSERT INTO effects VALUES ('x')", "COMMIT"])
        .await;
}

#[tokio::test]
async fn after_an_automatic_rollback_nothing_more_is_stored() {
    nothing_is_stored_after(&[
        "CREATE TABLE once (id INTEGER PRIMARY KEY)",
        "INSERT INTO once VALUES (1)",
        "INSERT OR ROLLBACK INTO once VALUES (1)",
        "INSERT INTO effects VALUES ('autocommit')",
    ])
    .await;
}

#[tokio::test]
async fn a_rollback_alone_is_noticed_at_the_commit_and_at_the_next_call() {
    let db = Database::new().await;
    let mut tx = claimed(&db.store, "a").await;
    tx.execute_batch("ROLLBACK").unwrap();
    let error = db.store.claim(&mut tx, &group(), &[request("b", "x")]).await.unwrap_err();
    assert_eq!(error.class(), Some(FaultClass::HandlerFault));
    assert!(error.to_string().contains("a statement rolled it back"), "{error}");
    let (_, message) = rolled_back(db.store.commit(tx).await);
    assert!(message.contains("a statement rolled it back"), "{message}");
}

#[tokio::test]
async fn savepoints_are_the_handlers() {
    let db = Database::new().await;
    let mut tx = claimed(&db.store, "a").await;
    effect(&tx, "kept").unwrap();
    let savepoint = tx.savepoint().unwrap();
    effect(&savepoint, "dropped").unwrap();
    drop(savepoint);
    let savepoint = tx.savepoint().unwrap();
    effect(&savepoint, "released").unwrap();
    savepoint.commit().unwrap();
    db.store.commit(tx).await.unwrap();
    assert_eq!(db.effects(), ["kept", "released"]);
}

#[tokio::test]
async fn a_transaction_without_a_write_commits() {
    let db = Database::new().await;
    let tx = db.store.begin(&limits()).await.unwrap();
    db.store.commit(tx).await.unwrap();
}

#[tokio::test]
async fn a_deferred_constraint_fails_the_commit_for_good() {
    let db = Database::new().await;
    db.store
        .apply_init(
            "CREATE TABLE parents (id INTEGER PRIMARY KEY);
             CREATE TABLE children (parent INTEGER REFERENCES parents (id) DEFERRABLE INITIALLY DEFERRED);",
        )
        .await
        .unwrap();
    let tx = claimed(&db.store, "a").await;
    tx.execute("INSERT INTO children VALUES (7)", []).unwrap();
    let (class, message) = rolled_back(db.store.commit(tx).await);
    assert_eq!(class, FaultClass::Permanent);
    assert!(message.contains("FOREIGN KEY constraint failed"), "{message}");
    assert_eq!(db.resolve("a").await, Resolution::Absent);
    assert_eq!(deliver(&db.store, "a").await, Claim::Fresh);
}

#[tokio::test]
async fn an_endless_query_is_interrupted() {
    let db = Database::new().await;
    let mut limits = limits();
    limits.statement_timeout = Duration::from_millis(20);
    let tx = db.store.begin(&limits).await.unwrap();
    let error = tx.query_row(&format!("{ENDLESS} SELECT count(*) FROM c"), [], |_| Ok(())).unwrap_err();
    assert_eq!(error.sqlite_error_code(), Some(rusqlite::ErrorCode::OperationInterrupted));
    assert_eq!(db.store.classify(&error), FaultClass::HandlerFault);
    drop(tx);
    assert_eq!(deliver(&db.store, "a").await, Claim::Fresh);
}

#[tokio::test]
async fn an_endless_insert_is_rolled_back_and_said_to_have_timed_out() {
    let db = Database::new().await;
    let mut limits = limits();
    limits.statement_timeout = Duration::from_millis(20);
    let mut tx = db.store.begin(&limits).await.unwrap();
    assert_eq!(claim(&db.store, &mut tx, "a", "x").await, Claim::Fresh);
    tx.execute(&format!("{ENDLESS} INSERT INTO effects SELECT 'x' FROM c"), []).unwrap_err();
    let _ = effect(&tx, "after");
    let (class, message) = rolled_back(db.store.commit(tx).await);
    assert_eq!(class, FaultClass::HandlerFault);
    assert!(message.contains("statement_timeout"), "{message}");
    assert_eq!(db.effects(), Vec::<String>::new());
}

#[tokio::test]
async fn a_full_database_is_an_outage_and_keeps_nothing() {
    let db = Database::new().await;
    let tx = claimed(&db.store, "a").await;
    let pages: i64 = tx.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
    tx.query_row(&format!("PRAGMA max_page_count = {}", pages + 2), [], |_| Ok(())).unwrap();
    let error = tx.execute("INSERT INTO effects VALUES (hex(zeroblob(1000000)))", []).unwrap_err();
    assert_eq!(error.sqlite_error_code(), Some(rusqlite::ErrorCode::DiskFull));
    assert_eq!(db.store.classify(&error), FaultClass::Outage);
    drop(tx);
    assert_eq!(db.effects(), Vec::<String>::new());
}

#[tokio::test]
async fn a_handler_that_removes_the_hooks_is_found_out() {
    let db = Database::new().await;
    let mut tx = claimed(&db.store, "a").await;
    let _ = tx.commit_hook(None::<fn() -> bool>);
    assert!(matches!(db.store.commit(tx).await, Err(CommitError::InDoubt { .. })));
    assert!(matches!(db.resolve("a").await, Resolution::Committed { .. }));
    // The connection that follows has its hooks again.
    let tx = claimed(&db.store, "b").await;
    tx.execute_batch("COMMIT").unwrap_err();
    rolled_back(db.store.commit(tx).await);
}

#[tokio::test]
async fn a_handler_that_exchanges_the_connection_stores_nothing() {
    let db = Database::new().await;
    let mut tx = claimed(&db.store, "a").await;
    let mut own = std::mem::replace(&mut *tx, rusqlite::Connection::open_in_memory().unwrap());
    let _ = own.rollback_hook(None::<fn()>);
    drop(own);
    let (_, message) = rolled_back(db.store.commit(tx).await);
    assert!(message.contains("exchanged"), "{message}");
    assert_eq!(db.resolve("a").await, Resolution::Absent);
    assert_eq!(deliver(&db.store, "a").await, Claim::Fresh);
}

#[tokio::test]
async fn errors_of_handlers_are_told_apart() {
    let db = Database::new().await;
    let tx = db.store.begin(&limits()).await.unwrap();
    let class_of = |sql: &str| db.store.classify(&tx.execute(sql, []).unwrap_err());
    assert_eq!(class_of("INSERT INTO effects VALUES (NULL)"), FaultClass::Permanent);
    assert_eq!(class_of("INSERT INTO nowhere VALUES (1)"), FaultClass::Permanent);
    assert_eq!(class_of("INSERT"), FaultClass::Permanent);
    assert_eq!(class_of("SELECT 1"), FaultClass::Permanent);
    let wrong_type = tx.query_row("SELECT 'a'", [], |row| row.get::<_, i64>(0)).unwrap_err();
    assert_eq!(db.store.classify(&wrong_type), FaultClass::Permanent);
    let missing = tx.query_row("SELECT 1 WHERE 0", [], |row| row.get::<_, i64>(0)).unwrap_err();
    assert_eq!(db.store.classify(&missing), FaultClass::HandlerFault);
    assert_eq!(db.store.classify(&std::fmt::Error), FaultClass::HandlerFault);
    let code = |code| rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None);
    for (number, class) in [
        (rusqlite::ffi::SQLITE_BUSY, FaultClass::Contention),
        (rusqlite::ffi::SQLITE_LOCKED, FaultClass::Contention),
        (rusqlite::ffi::SQLITE_BUSY_SNAPSHOT, FaultClass::Contention),
        (rusqlite::ffi::SQLITE_IOERR, FaultClass::Outage),
        (rusqlite::ffi::SQLITE_CANTOPEN, FaultClass::Outage),
        (rusqlite::ffi::SQLITE_NOMEM, FaultClass::Outage),
        (rusqlite::ffi::SQLITE_CORRUPT, FaultClass::Outage),
        (rusqlite::ffi::SQLITE_INTERRUPT, FaultClass::HandlerFault),
        (rusqlite::ffi::SQLITE_CONSTRAINT_UNIQUE, FaultClass::Permanent),
        (rusqlite::ffi::SQLITE_CONSTRAINT_COMMITHOOK, FaultClass::Aborted),
    ] {
        assert_eq!(db.store.classify(&code(number)), class, "{number}");
    }
}
