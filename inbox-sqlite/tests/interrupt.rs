//! A shutdown's deadline stops a statement that is running; a file that is replaced is found out.

#![allow(clippy::unwrap_used)]

use inbox_core::{
    Failure, FaultClass, IdFrom, InboxStore, Json, JsonPointer, Message, RetryPolicy, Runner, TxLimits,
};
use inbox_file::FileBroker;
use inbox_sqlite::{SqliteStore, blocking};
use rusqlite::Connection;
use std::{sync::mpsc, time::Duration};

#[tokio::test]
async fn the_deadline_of_a_shutdown_stops_a_running_statement() {
    let folder = tempfile::tempdir().unwrap();
    let orders = folder.path().join("orders.jsonl");
    std::fs::write(&orders, "{\"id\":\"a\"}\n{\"id\":\"b\"}\n").unwrap();
    let (started, has_started) = mpsc::channel();
    let handler =
        move |tx: &Connection, _: Message, Json(_): Json<serde::de::IgnoredAny>| -> Result<(), Failure> {
            started.send(()).unwrap();
            let endless =
                "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c";
            tx.query_row(endless, [], |_| Ok(()))?;
            Ok(())
        };
    let mut limits = TxLimits::default();
    // Only the deadline can end it before the test runs out.
    limits.statement_timeout = Duration::from_secs(24 * 3600);
    let runner = Runner::builder("billing")
        .broker(FileBroker::open(&orders).unwrap())
        .store(SqliteStore::open(folder.path().join("shop.db")).unwrap())
        .checkpoints()
        .handler(blocking(handler))
        .id_from(IdFrom::JsonPointer(JsonPointer::new("/id").unwrap()))
        .retry(RetryPolicy::default().attempts_max(1))
        .handler_timeout(Duration::from_secs(24 * 3600))
        .tx_limits(limits)
        .build()
        .unwrap();
    let control = runner.control();
    let waits = tokio::task::spawn_blocking(move || has_started.recv().unwrap());
    let run = tokio::spawn(runner.run());
    waits.await.unwrap();
    control.shutdown(Some(Duration::ZERO));
    let summary = run.await.unwrap().unwrap();
    // Given back, and nobody charged.
    assert_eq!(
        (summary.applied, summary.dead_letters, summary.failed_attempts, summary.released),
        (0, 0, 0, 2)
    );
}

#[tokio::test]
async fn a_file_that_is_replaced_while_in_use_is_found_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop.db");
    let store = SqliteStore::open(&path).unwrap();
    store.commit(store.begin(&TxLimits::default()).await.unwrap()).await.unwrap();
    std::fs::remove_file(&path).unwrap();
    let error = store.begin(&TxLimits::default()).await.unwrap_err();
    assert_eq!(error.class(), Some(FaultClass::Outage));
    assert!(error.to_string().ends_with("is not there any more; put it back, or stop"), "{error}");
    drop(SqliteStore::open(&path).unwrap());
    let error = store.begin(&TxLimits::default()).await.unwrap_err();
    assert_eq!(error.class(), Some(FaultClass::Permanent));
    assert!(error.to_string().contains("was replaced by another file"), "{error}");
}
