//! The clauses of `Letters`, and reading back.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use bytes::Bytes;
use common::*;
use inbox_core::{
    Claim, ClaimKey, Conflict, FaultClass, Fingerprint, Group, GroupStats, Headers, Inbound, InboxStore,
    Inspect, Letter, LetterReason, Letters, Message, MessageId, Page, Partition, Position, Scope, Source,
};

async fn bury(db: &Database, id: &str, error: &str) {
    let mut tx = db.store.begin(&limits()).await.unwrap();
    claim(&db.store, &mut tx, id, "x").await;
    let letter = Letter::new(message(id, "x"), LetterReason::Failed, error, 2);
    db.store.bury(&mut tx, &group(), &[letter]).await.unwrap();
    db.store.commit(tx).await.unwrap();
}

fn all(rows_max: u32) -> Page {
    Page::first(None, rows_max)
}

/// A record with every column set, in awkward ways.
fn full_inbound() -> Inbound {
    let partition = Partition { source: Source::new("kafka:orders\n\0é"), number: u32::MAX };
    let mut inbound = Inbound::new(partition, Some(Bytes::from_static(&[0, 255, 254, b'a'])));
    inbound.position = Some(Position { at: 7, next: i64::MAX as u64 });
    inbound.key = Some(Bytes::from_static(&[255, 0]));
    inbound.native_id = Some("native \0 id".into());
    inbound.message_type = Some("order.placed".into());
    inbound.timestamp_ms = Some(-5);
    inbound.oversize_bytes = Some(1 << 40);
    let mut headers = Headers::new();
    headers.push("trace", Some(Bytes::from_static(b"00-ab")));
    headers.push("trace", None);
    headers.push("raw", Some(Bytes::from_static(&[128, 0])));
    inbound.headers = headers;
    inbound
}

fn same_record(left: &Inbound, right: &Inbound) {
    assert_eq!(left.partition, right.partition);
    assert_eq!(left.position, right.position);
    assert_eq!(left.key, right.key);
    assert_eq!(left.native_id, right.native_id);
    assert_eq!(left.message_type, right.message_type);
    assert_eq!(left.headers, right.headers);
    assert_eq!(left.payload, right.payload);
    assert_eq!(left.timestamp_ms, right.timestamp_ms);
    assert_eq!(left.oversize_bytes, right.oversize_bytes);
}

#[tokio::test]
async fn every_column_of_a_record_is_read_back() {
    let db = Database::new().await;
    let tombstone = Inbound::new(Partition { source: Source::new(""), number: 0 }, None);
    let mut empty = tombstone.clone();
    empty.payload = Some(Bytes::new());
    empty.key = Some(Bytes::new());
    let records = [full_inbound(), tombstone, empty];
    let mut tx = db.store.begin(&limits()).await.unwrap();
    for (n, inbound) in records.iter().enumerate() {
        let key = ClaimKey { scope: Scope::unidentified(), id: MessageId::new(format!("m{n}")).unwrap() };
        let fingerprint = Fingerprint::of_payload(inbound.payload.as_deref());
        let message = Message::new(key, fingerprint, inbound.clone());
        let letter = Letter::new(message.clone(), LetterReason::Oversize, "line 1\nline 2", u32::MAX);
        db.store.bury(&mut tx, &group(), &[letter]).await.unwrap();
        db.store
            .record_conflicts(&mut tx, &group(), &[Conflict::new(message, Fingerprint::off())])
            .await
            .unwrap();
    }
    db.store.commit(tx).await.unwrap();

    let letters = db.store.letters(&all(10)).await.unwrap();
    let conflicts = db.store.conflicts(&all(10)).await.unwrap();
    assert_eq!((letters.len(), conflicts.len()), (3, 3));
    for (n, inbound) in records.iter().enumerate() {
        let (letter, conflict) = (&letters[n], &conflicts[n]);
        same_record(&letter.inbound, inbound);
        same_record(&conflict.inbound, inbound);
        let id = format!("m{n}");
        assert_eq!((letter.claim.scope.as_str(), letter.claim.id.as_str()), ("~unidentified", id.as_str()));
        assert_eq!(conflict.claim, letter.claim);
        assert_eq!((letter.group.as_str(), conflict.group.as_str()), ("billing", "billing"));
        assert_eq!((letter.reason.as_str(), letter.error.as_str()), ("oversize", "line 1\nline 2"));
        assert_eq!(letter.attempts, u32::MAX);
        assert!(letter.created_at_ms > 0 && conflict.first_at_ms > 0);
        assert_eq!(conflict.stored, Fingerprint::off());
        assert_eq!(conflict.refused, Fingerprint::of_payload(inbound.payload.as_deref()));
        let one = db.store.letter(letter.letter_id).await.unwrap().unwrap();
        same_record(&one.inbound, inbound);
    }
    assert!(db.store.letter(999).await.unwrap().is_none());
}

