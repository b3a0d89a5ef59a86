//! The clauses of [`StoredInbox`], each on an empty store. [`stored_inbox_tests!`](crate::stored_inbox_tests)
//! makes a test of each.
// A failure here is a failed test.
#![allow(clippy::unwrap_used)]

use bytes::Bytes;
use inbox_core::{
    Claim, ClaimKey, ClaimRequest, Disposition, ERROR_BYTES_MAX, FaultClass, Fingerprint, Group, Headers,
    Inbound, Inspect, Letter, LetterReason, Message, MessageId, Page, Partition, Position, Resolution, Scope,
    Source, StoredInbox, StoredMessage, TxLimits,
};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

/// Makes a test of each clause: `stored_inbox_tests!(new_store())`, where the expression gives an empty
/// store and is evaluated once for each.
#[macro_export]
macro_rules! stored_inbox_tests {
    ($store:expr) => {
        $crate::stored_inbox_tests!(@ $store;
            kept_messages_are_due_at_once_in_their_order
            keeping_becomes_durable_with_the_transaction_and_not_without
            only_own_claims_are_kept
            a_claim_finds_what_is_stored
            a_stored_message_is_reclaimed_once
            a_rollback_leaves_it_stored
            everything_else_is_answered_as_a_claim_would_be
            groups_and_scopes_are_apart
            a_key_is_reclaimed_once_per_call
            a_failure_moves_the_next_attempt
            a_failure_changes_only_stored_rows
            the_text_of_a_failure_is_cut
            a_reclaimed_message_can_be_buried
            what_is_buried_is_no_longer_kept
            every_part_of_a_record_is_read_back
            stats_count_what_is_stored
        );
    };
    (@ $store:expr; $($clause:ident)*) => {
        $(
            #[tokio::test]
            async fn $clause() {
                $crate::conformance::stored_inbox::$clause(&$store).await;
            }
        )*
    };
}

fn group() -> Group {
    Group::new("billing").unwrap()
}

fn key(id: &str) -> ClaimKey {
    ClaimKey { scope: Scope::default(), id: MessageId::new(id).unwrap() }
}

fn message_of(key: ClaimKey, payload: Option<&'static [u8]>) -> Message {
    let partition = Partition { source: Source::new("test"), number: 0 };
    let inbound = Inbound::new(partition, payload.map(Bytes::from_static));
    Message::new(key, Fingerprint::of_payload(payload), inbound)
}

fn message(id: &str) -> Message {
    message_of(key(id), Some(b"x"))
}

fn request(message: &Message) -> ClaimRequest {
    ClaimRequest { key: message.claim_key().clone(), fingerprint: message.fingerprint() }
}

fn requests(messages: &[Message]) -> Vec<ClaimRequest> {
    messages.iter().map(request).collect()
}

async fn begin<S: StoredInbox>(store: &S) -> S::Tx {
    store.begin(&TxLimits::default()).await.unwrap()
}

/// Claims and keeps, not yet committed.
async fn keep_open<S: StoredInbox>(store: &S, group: &Group, messages: &[Message]) -> S::Tx {
    let mut tx = begin(store).await;
    let claims = store.claim(&mut tx, group, &requests(messages)).await.unwrap();
    assert_eq!(claims, vec![Claim::Fresh; messages.len()]);
    store.keep(&mut tx, group, messages).await.unwrap();
    tx
}

async fn keep<S: StoredInbox>(store: &S, messages: &[Message]) {
    let tx = keep_open(store, &group(), messages).await;
    store.commit(tx).await.unwrap();
}

/// Takes messages and commits.
async fn handle<S: StoredInbox>(store: &S, messages: &[Message]) -> Vec<Claim> {
    let mut tx = begin(store).await;
    let answers = store.reclaim(&mut tx, &group(), &requests(messages)).await.unwrap();
    store.commit(tx).await.unwrap();
    answers
}

async fn claim<S: StoredInbox>(store: &S, message: &Message) -> Claim {
    let mut tx = begin(store).await;
    let answer = store.claim(&mut tx, &group(), &[request(message)]).await.unwrap().remove(0);
    store.commit(tx).await.unwrap();
    answer
}

