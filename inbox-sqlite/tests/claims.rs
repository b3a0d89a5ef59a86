//! The clauses of `InboxStore`.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::*;
use inbox_core::{
    Claim, Disposition, FaultClass, Fingerprint, Group, InboxStore, Letter, LetterReason, Letters,
    Resolution, Scope,
};
use inbox_sqlite::SqliteStore;

#[tokio::test]
async fn a_committed_claim_is_found_again_also_after_reopening() {
    let db = Database::new().await;
    assert_eq!(deliver(&db.store, "a").await, Claim::Fresh);
    assert_eq!(deliver(&db.store, "a").await, Claim::Applied);
    assert_eq!(deliver(&db.other(), "a").await, Claim::Applied);
    assert_eq!(db.effects(), ["a"]);

    let path = db.path.clone();
    let Database { store, _directory, .. } = db;
    drop(store);
    assert_eq!(deliver(&SqliteStore::open(&path).unwrap(), "a").await, Claim::Applied);
}

#[tokio::test]
async fn answers_come_in_the_order_of_the_requests() {
    let db = Database::new().await;
    deliver(&db.store, "b").await;
    let mut tx = db.store.begin(&limits()).await.unwrap();
    let asked = [request("c", "x"), request("b", "x"), request("a", "x"), request("b2", "x")];
    let claims = db.store.claim(&mut tx, &group(), &asked).await.unwrap();
    assert_eq!(claims, [Claim::Fresh, Claim::Applied, Claim::Fresh, Claim::Fresh]);
    assert_eq!(db.store.claim(&mut tx, &group(), &[]).await.unwrap(), []);
}

#[tokio::test]
async fn groups_and_scopes_have_their_own_claims() {
    let db = Database::new().await;
    deliver(&db.store, "a").await;
    let mut tx = db.store.begin(&limits()).await.unwrap();
    let other = Group::new("shipping").unwrap();
    assert_eq!(db.store.claim(&mut tx, &other, &[request("a", "x")]).await.unwrap(), [Claim::Fresh]);
    let mut scoped = request("a", "x");
    scoped.key.scope = Scope::new("eu").unwrap();
    assert_eq!(db.store.claim(&mut tx, &group(), &[scoped]).await.unwrap(), [Claim::Fresh]);
}

#[tokio::test]
async fn other_content_is_a_conflict_with_what_was_stored() {
    let db = Database::new().await;
    deliver(&db.store, "a").await;
    let mut tx = db.store.begin(&limits()).await.unwrap();
    let stored = Fingerprint::of_payload(Some(b"x"));
    assert_eq!(claim(&db.store, &mut tx, "a", "y").await, Claim::Conflict { stored });
    let off = inbox_core::ClaimRequest { key: key("a"), fingerprint: Fingerprint::off() };
    assert_eq!(db.store.claim(&mut tx, &group(), &[off]).await.unwrap(), [Claim::Applied]);
}

#[tokio::test]
async fn a_dead_claim_is_found_as_dead() {
    let db = Database::new().await;
    let mut tx = claimed(&db.store, "a").await;
    let letter = Letter::new(message("a", "x"), LetterReason::Failed, "no", 3);
    db.store.bury(&mut tx, &group(), &[letter]).await.unwrap();
    db.store.commit(tx).await.unwrap();
    assert_eq!(deliver(&db.store, "a").await, Claim::Dead);
    let Resolution::Committed { disposition, .. } = db.resolve("a").await else { panic!("absent") };
    assert_eq!(disposition, Disposition::Dead);
}

#[tokio::test]
async fn a_dropped_or_rolled_back_transaction_leaves_nothing() {
    let db = Database::new().await;
    let tx = claimed(&db.store, "a").await;
    effect(&tx, "a").unwrap();
    drop(tx);
    let tx = claimed(&db.store, "a").await;
    effect(&tx, "a").unwrap();
    db.store.rollback(tx).await.unwrap();
    assert_eq!(db.resolve("a").await, Resolution::Absent);
    assert_eq!(deliver(&db.store, "a").await, Claim::Fresh);
    assert_eq!(db.effects(), ["a"]);
}

