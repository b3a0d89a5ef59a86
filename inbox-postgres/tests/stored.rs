//! The clauses of `StoredInbox` and of `AttemptLog`.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::Database;
use inbox_core::{AttemptLog, ClaimKey, Group, InboxStore, MessageId, Scope, TxLimits};

/// A store on a database that stays until the server ends.
async fn new_store() -> inbox_postgres::PostgresStore {
    let database = Database::new().await;
    let store = database.open().await;
    std::mem::forget(database);
    store
}

inbox_testkit::stored_inbox_tests!(new_store().await);

fn key(id: &str) -> ClaimKey {
    ClaimKey { scope: Scope::default(), id: MessageId::new(id).unwrap() }
}

#[tokio::test]
async fn unclean_runs_are_told_by_instance_with_the_larger_bound() {
    let store = new_store().await;
    let group = Group::new("billing").unwrap();
    assert_eq!(store.open_run(&group, "a", 5).await.unwrap(), None);
    assert_eq!(store.open_run(&group, "b", 1).await.unwrap(), None);
    assert_eq!(store.open_run(&group, "a", 3).await.unwrap(), Some(5));
    assert_eq!(store.open_run(&group, "a", 9).await.unwrap(), Some(5));
    store.close_run(&group, "a").await.unwrap();
    assert_eq!(store.open_run(&group, "a", 1).await.unwrap(), None);
    assert_eq!(store.open_run(&group, "b", 1).await.unwrap(), Some(1));
}

#[tokio::test]
async fn marks_are_set_and_are_cleared_with_the_transaction() {
    let store = new_store().await;
    let (group, other) = (Group::new("billing").unwrap(), Group::new("shipping").unwrap());
    assert_eq!(store.marks(&group, &key("a")).await.unwrap(), 0);
    store.mark_start(&group, &key("a"), 1).await.unwrap();
    store.mark_start(&group, &key("a"), 2).await.unwrap();
    store.mark_start(&other, &key("a"), 7).await.unwrap();
    for commits in [false, true] {
        let mut tx = store.begin(&TxLimits::default()).await.unwrap();
        store.clear_marks(&mut tx, &group, &[key("b"), key("a")]).await.unwrap();
        assert_eq!(store.marks(&group, &key("a")).await.unwrap(), 2);
        if commits {
            store.commit(tx).await.unwrap();
        } else {
            store.rollback(tx).await.unwrap();
        }
    }
    assert_eq!(store.marks(&group, &key("a")).await.unwrap(), 0);
    assert_eq!(store.marks(&other, &key("a")).await.unwrap(), 7);
}
