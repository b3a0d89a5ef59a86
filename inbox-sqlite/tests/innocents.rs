//! A handler that ends the transaction and hides it: the others of its batch are not charged.

#![allow(clippy::unwrap_used)]

use inbox_core::{Failure, IdFrom, Json, JsonPointer, RetryPolicy, Runner};
use inbox_file::FileBroker;
use inbox_sqlite::{SqliteStore, blocking};
use rusqlite::Connection;

#[derive(serde::Deserialize)]
struct Order {
    id: String,
    first: String,
}

/// Runs what the message says and hides its outcome, then writes the effect, as far as that goes.
fn handle(tx: &Connection, Json(order): Json<Order>) -> Result<(), Failure> {
    let _hidden = tx.execute_batch(&order.first);
    if order.first.is_empty() {
        tx.execute("INSERT INTO effects VALUES (?1)", [order.id])?;
    }
    Ok(())
}

#[tokio::test]
async fn whoever_hides_the_end_of_the_transaction_is_alone_to_blame() {
    for first in ["ROLLBACK", "COMMIT", "COMMIT; BEGIN", "INSERT OR ROLLBACK INTO unique_once VALUES (1)"] {
        let folder = tempfile::tempdir().unwrap();
        let (orders, database) = (folder.path().join("orders.jsonl"), folder.path().join("shop.db"));
        let line = |id: &str, first: &str| format!("{{\"id\":\"{id}\",\"first\":\"{first}\"}}\n");
        std::fs::write(&orders, [line("a", ""), line("b", first), line("c", ""), line("d", "")].concat())
            .unwrap();
        let store = SqliteStore::open(&database).unwrap();
        let schema = "CREATE TABLE effects (id TEXT NOT NULL); CREATE TABLE unique_once (n INTEGER UNIQUE);
                      INSERT INTO unique_once VALUES (1);";
        store.apply_init(schema).await.unwrap();
        let summary = Runner::builder("billing")
            .broker(FileBroker::open(&orders).unwrap())
            .store(store)
            .checkpoints()
            .handler(blocking(handle))
            .id_from(IdFrom::JsonPointer(JsonPointer::new("/id").unwrap()))
            // With one attempt whoever is charged becomes a letter.
            .retry(RetryPolicy::default().attempts_max(1))
            .build()
            .unwrap()
            .run()
            .await
            .unwrap();
        assert_eq!((summary.applied, summary.dead_letters, summary.failed_attempts), (3, 1, 1), "{first}");
        let look = Connection::open(&database).unwrap();
        let letter: String = look.query_row("SELECT id FROM inbox_letters", [], |row| row.get(0)).unwrap();
        assert_eq!(letter, "b", "{first}");
        let effects: i64 =
            look.query_row("SELECT count(DISTINCT id) FROM effects", [], |row| row.get(0)).unwrap();
        assert_eq!(effects, 3, "{first}");
    }
}