#[tokio::test]
async fn the_row_of_a_group_that_was_rolled_back_is_made_again() {
    let db = Database::new().await;
    drop(claimed(&db.store, "a").await);
    deliver(&db.store, "a").await;
    assert_eq!(deliver(&db.other(), "a").await, Claim::Applied);
}

#[tokio::test]
async fn a_foreign_writer_is_contention_and_its_rollback_leaves_the_claim_free() {
    let db = Database::new().await;
    let other = db.other();
    let held = claimed(&other, "a").await;
    let error = db.store.begin(&impatient()).await.unwrap_err();
    assert_eq!(error.class(), Some(FaultClass::Contention));
    assert!(error.to_string().contains("another connection is writing"), "{error}");
    drop(held);
    assert_eq!(deliver(&db.store, "a").await, Claim::Fresh);
}

#[tokio::test]
async fn resolving_fails_while_somebody_could_still_commit() {
    let db = Database::new().await;
    let other = db.other();
    let held = claimed(&other, "a").await;
    assert_eq!(class(db.store.resolve(&group(), &[key("a")]).await), FaultClass::Contention);
    other.commit(held).await.unwrap();
    deliver(&db.store, "b").await;
    let answers = db.store.resolve(&group(), &[key("b"), key("missing"), key("a")]).await.unwrap();
    let committed = Resolution::Committed {
        disposition: Disposition::Applied,
        fingerprint: Fingerprint::of_payload(Some(b"x")),
    };
    assert_eq!(answers, [committed, Resolution::Absent, committed]);
    let unknown = Group::new("unknown").unwrap();
    assert_eq!(db.store.resolve(&unknown, &[key("a")]).await.unwrap(), [Resolution::Absent]);
}

#[tokio::test]
async fn a_claim_of_ones_own_is_fresh_again_and_a_repeated_key_is_refused() {
    let db = Database::new().await;
    let mut tx = claimed(&db.store, "a").await;
    assert_eq!(claim(&db.store, &mut tx, "a", "x").await, Claim::Fresh);
    let twice = [request("b", "x"), request("b", "x")];
    let error = db.store.claim(&mut tx, &group(), &twice).await.unwrap_err();
    assert_eq!(error.class(), Some(FaultClass::Permanent));
}

#[tokio::test]
async fn many_claims_in_one_call_are_all_decided() {
    let db = Database::new().await;
    let requests: Vec<_> = (0..2000).map(|n| request(&format!("m{n}"), "x")).collect();
    let mut tx = db.store.begin(&limits()).await.unwrap();
    let half = db.store.claim(&mut tx, &group(), &requests[..1000]).await.unwrap();
    assert!(half.iter().all(|claim| *claim == Claim::Fresh));
    db.store.commit(tx).await.unwrap();
    let mut tx = db.store.begin(&limits()).await.unwrap();
    let all = db.store.claim(&mut tx, &group(), &requests).await.unwrap();
    assert!(all[..1000].iter().all(|claim| *claim == Claim::Applied));
    assert!(all[1000..].iter().all(|claim| *claim == Claim::Fresh));
}

#[tokio::test]
async fn library_mode_claims_in_a_transaction_of_ones_own() {
    let db = Database::new().await;
    let mut connection = rusqlite::Connection::open(&db.path).unwrap();
    let asked = [request("a", "x")];
    assert_eq!(class(db.store.claim_in(&connection, &group(), &asked)), FaultClass::Permanent);
    for (expected, commits) in [(Claim::Fresh, false), (Claim::Fresh, true), (Claim::Applied, true)] {
        let tx = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).unwrap();
        assert_eq!(db.store.claim_in(&tx, &group(), &asked).unwrap(), [expected]);
        if commits {
            tx.commit().unwrap();
        }
    }
    assert_eq!(deliver(&db.store, "a").await, Claim::Applied);
}

#[tokio::test]
async fn a_database_in_memory_keeps_the_contract() {
    let store = SqliteStore::in_memory().unwrap();
    store.apply_init("CREATE TABLE effects (what TEXT NOT NULL) STRICT").await.unwrap();
    drop(claimed(&store, "a").await);
    assert_eq!(deliver(&store, "a").await, Claim::Fresh);
    assert_eq!(deliver(&store, "a").await, Claim::Applied);
    assert_eq!(store.describe(), "sqlite::memory:");
}