async fn fail<S: StoredInbox>(store: &S, id: &str, attempts: u32, error: &str, retry_in: Duration) {
    store.record_failure(&group(), &key(id), attempts, error, retry_in).await.unwrap();
}

fn ids(stored: &[StoredMessage]) -> Vec<&str> {
    stored.iter().map(|stored| stored.message.id()).collect()
}

async fn due<S: StoredInbox>(store: &S) -> Vec<StoredMessage> {
    store.due(&group(), 100).await.unwrap()
}

async fn nothing_is_kept<S: StoredInbox>(store: &S) {
    assert_eq!(ids(&due(store).await), [""; 0]);
    assert_eq!(store.next_due(&group()).await.unwrap(), None);
}

/// Clauses 1 and 4.
pub async fn kept_messages_are_due_at_once_in_their_order<S: StoredInbox>(store: &S) {
    nothing_is_kept(store).await;
    keep(store, &[message("c"), message("a"), message("b")]).await;
    keep(store, &[message("0")]).await;
    assert_eq!(store.next_due(&group()).await.unwrap(), Some(Duration::ZERO));
    for (rows_max, expected) in [(100, &["c", "a", "b", "0"][..]), (4, &["c", "a", "b", "0"])] {
        assert_eq!(ids(&store.due(&group(), rows_max).await.unwrap()), expected);
    }
    assert_eq!(ids(&store.due(&group(), 2).await.unwrap()), ["c", "a"], "asking locks nothing");
    assert_eq!(ids(&store.due(&group(), 2).await.unwrap()), ["c", "a"]);
    assert!(store.due(&group(), 0).await.unwrap().is_empty());
    assert_eq!(ids(&store.due(&group(), u32::MAX).await.unwrap()).len(), 4);
    handle(store, &[message("0"), message("c")]).await;
    keep(store, &[message("9")]).await;
    assert_eq!(ids(&due(store).await), ["a", "b", "9"]);
}

/// Clause 1.
pub async fn keeping_becomes_durable_with_the_transaction_and_not_without<S: StoredInbox>(store: &S) {
    drop(keep_open(store, &group(), &[message("a")]).await);
    nothing_is_kept(store).await;
    let tx = keep_open(store, &group(), &[message("a")]).await;
    store.rollback(tx).await.unwrap();
    nothing_is_kept(store).await;
    keep(store, &[message("a")]).await;
    assert_eq!(ids(&due(store).await), ["a"]);
}

/// Clause 1.
pub async fn only_own_claims_are_kept<S: StoredInbox>(store: &S) {
    assert_eq!(claim(store, &message("a")).await, Claim::Fresh);
    for id in ["a", "never claimed"] {
        let mut tx = begin(store).await;
        store.claim(&mut tx, &group(), &[request(&message("other"))]).await.unwrap();
        let error = store.keep(&mut tx, &group(), &[message(id)]).await.unwrap_err();
        assert_eq!(error.class(), Some(FaultClass::Permanent), "{error}");
        store.rollback(tx).await.unwrap();
    }
    nothing_is_kept(store).await;
    assert_eq!(claim(store, &message("a")).await, Claim::Applied);
}

/// A redelivery, and the question after a lost reply.
pub async fn a_claim_finds_what_is_stored<S: StoredInbox>(store: &S) {
    keep(store, &[message("a")]).await;
    assert_eq!(claim(store, &message("a")).await, Claim::Stored);
    let other = message_of(key("a"), Some(b"other"));
    assert_eq!(claim(store, &other).await, Claim::Conflict { stored: message("a").fingerprint() });
    let resolved = store.resolve(&group(), &[key("a")]).await.unwrap();
    let fingerprint = message("a").fingerprint();
    assert_eq!(resolved, [Resolution::Committed { disposition: Disposition::Stored, fingerprint }]);
    assert_eq!(ids(&due(store).await), ["a"]);
}

