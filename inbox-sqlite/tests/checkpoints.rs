//! The clauses of `Checkpoints`.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::*;
use inbox_core::{
    Checkpoint, CheckpointMove, Checkpoints, FaultClass, Fingerprint, Group, InboxStore, MoveRule, Moved,
    Partition, RecordMark, Source, StoreError,
};

fn partition(number: u32) -> Partition {
    Partition { source: Source::new("kafka:orders"), number }
}

fn mark(at: u64) -> Option<RecordMark> {
    Some(RecordMark { at, digest: Fingerprint::of_payload(Some(b"x")), timestamp_ms: Some(17) })
}

fn to(rule: MoveRule, next: u64, epoch: u64) -> CheckpointMove {
    CheckpointMove {
        partition: partition(0),
        rule,
        to: Checkpoint::new(next, epoch, mark(next.saturating_sub(1))),
    }
}

fn from(expected_next: Option<u64>, epoch: u64) -> MoveRule {
    MoveRule::From { expected_next, epoch }
}

async fn advance(db: &Database, step: CheckpointMove) -> Moved {
    let mut tx = db.store.begin(&limits()).await.unwrap();
    let mut moved = db.store.advance(&mut tx, &group(), &[step]).await.unwrap();
    db.store.commit(tx).await.unwrap();
    moved.remove(0)
}

async fn current(db: &Database) -> Option<Checkpoint> {
    db.store.checkpoints(&group(), &[partition(0)]).await.unwrap().remove(0)
}

#[tokio::test]
async fn moves_are_durable_with_their_transaction_and_not_without() {
    let db = Database::new().await;
    assert_eq!(current(&db).await, None);
    let mut tx = db.store.begin(&limits()).await.unwrap();
    db.store.advance(&mut tx, &group(), &[to(MoveRule::Forward, 5, 0)]).await.unwrap();
    drop(tx);
    assert_eq!(current(&db).await, None);
    advance(&db, to(MoveRule::Forward, 5, 0)).await;
    assert_eq!(current(&db).await, Some(Checkpoint::new(5, 0, mark(4))));
    let reopened = db.other();
    assert_eq!(
        reopened.checkpoints(&group(), &[partition(1), partition(0)]).await.unwrap(),
        [None, Some(Checkpoint::new(5, 0, mark(4)))]
    );
}

#[tokio::test]
async fn forward_never_goes_back_and_keeps_the_epoch() {
    let db = Database::new().await;
    db.store.take_over(&group(), &[partition(0)]).await.unwrap();
    for (next, expected) in [(5, 5), (3, 5), (5, 5), (9, 9), (0, 9)] {
        assert_eq!(advance(&db, to(MoveRule::Forward, next, 77)).await, Moved::Done);
        assert_eq!(current(&db).await, Some(Checkpoint::new(expected, 1, mark(expected - 1))));
    }
}

#[tokio::test]
async fn from_moves_only_from_where_it_says() {
    let db = Database::new().await;
    assert_eq!(advance(&db, to(from(Some(0), 0), 5, 1)).await, Moved::Fenced { found: None });
    assert_eq!(advance(&db, to(from(None, 0), 5, 1)).await, Moved::Done);
    let found = Some(Checkpoint::new(5, 1, mark(4)));
    for rule in [from(None, 1), from(Some(4), 1), from(Some(5), 0), from(Some(5), 2)] {
        assert_eq!(advance(&db, to(rule, 9, 1)).await, Moved::Fenced { found: found.clone() }, "{rule:?}");
        assert_eq!(current(&db).await, found);
    }
    assert_eq!(advance(&db, to(from(Some(5), 1), 9, 1)).await, Moved::Done);
    assert_eq!(current(&db).await, Some(Checkpoint::new(9, 1, mark(8))));
}

#[tokio::test]
async fn taking_over_raises_the_epoch_and_fences_the_old_owner() {
    let db = Database::new().await;
    let taken = db.store.take_over(&group(), &[partition(0), partition(1)]).await.unwrap();
    assert_eq!(taken, [Checkpoint::new(0, 1, None), Checkpoint::new(0, 1, None)]);
    advance(&db, to(from(Some(0), 1), 5, 1)).await;
    let taken = db.other().take_over(&group(), &[partition(0)]).await.unwrap();
    assert_eq!(taken, [Checkpoint::new(5, 2, mark(4))]);
    let fenced = advance(&db, to(from(Some(5), 1), 6, 1)).await;
    assert_eq!(fenced, Moved::Fenced { found: Some(taken[0].clone()) });
}

#[tokio::test]
async fn holding_keeps_others_away_until_the_end() {
    let db = Database::new().await;
    advance(&db, to(MoveRule::Forward, 5, 0)).await;
    let mut tx = db.store.begin(&limits()).await.unwrap();
    let held = db.store.hold(&mut tx, &group(), &[partition(1), partition(0)]).await.unwrap();
    assert_eq!(held, [None, Some(Checkpoint::new(5, 0, mark(4)))]);
    let other = db.other();
    assert_eq!(other.begin(&impatient()).await.unwrap_err().class(), Some(FaultClass::Contention));
    drop(tx);
    other.begin(&impatient()).await.unwrap();
}

#[tokio::test]
async fn a_mark_may_be_absent_or_without_a_time() {
    let db = Database::new().await;
    let bare = RecordMark { at: 0, digest: Fingerprint::off(), timestamp_ms: None };
    for mark in [Some(bare), None] {
        let next = if mark.is_some() { 1 } else { 2 };
        let to = Checkpoint::new(next, 0, mark);
        advance(&db, CheckpointMove { partition: partition(0), rule: MoveRule::Forward, to: to.clone() })
            .await;
        assert_eq!(current(&db).await, Some(to));
    }
}

#[tokio::test]
async fn forgetting_counts_and_listing_is_by_number() {
    let db = Database::new().await;
    let source = Source::new("kafka:orders");
    assert_eq!(db.store.forget(&group(), &source).await.unwrap(), 0);
    assert_eq!(db.store.list_checkpoints(&group(), &source).await.unwrap(), []);
    db.store.take_over(&group(), &[partition(10), partition(2)]).await.unwrap();
    let elsewhere = Partition { source: Source::new("file:x"), number: 0 };
    db.store.take_over(&group(), std::slice::from_ref(&elsewhere)).await.unwrap();
    let fresh = Checkpoint::new(0, 1, None);
    assert_eq!(
        db.store.list_checkpoints(&group(), &source).await.unwrap(),
        [(partition(2), fresh.clone()), (partition(10), fresh.clone())]
    );
    let other = Group::new("other").unwrap();
    assert_eq!(db.store.forget(&other, &source).await.unwrap(), 0);
    assert_eq!(db.store.forget(&group(), &source).await.unwrap(), 2);
    assert_eq!(db.store.list_checkpoints(&group(), &source).await.unwrap(), []);
    assert_eq!(db.store.checkpoints(&group(), &[elsewhere]).await.unwrap(), [Some(fresh)]);
}

#[tokio::test]
async fn a_number_beyond_sqlites_integers_is_an_error() {
    let db = Database::new().await;
    let mut tx = db.store.begin(&limits()).await.unwrap();
    let outcome = db.store.advance(&mut tx, &group(), &[to(MoveRule::Forward, u64::MAX, 0)]).await;
    let error: StoreError = outcome.unwrap_err();
    assert_eq!(error.class(), Some(FaultClass::Permanent));
    assert!(error.to_string().contains("largest integer of SQLite"), "{error}");
}
