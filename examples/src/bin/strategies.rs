//! What each strategy does with a handler that fails on its first run: the first consumer stops after
//! the failure, and a second consumer of the same group starts.

use inbox_core::{
    Exhausted, Failure, IdFrom, Json, JsonPointer, RetryPolicy, Runner, State, Strategy, with_state,
};
use inbox_file::FileBroker;
use inbox_sqlite::{SqliteStore, Tx};
use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};

#[derive(serde::Deserialize)]
struct Order {
    amount: i64,
}

/// Writes the invoice, and fails behind it on the first run.
async fn create_invoice(
    State(runs): State<Arc<AtomicU32>>,
    Json(order): Json<Order>,
    tx: Tx,
) -> Result<(), Failure> {
    tx.execute("INSERT INTO invoices (amount) VALUES (?1)", [order.amount])?;
    if runs.fetch_add(1, Relaxed) == 0 {
        return Err(Failure::message("the first run fails"));
    }
    Ok(())
}

/// One consumer, from start to its end: whether it was given the message, processed it, and moved the
/// broker's position.
async fn consume(
    strategy: Strategy,
    folder: &Path,
    runs: &Arc<AtomicU32>,
) -> Result<(bool, bool, bool), Box<dyn std::error::Error>> {
    let (orders, database) = (folder.join("orders.jsonl"), folder.join("shop.db"));
    let store = SqliteStore::open(&database)?;
    store.apply_init("CREATE TABLE invoices (amount INTEGER NOT NULL)").await?;
    let runner = Runner::builder("billing")
        .broker(FileBroker::open(&orders)?)
        .store(store)
        .checkpoints()
        .handler(with_state(Arc::clone(runs), create_invoice))
        .id_from(IdFrom::JsonPointer(JsonPointer::new("/id")?))
        .strategy(strategy)
        .retry(RetryPolicy::default().attempts_max(1).exhausted(Exhausted::Halt))
        .build()?;
    let counters = runner.counters();
    let _halted_or_done = runner.run().await;
    let counts = counters.read();
    let look = rusqlite::Connection::open(&database)?;
    let committed: bool =
        look.query_row("SELECT count(*) > 0 FROM inbox_checkpoints", [], |row| row.get(0))?;
    Ok((counts.received > 0, counts.applied > 0, committed))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("| strategy | first run | second consumer | handler ran | invoices |");
    println!("|---|---|---|---|---|");
    for (name, strategy) in [
        ("at least once, on success", Strategy::AtLeastOnce),
        ("exactly once (inbox)", Strategy::ExactlyOnce),
    ] {
        let folder = tempfile::tempdir()?;
        std::fs::write(folder.path().join("orders.jsonl"), "{\"id\": \"order-1\", \"amount\": 100}\n")?;
        let runs = Arc::new(AtomicU32::new(0));
        let (_, processed, committed) = consume(strategy, folder.path(), &runs).await?;
        let first = format!("processed={processed} committed={committed}");
        let second = match consume(strategy, folder.path(), &runs).await? {
            (false, ..) => "nothing delivered".to_owned(),
            (true, processed, _) => format!("processed={processed}"),
        };
        let look = rusqlite::Connection::open(folder.path().join("shop.db"))?;
        let invoices: i64 = look.query_row("SELECT count(*) FROM invoices", [], |row| row.get(0))?;
        println!("| {name} | {first} | {second} | {} | {invoices} |", runs.load(Relaxed));
    }
    Ok(())
}
