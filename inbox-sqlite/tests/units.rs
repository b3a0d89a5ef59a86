//! Units of work on the store's own thread.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::*;
use inbox_core::{Claim, InboxStore, Resolution};
use inbox_sqlite::SqliteStore;
use std::{
    cell::RefCell,
    future::pending,
    sync::{Arc, Mutex, mpsc},
    time::Duration,
};
use tokio::{
    runtime::{Builder, Runtime},
    sync::oneshot,
};

/// Runs a unit and waits for what it gives.
async fn in_unit<T: Send + 'static>(
    store: &SqliteStore,
    unit: impl Future<Output = T> + Send + 'static,
) -> Option<T> {
    let (done, result) = oneshot::channel();
    store.run_unit(Box::pin(async move {
        let _ = done.send(unit.await);
    }));
    result.await.ok()
}

fn thread_name() -> String {
    std::thread::current().name().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn units_run_in_order_on_the_thread_of_the_store() {
    let db = Database::new().await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    for n in 0..100 {
        let (seen, store) = (Arc::clone(&seen), db.store.clone());
        store.clone().run_unit(Box::pin(async move {
            deliver(&store, &format!("m{n}")).await;
            seen.lock().unwrap().push((n, thread_name()));
        }));
    }
    in_unit(&db.store, async {}).await.unwrap();
    let expected: Vec<_> = (0..100).map(|n| (n, "inbox-sqlite".to_owned())).collect();
    assert_eq!(*seen.lock().unwrap(), expected);
    assert_eq!(db.effects().len(), 100);
}

#[tokio::test]
async fn a_unit_may_wait_for_the_runtime() {
    let db = Database::new().await;
    let store = db.store.clone();
    let name = in_unit(&db.store, async move {
        let tx = claimed(&store, "a").await;
        tokio::spawn(async {}).await.unwrap();
        store.commit(tx).await.unwrap();
        thread_name()
    });
    assert_eq!(name.await.unwrap(), "inbox-sqlite");
    assert!(matches!(db.resolve("a").await, Resolution::Committed { .. }));
}

#[tokio::test]
async fn a_panic_ends_the_unit_and_not_the_thread() {
    let db = Database::new().await;
    for _ in 0..3 {
        let store = db.store.clone();
        let outcome = in_unit(&db.store, async move {
            let tx = claimed(&store, "a").await;
            effect(&tx, "a").unwrap();
            panic!("on purpose");
        });
        assert!(outcome.await.is_none());
    }
    let store = db.store.clone();
    let outcome = in_unit(&db.store, async move { (deliver(&store, "a").await, thread_name()) });
    assert_eq!(outcome.await, Some((Claim::Fresh, "inbox-sqlite".to_owned())));
    assert_eq!(db.effects(), ["a"]);
}

#[tokio::test]
async fn a_transaction_dropped_half_way_frees_the_slot() {
    let db = Database::new().await;
    let tx = claimed(&db.store, "a").await;
    let store = db.store.clone();
    let waiting = in_unit(&db.store, async move { deliver(&store, "a").await });
    drop(tx);
    assert_eq!(waiting.await, Some(Claim::Fresh));
}

#[test]
fn the_end_of_the_runtime_ends_a_unit_that_waits() {
    let setup = Runtime::new().unwrap();
    let db = setup.block_on(Database::new());
    for flavour in [Builder::new_current_thread(), Builder::new_multi_thread()] {
        let mut flavour = flavour;
        let runtime = flavour.enable_all().build().unwrap();
        let store = db.store.clone();
        runtime.block_on(async {
            let (claimed_it, wait) = oneshot::channel();
            store.clone().run_unit(Box::pin(async move {
                let tx = claimed(&store, "a").await;
                effect(&tx, "a").unwrap();
                claimed_it.send(()).unwrap();
                pending::<()>().await;
                drop(tx);
            }));
            wait.await.unwrap();
        });
        drop(runtime);
        // The other store waits for the lock of the unit that was cut off, and gets it.
        let mut patient = limits();
        patient.lock_timeout = Duration::from_secs(60);
        setup.block_on(async {
            let other = db.other();
            let mut tx = other.begin(&patient).await.unwrap();
            assert_eq!(claim(&other, &mut tx, "a", "x").await, Claim::Fresh);
        });
    }
    assert_eq!(db.effects(), Vec::<String>::new());
    setup.block_on(async {
        let store = db.store.clone();
        assert_eq!(in_unit(&db.store, async move { deliver(&store, "a").await }).await, Some(Claim::Fresh));
    });
}

thread_local! {
    /// Dropped when its thread ends.
    static AT_END: RefCell<Option<mpsc::Sender<()>>> = const { RefCell::new(None) };
}

#[test]
fn the_thread_ends_with_the_last_store_also_when_a_unit_drops_it() {
    let runtime = Runtime::new().unwrap();
    let db = runtime.block_on(Database::new());
    let (at_end, ended) = mpsc::channel();
    let store = db.store.clone();
    let Database { store: first, path, _directory } = db;
    drop(first);
    runtime.block_on(async {
        let (done, wait) = oneshot::channel();
        let last = store.clone();
        store.run_unit(Box::pin(async move {
            AT_END.set(Some(at_end));
            deliver(&last, "a").await;
            let _ = done.send(());
        }));
        drop(store);
        wait.await.unwrap();
    });
    // The sender goes away with the thread.
    assert_eq!(ended.recv(), Err(mpsc::RecvError));
    drop(runtime);
    let again = SqliteStore::open(path).unwrap();
    let runtime = Runtime::new().unwrap();
    assert_eq!(runtime.block_on(deliver(&again, "a")), Claim::Applied);
}