/// Clause 2.
pub async fn a_stored_message_is_reclaimed_once<S: StoredInbox>(store: &S) {
    let messages = [message("b"), message("a")];
    keep(store, &messages).await;
    assert_eq!(handle(store, &messages).await, [Claim::Fresh, Claim::Fresh]);
    nothing_is_kept(store).await;
    assert_eq!(handle(store, &messages).await, [Claim::Applied, Claim::Applied]);
    assert_eq!(claim(store, &message("a")).await, Claim::Applied);
}

/// Clause 2.
pub async fn a_rollback_leaves_it_stored<S: StoredInbox>(store: &S) {
    keep(store, &[message("a")]).await;
    fail(store, "a", 1, "first", Duration::ZERO).await;
    for is_dropped in [true, false] {
        let mut tx = begin(store).await;
        let answers = store.reclaim(&mut tx, &group(), &[request(&message("a"))]).await.unwrap();
        assert_eq!(answers, [Claim::Fresh]);
        if is_dropped {
            drop(tx)
        } else {
            store.rollback(tx).await.unwrap()
        }
        let due = due(store).await;
        assert_eq!(ids(&due), ["a"]);
        assert_eq!((due[0].attempts, due[0].error.as_deref()), (1, Some("first")));
        assert_eq!(claim(store, &message("a")).await, Claim::Stored);
    }
    assert_eq!(handle(store, &[message("a")]).await, [Claim::Fresh]);
}

/// Clause 2.
pub async fn everything_else_is_answered_as_a_claim_would_be<S: StoredInbox>(store: &S) {
    // Of a group that has no row either.
    assert_eq!(handle(store, &[message("absent")]).await, [Claim::Applied]);
    claim(store, &message("applied")).await;
    let mut tx = begin(store).await;
    let dead = message("dead");
    store.claim(&mut tx, &group(), &[request(&dead)]).await.unwrap();
    let letter = Letter::new(dead.clone(), LetterReason::Failed, "no", 1);
    store.bury(&mut tx, &group(), &[letter]).await.unwrap();
    store.commit(tx).await.unwrap();
    keep(store, &[message("stored"), message("other")]).await;

    let asked = [
        message_of(key("other"), Some(b"other content")),
        dead,
        message("stored"),
        message("absent"),
        message("applied"),
        message_of(key("applied"), None),
    ];
    let stored = message("other").fingerprint();
    let answers = handle(store, &asked[..5]).await;
    let expected = [Claim::Conflict { stored }, Claim::Dead, Claim::Fresh, Claim::Applied, Claim::Applied];
    assert_eq!(answers, expected);
    assert_eq!(handle(store, &asked[5..]).await, [Claim::Conflict { stored }]);
    // Nothing of it has changed a row, or made one.
    assert_eq!(ids(&due(store).await), ["other"]);
    assert_eq!(claim(store, &message("dead")).await, Claim::Dead);
    assert_eq!(claim(store, &message("absent")).await, Claim::Fresh);
    assert_eq!(store.resolve(&group(), &[key("never")]).await.unwrap(), [Resolution::Absent]);
}

/// The same id in two groups and two scopes.
pub async fn groups_and_scopes_are_apart<S: StoredInbox>(store: &S) {
    let elsewhere = Group::new("audit").unwrap();
    let scope = Scope::new("inner").unwrap();
    let scoped = message_of(ClaimKey { scope, id: MessageId::new("a").unwrap() }, Some(b"x"));
    keep(store, &[message("a")]).await;
    keep(store, std::slice::from_ref(&scoped)).await;
    let tx = keep_open(store, &elsewhere, &[message("a")]).await;
    store.commit(tx).await.unwrap();
    assert_eq!(handle(store, &[message("a")]).await, [Claim::Fresh]);
    let due_here = due(store).await;
    assert_eq!(due_here.len(), 1);
    assert_eq!(due_here[0].message.claim_key(), scoped.claim_key());
    fail(store, "a", 1, "not stored here any more", HOUR).await;
    assert_eq!(ids(&store.due(&elsewhere, 10).await.unwrap()), ["a"]);
    let nobody = Group::new("nobody").unwrap();
    assert!(store.due(&nobody, 10).await.unwrap().is_empty());
    assert_eq!(store.next_due(&nobody).await.unwrap(), None);
    store.record_failure(&nobody, &key("a"), 1, "none", HOUR).await.unwrap();
}

