//! The clauses of `StoredInbox`, and what is SQLite's own about them.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::*;
use inbox_core::{
    Claim, FaultClass, Inbound, InboxStore, Message, Partition, Position, Source, StoredInbox, StoredMessage,
};
use inbox_sqlite::{SqliteStore, SqliteTx, rusqlite::Connection};
use std::time::Duration;

inbox_testkit::stored_inbox_tests!(SqliteStore::in_memory().unwrap());

const HOUR: Duration = Duration::from_secs(3600);

async fn keep(store: &SqliteStore, ids: &[&str]) {
    let mut tx = store.begin(&limits()).await.unwrap();
    for id in ids {
        assert_eq!(claim(store, &mut tx, id, "x").await, Claim::Fresh);
        store.keep(&mut tx, &group(), &[message(id, "x")]).await.unwrap();
    }
    store.commit(tx).await.unwrap();
}

async fn reclaim(store: &SqliteStore, tx: &mut SqliteTx, id: &str) -> Claim {
    store.reclaim(tx, &group(), &[request(id, "x")]).await.unwrap().remove(0)
}

async fn due(store: &SqliteStore) -> Vec<String> {
    let due = store.due(&group(), 100).await.unwrap();
    due.iter().map(|stored: &StoredMessage| stored.message.id().to_owned()).collect()
}

fn count(db: &Database, table: &str) -> i64 {
    let look = Connection::open(&db.path).unwrap();
    look.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn effect_and_disposition_are_one() {
    let db = Database::new().await;
    keep(&db.store, &["a"]).await;
    for is_committed in [false, true] {
        let mut tx = db.store.begin(&limits()).await.unwrap();
        assert_eq!(reclaim(&db.store, &mut tx, "a").await, Claim::Fresh);
        effect(&tx, "a").unwrap();
        if is_committed {
            db.store.commit(tx).await.unwrap()
        } else {
            drop(tx)
        }
        let kept = if is_committed { vec![] } else { vec!["a"] };
        assert_eq!(due(&db.other()).await, kept);
        assert_eq!(count(&db, "inbox_stored"), i64::from(!is_committed));
        assert_eq!(db.effects().len(), usize::from(is_committed));
    }
}

#[tokio::test]
async fn of_two_stores_one_is_fresh_and_the_other_waits_and_is_too_late() {
    let db = Database::new().await;
    keep(&db.store, &["a"]).await;
    let other = db.other();
    let mut tx = db.store.begin(&limits()).await.unwrap();
    assert_eq!(reclaim(&db.store, &mut tx, "a").await, Claim::Fresh);
    assert_eq!(class(other.begin(&impatient()).await), FaultClass::Contention);
    assert_eq!(due(&other).await, ["a"], "reading waits for nobody");
    db.store.commit(tx).await.unwrap();
    let mut tx = other.begin(&impatient()).await.unwrap();
    assert_eq!(reclaim(&other, &mut tx, "a").await, Claim::Applied);
    drop(tx);
    assert_eq!(due(&other).await, [""; 0]);
}

#[tokio::test]
async fn what_failed_is_due_when_its_time_has_come() {
    let db = Database::new().await;
    keep(&db.store, &["a", "b"]).await;
    db.store.record_failure(&group(), &key("a"), 1, "no", HOUR).await.unwrap();
    assert_eq!(due(&db.store).await, ["b"]);
    // The hour passes: the due time moves, as the clock cannot be moved.
    let clock = Connection::open(&db.path).unwrap();
    let passes = "UPDATE inbox_stored SET due_at_ms = due_at_ms - 3600001 WHERE due_at_ms > 0";
    assert_eq!(clock.execute(passes, []).unwrap(), 1);
    assert_eq!(due(&db.store).await, ["a", "b"]);
    assert_eq!(db.store.next_due(&group()).await.unwrap(), Some(Duration::ZERO));
}

#[tokio::test]
async fn a_transaction_that_was_ended_by_its_handler_keeps_nothing() {
    let db = Database::new().await;
    let mut tx = claimed(&db.store, "a").await;
    let _refused = tx.execute_batch("COMMIT");
    let messages = [message("a", "x")];
    assert_eq!(class(db.store.keep(&mut tx, &group(), &messages).await), FaultClass::HandlerFault);
    let asked = [request("a", "x")];
    assert_eq!(class(db.store.reclaim(&mut tx, &group(), &asked).await), FaultClass::HandlerFault);
    drop(tx);
    let mut tx = claimed(&db.store, "a").await;
    tx.execute("DELETE FROM inbox_claims", []).unwrap();
    assert_eq!(class(db.store.keep(&mut tx, &group(), &messages).await), FaultClass::HandlerFault);
    drop(tx);
    assert_eq!(count(&db, "inbox_stored"), 0);
}

#[tokio::test]
async fn what_is_taken_and_kept_again_goes_to_the_end() {
    let db = Database::new().await;
    keep(&db.store, &["a", "b"]).await;
    let mut tx = db.store.begin(&limits()).await.unwrap();
    assert_eq!(reclaim(&db.store, &mut tx, "a").await, Claim::Fresh);
    for _ in 0..2 {
        db.store.keep(&mut tx, &group(), &[message("a", "x")]).await.unwrap();
    }
    db.store.commit(tx).await.unwrap();
    assert_eq!(due(&db.store).await, ["b", "a"]);
}

/// An operator removes claims by hand: what is left of them is never handed out.
#[tokio::test]
async fn a_record_without_its_claim_is_nothing() {
    let db = Database::new().await;
    keep(&db.store, &["a", "b"]).await;
    let by_hand = Connection::open(&db.path).unwrap();
    by_hand.execute("DELETE FROM inbox_claims WHERE id = 'a'", []).unwrap();
    assert_eq!(due(&db.store).await, ["b"]);
    keep(&db.store, &["a"]).await;
    assert_eq!(due(&db.store).await, ["b", "a"]);
    assert_eq!(count(&db, "inbox_stored"), 2);
}

#[tokio::test]
async fn a_position_beyond_sqlites_integers_is_an_error() {
    let db = Database::new().await;
    let mut tx = claimed(&db.store, "a").await;
    let mut inbound = Inbound::new(Partition { source: Source::new("test"), number: 0 }, None);
    inbound.position = Some(Position { at: 0, next: u64::MAX });
    let kept = [Message::new(key("a"), request("a", "x").fingerprint, inbound)];
    assert_eq!(class(db.store.keep(&mut tx, &group(), &kept).await), FaultClass::Permanent);
}
