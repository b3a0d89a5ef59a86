//! Contract of letters and conflicts: durable with the transaction, once, and complete.

use super::{harness::StoreHarness, help::*};
use bytes::Bytes;
use inbox_core::{
    Claim, Conflict, Disposition, Headers, Inbound, InboxStore, Inspect, Letter, LetterReason, Letters,
    Message, Page, Position, Resolution, StoredLetter,
};

fn letter(id: &str) -> Letter {
    Letter::new(message(id, "content"), LetterReason::Failed, "it failed", 3)
}

fn conflict(id: &str, text: &str) -> Conflict {
    Conflict::new(message(id, text), content("content"))
}

async fn all_letters<S: Inspect>(store: &S) -> Vec<StoredLetter> {
    store.letters(&Page::first(None, 100)).await.expect("letters are listed")
}

/// Claims and buries in one transaction.
async fn bury<S: Letters>(store: &S, id: &str) {
    let mut tx = claimed(store, id).await;
    store.bury(&mut tx, &group(), &[letter(id)]).await.expect("it is buried");
    commit(store, tx).await;
}

/// Letters and conflicts appear with the commit; a rollback leaves neither, and the claim is free.
pub async fn letters_with_the_transaction<H: StoreHarness>(h: &H) {
    let store = h.open().await;
    for commits in [false, true] {
        let mut tx = claimed(&store, "a").await;
        store.bury(&mut tx, &group(), &[letter("a")]).await.expect("it is buried");
        store.record_conflicts(&mut tx, &group(), &[conflict("b", "other")]).await.expect("it is recorded");
        if commits {
            commit(&store, tx).await;
        } else {
            store.rollback(tx).await.expect("it rolls back");
        }
        let later = h.open().await;
        assert_eq!(all_letters(&later).await.len(), usize::from(commits), "letters");
        let conflicts = later.conflicts(&Page::first(None, 100)).await.expect("conflicts are listed");
        assert_eq!(conflicts.len(), usize::from(commits), "conflicts");
    }
}

/// Burying gives the claim the disposition dead.
pub async fn buried_is_dead<H: StoreHarness>(h: &H) {
    let store = h.open().await;
    bury(&store, "a").await;
    let row = Resolution::Committed { disposition: Disposition::Dead, fingerprint: content("content") };
    assert_eq!(resolve(&store, "a").await, row);
    assert_eq!(deliver(h, &store, "a").await, Claim::Dead);
    assert_eq!(h.effects().await, Vec::<String>::new());
}

/// Only what is buried dies; what is claimed beside it is applied.
pub async fn burying_spares_the_others<H: StoreHarness>(h: &H) {
    let store = h.open().await;
    let mut tx = begin(&store).await;
    store.claim(&mut tx, &group(), &[request("a"), request("b"), request("c")]).await.expect("answers");
    store.bury(&mut tx, &group(), &[letter("b")]).await.expect("it is buried");
    commit(&store, tx).await;
    let answers =
        [deliver(h, &store, "a").await, deliver(h, &store, "b").await, deliver(h, &store, "c").await];
    assert_eq!(answers, [Claim::Applied, Claim::Dead, Claim::Applied]);
    assert_eq!(all_letters(&store).await.len(), 1);
}

/// The same letter is kept once, however often it is written.
pub async fn letter_kept_once<H: StoreHarness>(h: &H) {
    let store = h.open().await;
    let mut tx = claimed(&store, "a").await;
    store.bury(&mut tx, &group(), &[letter("a"), letter("a")]).await.expect("it is buried");
    store.bury(&mut tx, &group(), &[letter("a")]).await.expect("it is buried again");
    commit(&store, tx).await;
    assert_eq!(all_letters(&store).await.len(), 1);
    assert_eq!(deliver(h, &store, "a").await, Claim::Dead);
}

/// The same id is another letter in another group.
pub async fn letters_of_groups_are_separate<H: StoreHarness>(h: &H) {
    let store = h.open().await;
    for name in ["billing", "shipping"] {
        let mut tx = begin(&store).await;
        store.claim(&mut tx, &named_group(name), &[request("a")]).await.expect("an answer");
        store.bury(&mut tx, &named_group(name), &[letter("a")]).await.expect("it is buried");
        commit(&store, tx).await;
    }
    let groups: Vec<String> = all_letters(&store).await.into_iter().map(|letter| letter.group).collect();
    assert_eq!(groups, ["billing", "shipping"]);
}