/// As for claims, asking twice in one call is a mistake.
pub async fn a_key_is_reclaimed_once_per_call<S: StoredInbox>(store: &S) {
    keep(store, &[message("a")]).await;
    let mut tx = begin(store).await;
    let twice = requests(&[message("a"), message("a")]);
    let error = store.reclaim(&mut tx, &group(), &twice).await.unwrap_err();
    assert_eq!(error.class(), Some(FaultClass::Permanent), "{error}");
    drop(tx);
    assert_eq!(ids(&due(store).await), ["a"]);
}

/// Clauses 3 and 4. That the time comes is for each store to test, by a clock that it can move.
pub async fn a_failure_moves_the_next_attempt<S: StoredInbox>(store: &S) {
    keep(store, &[message("a"), message("b"), message("c")]).await;
    fail(store, "a", 1, "first", HOUR).await;
    assert_eq!(ids(&due(store).await), ["b", "c"]);
    assert_eq!(store.next_due(&group()).await.unwrap(), Some(Duration::ZERO));
    fail(store, "c", 2, "second", HOUR * 2).await;
    fail(store, "b", u32::MAX, "never", Duration::MAX).await;
    assert_eq!(ids(&due(store).await), [""; 0]);
    let wait = store.next_due(&group()).await.unwrap().unwrap();
    assert!(wait <= HOUR + Duration::from_millis(1) && wait > HOUR / 2, "{wait:?}");
    // A later record replaces the earlier one, and the order is still that of keeping.
    fail(store, "c", 3, "third", Duration::ZERO).await;
    fail(store, "b", 4, "fourth", Duration::ZERO).await;
    let due = due(store).await;
    assert_eq!(ids(&due), ["b", "c"]);
    assert_eq!((due[1].attempts, due[1].error.as_deref()), (3, Some("third")));
    // What is not due can be taken all the same; who is to be asked is the caller's affair.
    assert_eq!(handle(store, &[message("a")]).await, [Claim::Fresh]);
}

/// Clause 3.
pub async fn a_failure_changes_only_stored_rows<S: StoredInbox>(store: &S) {
    keep(store, &[message("a")]).await;
    handle(store, &[message("a")]).await;
    claim(store, &message("b")).await;
    for id in ["a", "b", "absent"] {
        fail(store, id, 7, "late", HOUR).await;
    }
    nothing_is_kept(store).await;
    assert_eq!(handle(store, &[message("a"), message("b")]).await, [Claim::Applied, Claim::Applied]);
    assert_eq!(store.resolve(&group(), &[key("absent")]).await.unwrap(), [Resolution::Absent]);
}

/// As in letters.
pub async fn the_text_of_a_failure_is_cut<S: StoredInbox>(store: &S) {
    keep(store, &[message("a")]).await;
    fail(store, "a", 1, &"é".repeat(ERROR_BYTES_MAX), Duration::ZERO).await;
    let error = due(store).await.remove(0).error.unwrap();
    assert!(error.len() <= ERROR_BYTES_MAX && error.ends_with("é…"), "{} bytes", error.len());
    fail(store, "a", 2, "line 1\nline 2 \0 end", Duration::ZERO).await;
    let error = due(store).await.remove(0).error.unwrap();
    assert!(error.starts_with("line 1\nline 2 ") && error.ends_with(" end"), "{error:?}");
}

