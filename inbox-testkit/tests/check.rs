//! The check of handlers: a good one passes, and each bad one is found, over two stores.

use inbox_core::{Failure, Message, Tx};
use inbox_sqlite::{SqliteStore, Synchronous};
use inbox_testkit::{
    check::{Check, Database, Finding, Trial, check},
    *,
};
use rusqlite::Connection;
use std::{
    fmt::Debug,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

fn messages() -> Vec<Publish> {
    ["a1", "b1", "a2", "c1"].map(|id| Publish::new(id).key(&id[..1])).to_vec()
}

/// All findings in one text, which must not be read to the end to know what is wrong.
fn told<T: Debug>(findings: &[Finding<T>]) -> String {
    findings.iter().map(|finding| format!("{finding}\n")).collect()
}

// Over the reference store.

fn effects(database: &MemoryDatabase) -> (Vec<String>, i64) {
    let mut ids: Vec<String> = database.rows(EFFECTS).into_iter().map(|row| row.id).collect();
    ids.sort();
    (ids, database.counter(COUNTER))
}

/// Two statements with an await point between them.
async fn good(message: Message, mut tx: Tx<MemoryStore>) -> Result<(), Failure> {
    tx.append(EFFECTS, &message)?;
    tokio::task::yield_now().await;
    tx.add(COUNTER, 1)?;
    Ok(())
}

#[test]
fn a_good_handler_has_no_finding() {
    let findings = check(good, MemoryDatabase::new, messages(), effects);
    assert!(findings.is_empty(), "{}", told(&findings));
}

#[test]
fn effects_beside_the_transaction_are_found() {
    // The handler writes through a connection of its own.
    let elsewhere = MemoryDatabase::new();
    let beside = elsewhere.clone();
    let handler = move |message: Message, tx: Tx<MemoryStore>| {
        let beside = beside.clone();
        async move {
            let mut own = beside.transaction();
            own.append(EFFECTS, &message)?;
            own.commit()?;
            tokio::task::yield_now().await;
            drop(tx);
            Ok::<(), Failure>(())
        }
    };
    let before = std::cell::Cell::new(0);
    let snapshot = move |_: &MemoryDatabase| {
        let rows = elsewhere.rows(EFFECTS).len();
        rows - before.replace(rows)
    };
    let findings = check(handler, MemoryDatabase::new, messages(), snapshot);
    let doubled = findings.iter().any(|finding| {
        matches!(finding, Finding::EffectsDiffer { trial: Trial::Crash { .. }, clean: 4, found } if *found > 4)
    });
    assert!(doubled, "{}", told(&findings));
    assert!(
        findings.iter().any(|f| matches!(f, Finding::EffectsDiffer { trial: Trial::TimeOut { .. }, .. }))
    );
    // Duplicates alone do not run it, so they show nothing.
    assert!(!told(&findings).contains("three times"), "{}", told(&findings));
}

#[test]
fn mails_without_an_idempotency_key_are_found() {
    let sent = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&sent);
    let handler = move |message: Message, mut tx: Tx<MemoryStore>| {
        counted.fetch_add(1, Relaxed);
        async move { apply_effect(&mut tx, &message) }
    };
    let check = Check::new(MemoryDatabase::new, messages(), effects).outside(move || sent.load(Relaxed));
    let findings = check.run(handler);
    assert!(!findings.is_empty());
    assert!(
        findings.iter().all(|finding| matches!(finding, Finding::ActsOutside { clean: 4, found: 5, .. }))
    );
    let text = "when the process died with a1 between handler and commit, it acted 5 time(s) outside of the \
                transaction; in a clean run 4: send the idempotency key along";
    assert!(told(&findings).contains(text), "{}", told(&findings));
}

#[test]
fn a_kept_transaction_is_found() {
    let handler = |message: Message, mut tx: Tx<MemoryStore>| async move {
        apply_effect(&mut tx, &message)?;
        tokio::spawn(async move {
            std::future::pending::<()>().await;
            drop(tx);
        });
        Ok::<(), Failure>(())
    };
    let findings = check(handler, MemoryDatabase::new, messages(), effects);
    assert_eq!(findings, [Finding::KeepsTransaction { id: "a1".to_owned() }]);
}

#[test]
fn a_hidden_failure_is_found() {
    let handler = |message: Message, mut tx: Tx<MemoryStore>| async move {
        apply_effect(&mut tx, &message)?;
        tx.abort();
        Ok::<(), Failure>(())
    };
    let findings = check(handler, MemoryDatabase::new, messages(), effects);
    assert!(matches!(&findings[..], [Finding::HidesFailure { id, .. }] if id == "a1"), "{}", told(&findings));
}

/// A handler whose effect depends on what came before it of other keys.
#[test]
fn a_handler_that_needs_an_order_between_keys_is_found() {
    let rows = |database: &MemoryDatabase| -> Vec<String> {
        database.rows(EFFECTS).into_iter().map(|row| row.id).collect()
    };
    let findings = check(good, MemoryDatabase::new, messages(), rows);
    assert!(!findings.is_empty());
    assert!(
        findings.iter().all(|f| matches!(f, Finding::EffectsDiffer { trial: Trial::Reordered { .. }, .. }))
    );
}

