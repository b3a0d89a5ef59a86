//! What each strategy does with a handler that fails on its first run: the first consumer stops after
//! the failure, and a second consumer of the same group starts. Then one message that is published twice.
//!
//! The broker is the test kit's, so that acknowledgements can be looked at; the database is SQLite.

use inbox_core::{
    AckStrength, Exhausted, Failure, Json, RetryPolicy, Runner, State, Strategy, Summary, with_state,
};
use inbox_sqlite::{SqliteStore, Tx};
use inbox_testkit::{FakeOptions, FakeQueue, Publish};
use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

#[derive(serde::Deserialize)]
struct Order {
    amount: i64,
}

/// How often the handler ran, and at which of its runs it fails.
struct Runs {
    count: AtomicU32,
    failing: u32,
}

/// Writes the invoice, and fails behind it on the run that is to fail.
async fn create_invoice(
    State(runs): State<Arc<Runs>>,
    Json(order): Json<Order>,
    tx: Tx,
) -> Result<(), Failure> {
    tx.execute("INSERT INTO invoices (amount) VALUES (?1)", [order.amount])?;
    if runs.count.fetch_add(1, Relaxed) + 1 == runs.failing {
        return Err(Failure::message("this run fails"));
    }
    Ok(())
}

/// One consumer, from its start to its end: what it counted.
async fn consume(
    strategy: Strategy,
    queue: &FakeQueue,
    database: &Path,
    runs: &Arc<Runs>,
) -> Outcome<Summary> {
    let store = SqliteStore::open(database)?;
    store.apply_init("CREATE TABLE invoices (amount INTEGER NOT NULL)").await?;
    let runner = Runner::builder("billing")
        .broker(queue.connect())
        .store(store)
        .stored_messages()
        .handler(with_state(Arc::clone(runs), create_invoice))
        .strategy(strategy)
        .retry(RetryPolicy::default().attempts_max(1).exhausted(Exhausted::Halt))
        .build()?;
    let counters = runner.counters();
    let _halted_or_done = runner.run().await;
    Ok(counters.read())
}

/// Looked up by hand, not in what the runner says of itself.
fn invoices(database: &Path) -> Outcome<i64> {
    Ok(rusqlite::Connection::open(database)?
        .query_row("SELECT count(*) FROM invoices", [], |row| row.get(0))?)
}

fn new_world(folder: &tempfile::TempDir, failing: u32) -> (FakeQueue, PathBuf, Arc<Runs>) {
    let queue = FakeQueue::new(FakeOptions::queue().ack(AckStrength::Confirmed));
    let runs = Arc::new(Runs { count: AtomicU32::new(0), failing });
    (queue, folder.path().join("shop.db"), runs)
}

#[tokio::main]
async fn main() -> Outcome<()> {
    let order = || Publish::new("order-1").payload(r#"{"amount": 100}"#);

    println!("| strategy | first run | second consumer | handler ran | invoices |");
    println!("|---|---|---|---|---|");
    for (name, strategy) in [
        ("at most once", Strategy::AtMostOnce),
        ("at least once, on persist", Strategy::OnPersist),
        ("at least once, on success", Strategy::AtLeastOnce),
        ("exactly once (inbox)", Strategy::ExactlyOnce),
    ] {
        let folder = tempfile::tempdir()?;
        let (queue, database, runs) = new_world(&folder, 1);
        queue.publish(order());
        let first = consume(strategy, &queue, &database, &runs).await?;
        let first = format!("processed={} committed={}", first.applied > 0, queue.is_settled());
        let second = consume(strategy, &queue, &database, &runs).await?;
        let second = match second.received {
            0 => "nothing delivered".to_owned(),
            _ => format!("processed={}", second.applied > 0),
        };
        println!("| {name} | {first} | {second} | {} | {} |", runs.count.load(Relaxed), invoices(&database)?);
    }

    println!("\nOne message published twice, exactly once:");
    let folder = tempfile::tempdir()?;
    let (queue, database, runs) = new_world(&folder, 0);
    for delivery in 1..=2 {
        queue.publish(order());
        let counts = consume(Strategy::ExactlyOnce, &queue, &database, &runs).await?;
        println!(
            "delivery {delivery} processed={} duplicate={} committed={} invoices={}",
            counts.applied == 1,
            counts.duplicates == 1,
            queue.is_settled(),
            invoices(&database)?,
        );
    }
    Ok(())
}