/// The same conflict is kept once and counted; other content, another id and another group are others.
pub async fn conflict_kept_once_and_counted<H: StoreHarness>(h: &H) {
    let store = h.open().await;
    let rounds: [(&str, &[Conflict]); 4] = [
        ("billing", &[conflict("a", "other")]),
        ("billing", &[conflict("a", "other"), conflict("a", "third"), conflict("b", "other")]),
        ("billing", &[conflict("a", "other")]),
        ("shipping", &[conflict("a", "other")]),
    ];
    for (name, conflicts) in rounds {
        let mut tx = begin(&store).await;
        store.record_conflicts(&mut tx, &named_group(name), conflicts).await.expect("they are recorded");
        commit(&store, tx).await;
    }
    let found = store.conflicts(&Page::first(None, 100)).await.expect("conflicts are listed");
    let mut seen: Vec<_> =
        found.iter().map(|c| (c.group.as_str(), c.claim.id.as_str(), c.refused, c.seen)).collect();
    seen.sort_by_key(|(group, id, _, seen)| (group.to_string(), id.to_string(), std::cmp::Reverse(*seen)));
    let expected = [
        ("billing", "a", content("other"), 3),
        ("billing", "a", content("third"), 1),
        ("billing", "b", content("other"), 1),
        ("shipping", "a", content("other"), 1),
    ];
    assert_eq!(seen, expected);
    assert!(found.iter().all(|c| c.stored == content("content")));
}

/// A record with everything a record can have.
fn full() -> Inbound {
    let mut inbound =
        Inbound::new(partition(u32::MAX), Some(Bytes::from_static(b"\0\x01\xff\xfe binary \r\n \xc3\x28")));
    inbound.position = Some(Position { at: 41, next: 57 });
    inbound.key = Some(Bytes::from_static(b"\0key\xff"));
    inbound.native_id = Some("native ' é".into());
    inbound.message_type = Some("order.placed".into());
    inbound.timestamp_ms = Some(-1);
    inbound.oversize_bytes = Some(5_000_000_000);
    let headers: [(&str, Option<&[u8]>); 7] = [
        ("twice", Some(b"1")),
        ("absent", None),
        ("empty", Some(b"")),
        ("binary", Some(b"\0\xff\xfe")),
        ("twice", Some(b"2")),
        ("", Some(b"no name")),
        ("N\u{e4}me", Some("wert".as_bytes())),
    ];
    for (name, value) in headers {
        inbound.headers.push(name, value.map(Bytes::from_static));
    }
    inbound
}

fn assert_same(found: &Inbound, written: &Inbound) {
    let texts = |headers: &Headers| {
        headers.iter().map(|(name, value)| (name.to_owned(), value.cloned())).collect::<Vec<_>>()
    };
    assert_eq!(found.payload, written.payload, "payload");
    assert_eq!(found.key, written.key, "key");
    assert_eq!(texts(&found.headers), texts(&written.headers), "headers");
    assert_eq!(found.native_id, written.native_id, "native id");
    assert_eq!(found.message_type, written.message_type, "message type");
    assert_eq!(found.partition, written.partition, "partition");
    assert_eq!(found.position, written.position, "position");
    assert_eq!(found.timestamp_ms, written.timestamp_ms, "timestamp");
    assert_eq!(found.oversize_bytes, written.oversize_bytes, "oversize");
}

/// Buries each record, records a conflict about each, and compares what is read back.
async fn round_trip<H: StoreHarness>(h: &H, records: Vec<Inbound>) {
    let store = h.open().await;
    for (number, inbound) in records.iter().enumerate() {
        let id = format!("id-{number}");
        let message = Message::new(key(&id), content("content"), inbound.clone());
        let letter = Letter::new(message.clone(), LetterReason::Oversize, "too large: é 'x'", u32::MAX);
        let mut tx = claimed(&store, &id).await;
        store.bury(&mut tx, &group(), &[letter]).await.expect("it is buried");
        let conflict = Conflict::new(message, content("before"));
        store.record_conflicts(&mut tx, &group(), &[conflict]).await.expect("it is recorded");
        commit(&store, tx).await;
    }
    let later = h.open().await;
    let letters = all_letters(&later).await;
    let conflicts = later.conflicts(&Page::first(None, 100)).await.expect("conflicts are listed");
    assert_eq!((letters.len(), conflicts.len()), (records.len(), records.len()));
    for (number, inbound) in records.iter().enumerate() {
        let (letter, conflict) = (&letters[number], &conflicts[number]);
        assert_eq!((letter.group.as_str(), &letter.claim), ("billing", &key(&format!("id-{number}"))));
        assert_eq!((letter.reason.as_str(), letter.error.as_str()), ("oversize", "too large: é 'x'"));
        assert_eq!(letter.attempts, u32::MAX);
        assert_same(&letter.inbound, inbound);
        assert_eq!((conflict.stored, conflict.refused), (content("before"), content("content")));
        assert_same(&conflict.inbound, inbound);
    }
}

