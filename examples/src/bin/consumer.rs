//! Orders from a file become invoices in SQLite, each exactly once.

use inbox_core::{Failure, IdFrom, Json, JsonPointer, Runner};
use inbox_file::FileBroker;
use inbox_sqlite::{SqliteStore, Tx};

#[derive(serde::Deserialize)]
struct Order {
    order_id: i64,
    customer: Option<String>,
    amount: i64,
}

// Parts of the message first, the transaction last. What is written through `tx` commits together with
// the record that this message was handled, or not at all.
async fn create_invoice(Json(order): Json<Order>, tx: Tx) -> Result<(), Failure> {
    tx.execute(
        "INSERT INTO invoices (order_id, customer, amount) VALUES (?1, ?2, ?3)",
        (order.order_id, order.customer, order.amount),
    )?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = SqliteStore::open("shop.db")?;
    store.apply_init(include_str!("../../../sample/schema.sql")).await?;

    let runner = Runner::builder("billing")
        .broker(FileBroker::open("sample/orders.jsonl")?)
        .store(store)
        .checkpoints()
        .handler(create_invoice)
        .id_from(IdFrom::JsonPointer(JsonPointer::new("/id")?))
        .build()?;
    let ctrl_c = async { drop(tokio::signal::ctrl_c().await) };
    println!("{:?}", runner.run_until(ctrl_c).await?);
    Ok(())
}