#[tokio::test]
async fn a_position_beyond_sqlites_integers_is_an_error() {
    let db = Database::new().await;
    let mut inbound = full_inbound();
    inbound.position = Some(Position { at: 0, next: u64::MAX });
    let mut tx = claimed(&db.store, "a").await;
    let letter =
        Letter::new(Message::new(key("a"), Fingerprint::off(), inbound), LetterReason::Failed, "no", 1);
    assert_eq!(class(db.store.bury(&mut tx, &group(), &[letter]).await), FaultClass::Permanent);
}

#[tokio::test]
async fn letters_become_durable_with_the_transaction_and_not_without() {
    let db = Database::new().await;
    let mut tx = claimed(&db.store, "a").await;
    let letter = Letter::new(message("a", "x"), LetterReason::Undecodable, "no", 0);
    db.store.bury(&mut tx, &group(), &[letter]).await.unwrap();
    db.store
        .record_conflicts(&mut tx, &group(), &[Conflict::new(message("b", "y"), Fingerprint::off())])
        .await
        .unwrap();
    drop(tx);
    assert!(db.store.letters(&all(10)).await.unwrap().is_empty());
    assert!(db.store.conflicts(&all(10)).await.unwrap().is_empty());
    assert_eq!(deliver(&db.store, "a").await, Claim::Fresh);

    bury(&db, "c", "no").await;
    assert_eq!(db.other().letters(&all(10)).await.unwrap().len(), 1);
}

#[tokio::test]
async fn the_same_letter_is_kept_once() {
    let db = Database::new().await;
    bury(&db, "a", "first").await;
    bury(&db, "a", "second").await;
    let letters = db.store.letters(&all(10)).await.unwrap();
    assert_eq!(letters.len(), 1);
    assert_eq!(letters[0].error, "first");
    assert_eq!(deliver(&db.store, "a").await, Claim::Dead);
}

#[tokio::test]
async fn a_claim_that_was_only_found_keeps_its_disposition() {
    let db = Database::new().await;
    deliver(&db.store, "a").await;
    bury(&db, "a", "late").await;
    assert_eq!(deliver(&db.store, "a").await, Claim::Applied);
}

#[tokio::test]
async fn a_conflict_is_kept_once_per_content_and_counted() {
    let db = Database::new().await;
    deliver(&db.store, "a").await;
    let stored = Fingerprint::of_payload(Some(b"x"));
    for contents in [&["y", "z"][..], &["y"], &["y", "y"]] {
        let mut tx = db.store.begin(&limits()).await.unwrap();
        let conflicts: Vec<_> = contents.iter().map(|c| Conflict::new(message("a", c), stored)).collect();
        db.store.record_conflicts(&mut tx, &group(), &conflicts).await.unwrap();
        db.store.commit(tx).await.unwrap();
    }
    let found = db.store.conflicts(&all(10)).await.unwrap();
    let seen: Vec<_> = found.iter().map(|c| (c.inbound.payload.clone().unwrap(), c.seen)).collect();
    assert_eq!(seen, [(Bytes::from("y"), 4), (Bytes::from("z"), 1)]);
    assert!(found.iter().all(|c| c.stored == stored));
}

#[tokio::test]
async fn pages_go_on_behind_the_last_number() {
    let db = Database::new().await;
    for n in 0..5 {
        bury(&db, &format!("m{n}"), "no").await;
    }
    let mut page = Page::first(Some(group()), 2);
    let mut ids = Vec::new();
    loop {
        let letters = db.store.letters(&page).await.unwrap();
        assert!(letters.len() <= 2);
        let Some(last) = letters.last() else { break };
        page.after = last.letter_id;
        ids.extend(letters.iter().map(|l| l.claim.id.to_string()));
    }
    assert_eq!(ids, ["m0", "m1", "m2", "m3", "m4"]);
    let other = Page::first(Some(Group::new("other").unwrap()), 10);
    assert!(db.store.letters(&other).await.unwrap().is_empty());
    assert!(db.store.conflicts(&other).await.unwrap().is_empty());
}

#[tokio::test]
async fn stats_count_each_group() {
    let db = Database::new().await;
    assert_eq!(db.store.group_stats().await.unwrap(), []);
    deliver(&db.store, "a").await;
    deliver(&db.store, "b").await;
    bury(&db, "c", "no").await;
    let mut tx = db.store.begin(&limits()).await.unwrap();
    let other = Group::new("audit").unwrap();
    let conflicts = [Conflict::new(message("a", "y"), Fingerprint::off())];
    db.store.record_conflicts(&mut tx, &other, &conflicts).await.unwrap();
    db.store.commit(tx).await.unwrap();
    let mut audit = GroupStats::new("audit");
    audit.conflicts = 1;
    let mut billing = GroupStats::new("billing");
    (billing.applied, billing.dead) = (2, 1);
    assert_eq!(db.store.group_stats().await.unwrap(), [audit, billing]);
}
