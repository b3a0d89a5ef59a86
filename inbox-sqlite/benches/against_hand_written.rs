//! A file's messages into SQLite: inbox against a hand-written `rusqlite` loop with the same
//! statements, both durable (WAL, `synchronous=FULL`), interleaved in one run, median of five.
//!
//! `cargo bench -p inbox-sqlite`
#![allow(clippy::print_stdout)]

use inbox_core::{Failure, IdFrom, Json, JsonPointer, Runner};
use inbox_file::FileBroker;
use inbox_sqlite::{SqliteStore, Tx, blocking};
use rusqlite::Connection;
use std::{
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    time::Instant,
};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

const ROUNDS: usize = 5;

#[derive(serde::Deserialize)]
struct Order {
    order_id: i64,
    customer: String,
    amount: i64,
}

#[derive(serde::Deserialize)]
struct OrderWithId {
    id: String,
    order_id: i64,
    customer: String,
    amount: i64,
}

const SCHEMA: &str =
    "CREATE TABLE invoices (order_id INTEGER NOT NULL, customer TEXT, amount INTEGER NOT NULL) STRICT";
const INSERT: &str = "INSERT INTO invoices (order_id, customer, amount) VALUES (?1, ?2, ?3)";

fn create_invoice(tx: &Connection, Json(order): Json<Order>) -> Result<(), Failure> {
    tx.prepare_cached(INSERT)?.execute((order.order_id, order.customer, order.amount))?;
    Ok(())
}

async fn create_invoice_async(Json(order): Json<Order>, tx: Tx) -> Result<(), Failure> {
    create_invoice(&tx, Json(order))
}

/// Ids of 36 bytes, lines of about 120.
fn write_orders(path: &Path, lines: u64) -> Outcome<()> {
    let mut file = std::io::BufWriter::new(std::fs::File::create(path)?);
    for n in 0..lines {
        writeln!(
            file,
            r#"{{"id": "00000000-0000-4000-8000-{n:012}", "order_id": {n}, "customer": "customer {}", "amount": {}}}"#,
            n % 1000,
            n % 977
        )?;
    }
    file.flush()?;
    Ok(())
}

fn check(database: &Path, lines: u64) -> Outcome<()> {
    let (count, distinct): (i64, i64) = Connection::open(database)?.query_row(
        "SELECT count(*), count(DISTINCT order_id) FROM invoices",
        [],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    assert_eq!((count, distinct), (lines as i64, lines as i64), "every message has one effect");
    Ok(())
}

/// The loop that a careful person writes: claim, effect and position in one transaction.
fn hand_written(orders: &Path, database: &Path, batch: usize) -> Outcome<f64> {
    let connection = Connection::open(database)?;
    connection.execute_batch("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;")?;
    connection.execute_batch(SCHEMA)?;
    connection.execute_batch(
        "CREATE TABLE claims (group_id INTEGER NOT NULL, scope TEXT NOT NULL, id TEXT NOT NULL,
            disposition INTEGER NOT NULL, fingerprint BLOB NOT NULL, at_ms INTEGER NOT NULL,
            PRIMARY KEY (group_id, scope, id)) STRICT, WITHOUT ROWID;
         CREATE TABLE positions (source TEXT PRIMARY KEY, next INTEGER NOT NULL) STRICT, WITHOUT ROWID;",
    )?;
    let begun = Instant::now();
    let mut lines = BufReader::new(std::fs::File::open(orders)?);
    let (mut line, mut position, mut lines_left) = (String::new(), 0, true);
    while lines_left {
        connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        for _ in 0..batch {
            line.clear();
            let read = lines.read_line(&mut line)?;
            if read == 0 {
                lines_left = false;
                break;
            }
            position += read as i64;
            let order: OrderWithId = serde_json::from_str(&line)?;
            let fingerprint =
                inbox_core::Fingerprint::of_payload(Some(line.trim_end().as_bytes())).to_bytes();
            let fresh = connection
                .prepare_cached(
                    "INSERT INTO claims VALUES (1, '', ?1, 1, ?2, ?3) ON CONFLICT (group_id, scope, id) DO NOTHING",
                )?
                .execute((&order.id, fingerprint, 1_700_000_000_000_i64))?;
            if fresh == 1 {
                connection.prepare_cached(INSERT)?.execute((order.order_id, order.customer, order.amount))?;
            }
        }
        connection
            .prepare_cached(
                "INSERT INTO positions VALUES ('file', ?1) ON CONFLICT (source) DO UPDATE SET next = excluded.next",
            )?
            .execute([position])?;
        connection.prepare_cached("COMMIT")?.execute([])?;
    }
    Ok(begun.elapsed().as_secs_f64())
}