/// Clause 2.
pub async fn a_reclaimed_message_can_be_buried<S: StoredInbox + Inspect>(store: &S) {
    keep(store, &[message("a")]).await;
    for is_committed in [false, true] {
        let mut tx = begin(store).await;
        let answers = store.reclaim(&mut tx, &group(), &[request(&message("a"))]).await.unwrap();
        assert_eq!(answers, [Claim::Fresh]);
        let letter = Letter::new(message("a"), LetterReason::Failed, "no", 3);
        store.bury(&mut tx, &group(), &[letter]).await.unwrap();
        if is_committed {
            store.commit(tx).await.unwrap();
        } else {
            drop(tx);
            assert_eq!(claim(store, &message("a")).await, Claim::Stored);
        }
        let letters = store.letters(&Page::first(Some(group()), 10)).await.unwrap();
        assert_eq!(letters.len(), usize::from(is_committed));
        assert_eq!(due(store).await.len(), usize::from(!is_committed));
    }
    nothing_is_kept(store).await;
    assert_eq!(claim(store, &message("a")).await, Claim::Dead);
    assert_eq!(handle(store, &[message("a")]).await, [Claim::Dead]);
}

/// Kept and buried in one transaction: a letter, and nothing else.
pub async fn what_is_buried_is_no_longer_kept<S: StoredInbox + Inspect>(store: &S) {
    let mut tx = keep_open(store, &group(), &[message("a")]).await;
    let letter = Letter::new(message("a"), LetterReason::Undecodable, "no", 0);
    store.bury(&mut tx, &group(), &[letter]).await.unwrap();
    store.commit(tx).await.unwrap();
    nothing_is_kept(store).await;
    assert_eq!(claim(store, &message("a")).await, Claim::Dead);
}

/// A record with every part set, in awkward ways.
fn full_inbound() -> Inbound {
    let partition = Partition { source: Source::new("kafka:orders\né"), number: u32::MAX };
    let mut inbound = Inbound::new(partition, Some(Bytes::from_static(&[0, 255, 254, b'a'])));
    inbound.position = Some(Position { at: 7, next: i64::MAX as u64 });
    inbound.key = Some(Bytes::from_static(&[255, 0]));
    inbound.native_id = Some("native id".into());
    inbound.message_type = Some("order.placed".into());
    inbound.timestamp_ms = Some(-5);
    inbound.oversize_bytes = Some(1 << 40);
    let mut headers = Headers::new();
    headers.push("trace", Some(Bytes::from_static(b"00-ab")));
    headers.push("trace", None);
    headers.push("raw", Some(Bytes::from_static(&[128, 0])));
    headers.push("empty", Some(Bytes::new()));
    inbound.headers = headers;
    inbound
}

/// Clause 1: tombstones, empty payloads and binary headers among them.
pub async fn every_part_of_a_record_is_read_back<S: StoredInbox>(store: &S) {
    let tombstone = Inbound::new(Partition { source: Source::new(""), number: 0 }, None);
    let mut empty = tombstone.clone();
    empty.payload = Some(Bytes::new());
    empty.key = Some(Bytes::new());
    let of_inbound = |(n, inbound): (usize, Inbound)| {
        let key = ClaimKey { scope: Scope::unidentified(), id: MessageId::new(format!("m{n}")).unwrap() };
        Message::new(key, Fingerprint::of_payload(inbound.payload.as_deref()), inbound)
    };
    let messages: Vec<Message> =
        [full_inbound(), tombstone, empty].into_iter().enumerate().map(of_inbound).collect();
    keep(store, &messages).await;
    let due = due(store).await;
    assert_eq!(due.len(), messages.len());
    for (stored, kept) in due.iter().zip(&messages) {
        // Records cannot be compared, but what is printed of them is everything.
        assert_eq!(format!("{:?}", stored.message), format!("{kept:?}"));
        assert_eq!((stored.attempts, &stored.error), (0, &None));
    }
}

/// What an operator sees.
pub async fn stats_count_what_is_stored<S: StoredInbox + Inspect>(store: &S) {
    keep(store, &[message("a"), message("b"), message("c")]).await;
    handle(store, &[message("b")]).await;
    let stats = store.group_stats().await.unwrap();
    assert_eq!(stats.len(), 1);
    assert_eq!((stats[0].stored, stats[0].applied), (2, 1));
}