#[test]
fn a_handler_that_fails_or_panics_is_told_of_once() {
    let fails = |_: Message, _: Tx<MemoryStore>| async { Err::<(), _>(Failure::message("no such order")) };
    let findings = check(fails, MemoryDatabase::new, messages(), effects);
    assert_eq!(told(&findings), "when nothing went wrong, the handler of a1 failed: no such order\n");
    let panics = |_: Message, _: Tx<MemoryStore>| async {
        std::panic::resume_unwind(Box::new("quietly"));
        #[allow(unreachable_code)]
        Ok::<(), Failure>(())
    };
    let findings = check(panics, MemoryDatabase::new, messages(), effects);
    assert_eq!(told(&findings), "when nothing went wrong, the handler of a1 failed: it panicked\n");
}

// Over SQLite.

struct Sqlite {
    folder: tempfile::TempDir,
}

impl Sqlite {
    fn new() -> Self {
        let world = Self { folder: tempfile::tempdir().unwrap() };
        drop(world.open());
        let tables = "CREATE TABLE invoices (id TEXT NOT NULL); CREATE TABLE total (n INTEGER NOT NULL);
                      INSERT INTO total VALUES (0);";
        world.look().execute_batch(tables).unwrap();
        world
    }

    fn look(&self) -> Connection {
        Connection::open(self.folder.path().join("inbox.db")).unwrap()
    }

    fn invoices(&self) -> (i64, i64) {
        let sql = "SELECT (SELECT count(*) FROM invoices), n FROM total";
        self.look().query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap()
    }
}

impl Database for Sqlite {
    type Store = SqliteStore;

    fn open(&self) -> SqliteStore {
        let options = SqliteStore::options().synchronous(Synchronous::Normal);
        options.open(self.folder.path().join("inbox.db")).unwrap()
    }
}

async fn create_invoice(message: Message, tx: Tx<SqliteStore>) -> Result<(), Failure> {
    tx.execute("INSERT INTO invoices (id) VALUES (?1)", [message.id()])?;
    tokio::task::yield_now().await;
    tx.execute("UPDATE total SET n = n + 1", [])?;
    Ok(())
}

#[test]
fn a_good_handler_over_sqlite_has_no_finding() {
    let findings = check(create_invoice, Sqlite::new, messages(), Sqlite::invoices);
    assert!(findings.is_empty(), "{}", told(&findings));
}

#[test]
fn a_handler_over_sqlite_that_commits_is_found() {
    async fn commits(message: Message, tx: Tx<SqliteStore>) -> Result<(), Failure> {
        tx.execute("INSERT INTO invoices (id) VALUES (?1)", [message.id()])?;
        let _refused = tx.execute_batch("COMMIT");
        Ok(())
    }
    let findings = check(commits, Sqlite::new, messages(), Sqlite::invoices);
    assert!(matches!(&findings[..], [Finding::EndsTransaction { .. }]), "{}", told(&findings));
}

#[test]
fn a_handler_over_sqlite_that_rolls_back_is_found() {
    async fn rolls_back(_: Message, tx: Tx<SqliteStore>) -> Result<(), Failure> {
        tx.execute_batch("ROLLBACK")?;
        Ok(())
    }
    let findings = check(rolls_back, Sqlite::new, messages(), Sqlite::invoices);
    assert!(matches!(&findings[..], [Finding::EndsTransaction { .. }]), "{}", told(&findings));
}

#[test]
fn a_handler_over_sqlite_that_keeps_its_transaction_is_found() {
    async fn keeps(message: Message, tx: Tx<SqliteStore>) -> Result<(), Failure> {
        tx.execute("INSERT INTO invoices (id) VALUES (?1)", [message.id()])?;
        std::mem::forget(tx);
        Ok(())
    }
    let findings = check(keeps, Sqlite::new, messages(), Sqlite::invoices);
    assert_eq!(findings, [Finding::KeepsTransaction { id: "a1".to_owned() }]);
}

#[test]
fn a_handler_over_sqlite_that_counts_in_memory_is_found() {
    let sent = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&sent);
    let handler = move |message: Message, tx: Tx<SqliteStore>| {
        let counted = Arc::clone(&counted);
        async move {
            counted.fetch_add(1, Relaxed);
            create_invoice(message, tx).await
        }
    };
    let check = Check::new(Sqlite::new, messages(), Sqlite::invoices).outside(move || sent.load(Relaxed));
    let findings = check.run(handler);
    assert!(findings.iter().any(|f| matches!(f, Finding::ActsOutside { clean: 4, found: 5, .. })));
    assert!(!findings.iter().any(|f| matches!(f, Finding::EffectsDiffer { .. })), "{}", told(&findings));
}