/// Every field of a record reads back from a letter and from a conflict as it was.
pub async fn records_read_back_whole<H: StoreHarness>(h: &H) {
    round_trip(h, vec![full()]).await;
}

/// No payload, an empty one and one of zeros are three; so it is with keys and headers.
pub async fn absent_is_not_empty<H: StoreHarness>(h: &H) {
    let tombstone = Inbound::new(partition(0), None);
    let mut empty = Inbound::new(partition(0), Some(Bytes::new()));
    (empty.key, empty.native_id, empty.message_type) = (Some(Bytes::new()), Some("".into()), Some("".into()));
    let mut zeros = Inbound::new(partition(0), Some(Bytes::from_static(b"\0")));
    zeros.key = Some(Bytes::from_static(b"\0"));
    (zeros.timestamp_ms, zeros.position) = (Some(0), Some(Position { at: 0, next: 0 }));
    zeros.oversize_bytes = Some(0);
    round_trip(h, vec![tombstone, empty, zeros]).await;
}

/// A payload and a header of one mebibyte are kept byte for byte.
pub async fn large_payload<H: StoreHarness>(h: &H) {
    let large: Bytes = (0..1_u32 << 20).map(|i| (i % 251) as u8).collect();
    let mut inbound = Inbound::new(partition(0), Some(large.clone()));
    inbound.headers.push("large", Some(large));
    round_trip(h, vec![inbound]).await;
}

/// Text with NUL, which some databases cannot hold, does not keep a message from being buried: bytes stay
/// as they are; in texts the NUL may be replaced.
pub async fn nul_in_texts_is_survived<H: StoreHarness>(h: &H) {
    let store = h.open().await;
    let mut inbound = Inbound::new(partition(0), Some(Bytes::from_static(b"a\0b")));
    (inbound.native_id, inbound.message_type) = (Some("x\0y".into()), Some("t\0u".into()));
    inbound.headers.push("h\0i", Some(Bytes::from_static(b"v\0w")));
    let message = Message::new(key("a"), content("content"), inbound);
    let letter = Letter::new(message.clone(), LetterReason::Unidentified, "error with \0 in it", 0);
    let mut tx = claimed(&store, "a").await;
    store.bury(&mut tx, &group(), &[letter]).await.expect("it is buried");
    let conflict = Conflict::new(message, content("before"));
    store.record_conflicts(&mut tx, &group(), &[conflict]).await.expect("it is recorded");
    commit(&store, tx).await;
    let letter = one(all_letters(&store).await);
    assert_eq!(letter.inbound.payload.as_deref(), Some(&b"a\0b"[..]));
    assert!(letter.error.starts_with("error with "), "{:?}", letter.error);
    let is_kept = |text: Option<&str>, head: char| text.is_some_and(|text| text.starts_with(head));
    assert!(
        is_kept(letter.inbound.native_id.as_deref(), 'x')
            && is_kept(letter.inbound.message_type.as_deref(), 't')
    );
    let headers: Vec<_> = letter.inbound.headers.iter().map(|(_, value)| value.cloned()).collect();
    assert_eq!(headers, [Some(Bytes::from_static(b"v\0w"))]);
}

/// A number that the database cannot hold is an error or reads back; it never becomes another one.
pub async fn large_numbers_in_letters<H: StoreHarness>(h: &H) {
    let store = h.open().await;
    let largest = i64::MAX as u64;
    for (id, at) in [("a", largest - 1), ("b", u64::MAX - 1)] {
        let mut inbound = Inbound::new(partition(0), None);
        inbound.position = Some(Position { at, next: at + 1 });
        inbound.oversize_bytes = Some(at);
        let letter =
            Letter::new(Message::new(key(id), content("content"), inbound), LetterReason::Failed, "no", 1);
        let mut tx = claimed(&store, id).await;
        match store.bury(&mut tx, &group(), &[letter]).await {
            Ok(()) => commit(&store, tx).await,
            Err(error) => {
                assert!(at > largest, "{at} can be held: {error}");
                drop(tx);
                continue;
            }
        }
        let letters = all_letters(&store).await;
        let found = letters.iter().find(|letter| letter.claim == key(id)).expect("the letter is there");
        assert_eq!(found.inbound.position, Some(Position { at, next: at + 1 }));
        assert_eq!(found.inbound.oversize_bytes, Some(at));
    }
}
