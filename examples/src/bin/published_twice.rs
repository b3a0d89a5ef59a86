//! One message published twice: the second delivery is acknowledged, and the handler does not run.

use inbox_core::{Failure, IdFrom, Json, JsonPointer, Runner};
use inbox_file::FileBroker;
use inbox_sqlite::{SqliteStore, Tx};
use std::io::Write;

#[derive(serde::Deserialize)]
struct Order {
    amount: i64,
}

async fn create_invoice(Json(order): Json<Order>, tx: Tx) -> Result<(), Failure> {
    tx.execute("INSERT INTO invoices (amount) VALUES (?1)", [order.amount])?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let (orders, database) = (folder.path().join("orders.jsonl"), folder.path().join("shop.db"));
    let mut file = std::fs::File::create(&orders)?;
    for delivery in 1..=2 {
        writeln!(file, r#"{{"id": "order-1", "amount": 100}}"#)?;
        let published = file.metadata()?.len();

        let store = SqliteStore::open(&database)?;
        store.apply_init("CREATE TABLE invoices (amount INTEGER NOT NULL)").await?;
        let summary = Runner::builder("billing")
            .broker(FileBroker::open(&orders)?)
            .store(store)
            .checkpoints()
            .handler(create_invoice)
            .id_from(IdFrom::JsonPointer(JsonPointer::new("/id")?))
            .build()?
            .run()
            .await?;

        // Looked up by hand, not in what the runner says of itself.
        let look = rusqlite::Connection::open(&database)?;
        let position: i64 = look.query_row("SELECT next FROM inbox_checkpoints", [], |row| row.get(0))?;
        let invoices: i64 = look.query_row("SELECT count(*) FROM invoices", [], |row| row.get(0))?;
        println!(
            "delivery {delivery} processed={} duplicate={} committed={} invoices={invoices}",
            summary.applied == 1,
            summary.duplicates == 1,
            position == published as i64,
        );
    }
    Ok(())
}