fn with_inbox(orders: &Path, database: &Path, batch: usize, lanes: usize, is_blocking: bool) -> Outcome<f64> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let store = SqliteStore::open(database)?;
        store.apply_init(SCHEMA).await?;
        let begun = Instant::now();
        let builder = Runner::builder("billing")
            .broker(FileBroker::open(orders)?)
            .store(store)
            .checkpoints()
            .id_from(IdFrom::JsonPointer(JsonPointer::new("/id")?))
            .batch_max(batch)
            // With two, the next unit of work is at the writer thread while one waits for the disk.
            .lanes(lanes);
        if is_blocking {
            builder.handler(blocking(create_invoice)).build()?.run().await?;
        } else {
            builder.handler(create_invoice_async).build()?.run().await?;
        }
        Ok(begun.elapsed().as_secs_f64())
    })
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

fn compare(
    name: &str,
    lines: u64,
    batch: usize,
    lanes: usize,
    is_blocking: bool,
    target: f64,
) -> Outcome<()> {
    let folder = tempfile::tempdir_in(std::env::current_dir()?)?;
    let orders = folder.path().join("orders.jsonl");
    write_orders(&orders, lines)?;
    let (mut hand, mut inbox, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let database = |who: &str| -> PathBuf { folder.path().join(format!("{who}-{round}.db")) };
        let by_hand = hand_written(&orders, &database("hand"), batch)?;
        let by_inbox = with_inbox(&orders, &database("inbox"), batch, lanes, is_blocking)?;
        check(&database("hand"), lines)?;
        check(&database("inbox"), lines)?;
        hand.push(lines as f64 / by_hand);
        inbox.push(lines as f64 / by_inbox);
        ratios.push(by_hand / by_inbox);
    }
    println!(
        "{name}: hand-written {:.0}/s, inbox {:.0}/s, ratio {:.2} (target {target})",
        median(hand),
        median(inbox),
        median(ratios)
    );
    Ok(())
}

/// The peak of this process's resident memory, in KiB.
fn peak_kib() -> Outcome<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line =
        status.lines().find(|line| line.starts_with("VmHWM:")).ok_or("no VmHWM in /proc/self/status")?;
    Ok(line.split_whitespace().nth(1).ok_or("no number in VmHWM")?.parse()?)
}

fn memory(folder: &Path) -> Outcome<()> {
    const LINES: u64 = 1_000_000;
    let orders = folder.join("orders.jsonl");
    write_orders(&orders, LINES)?;
    let seconds = with_inbox(&orders, &folder.join("inbox.db"), 100, 2, true)?;
    let peak = peak_kib()?;
    check(&folder.join("inbox.db"), LINES)?;
    println!(
        "{LINES} lines: {:.0}/s, peak resident {:.1} MiB (target below 64)",
        LINES as f64 / seconds,
        peak as f64 / 1024.0
    );
    Ok(())
}

fn main() -> Outcome<()> {
    if let Some(folder) = std::env::var_os("INBOX_BENCH_MEMORY_IN") {
        return memory(Path::new(&folder));
    }
    compare("per message, two lanes", 3_000, 1, 2, true, 0.5)?;
    compare("per message, two lanes, async handler", 3_000, 1, 2, false, 0.5)?;
    // One lane shows what the hand-over between threads costs where nothing hides it.
    compare("per message, one lane", 3_000, 1, 1, true, 0.5)?;
    compare("batches of 100, two lanes", 200_000, 100, 2, true, 0.35)?;
    compare("batches of 100, two lanes, async handler", 200_000, 100, 2, false, 0.35)?;
    compare("batches of 100, one lane", 200_000, 100, 1, true, 0.35)?;
    // In a process of its own: the peak is of the whole process.
    let folder = tempfile::tempdir_in(std::env::current_dir()?)?;
    let ran = std::process::Command::new(std::env::current_exe()?)
        .env("INBOX_BENCH_MEMORY_IN", folder.path())
        .status()?;
    assert!(ran.success(), "the run over a million lines failed");
    Ok(())
}
