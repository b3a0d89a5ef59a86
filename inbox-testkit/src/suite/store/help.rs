//! What the cases share: names, and whole deliveries in one call.

use super::harness::{StoreHarness, TxOf, Writers};
use bytes::Bytes;
use inbox_core::{
    Claim, ClaimKey, ClaimRequest, CommitError, FaultClass, Fingerprint, Group, Inbound, InboxStore, Message,
    MessageId, Partition, Resolution, Scope, Source, StoreError, TxLimits,
};
use std::time::Duration;

pub(super) fn named_group(name: &str) -> Group {
    Group::new(name).expect("a group")
}

pub(super) fn group() -> Group {
    named_group("billing")
}

pub(super) fn scoped(scope: &str, id: &str) -> ClaimKey {
    ClaimKey { scope: Scope::new(scope).expect("a scope"), id: MessageId::new(id).expect("an id") }
}

pub(super) fn key(id: &str) -> ClaimKey {
    scoped("", id)
}

pub(super) fn content(text: &str) -> Fingerprint {
    Fingerprint::of_payload(Some(text.as_bytes()))
}

/// A request whose content is always the same.
pub(super) fn request(id: &str) -> ClaimRequest {
    asked(id, "content")
}

pub(super) fn asked(id: &str, text: &str) -> ClaimRequest {
    ClaimRequest { key: key(id), fingerprint: content(text) }
}

pub(super) fn partition(number: u32) -> Partition {
    Partition { source: Source::new("source:été"), number }
}

/// A message in the default scope.
pub(super) fn message(id: &str, text: &str) -> Message {
    let inbound = Inbound::new(partition(0), Some(Bytes::copy_from_slice(text.as_bytes())));
    Message::new(key(id), content(text), inbound)
}

/// Waits for others as long as they may need.
pub(super) fn patient() -> TxLimits {
    let mut limits = TxLimits::default();
    limits.lock_timeout = Duration::from_secs(20);
    limits
}

/// Waits for others just long enough to find out that they are there.
pub(super) fn impatient() -> TxLimits {
    let mut limits = TxLimits::default();
    limits.lock_timeout = Duration::from_millis(50);
    limits
}

pub(super) async fn begin<S: InboxStore>(store: &S) -> S::Tx {
    store.begin(&patient()).await.expect("a transaction begins")
}

pub(super) async fn claim<S: InboxStore>(store: &S, tx: &mut S::Tx, id: &str) -> Claim {
    one(store.claim(tx, &group(), &[request(id)]).await.expect("a claim is answered"))
}

pub(super) async fn commit<S: InboxStore>(store: &S, tx: S::Tx) {
    store.commit(tx).await.expect("the transaction commits");
}

pub(super) fn one<T>(mut answers: Vec<T>) -> T {
    assert_eq!(answers.len(), 1, "one answer for one request");
    answers.remove(0)
}

pub(super) async fn effect<H: StoreHarness>(h: &H, tx: &mut TxOf<H>, text: &str) {
    h.effect(tx, text).await.expect("an effect is written");
}

/// Begins, and claims one that nobody has.
pub(super) async fn claimed<S: InboxStore>(store: &S, id: &str) -> S::Tx {
    let mut tx = begin(store).await;
    assert_eq!(claim(store, &mut tx, id).await, Claim::Fresh, "{id}");
    tx
}

/// A whole delivery: claim, effect when it is fresh, commit.
pub(super) async fn deliver<H: StoreHarness>(h: &H, store: &H::Store, id: &str) -> Claim {
    let mut tx = begin(store).await;
    let answer = claim(store, &mut tx, id).await;
    if answer == Claim::Fresh {
        effect(h, &mut tx, id).await;
    }
    commit(store, tx).await;
    answer
}

/// A delivery that does not wait long: `None` when another transaction is in its way, as the traits
/// of the store say that it is told.
pub(super) async fn attempt<H: StoreHarness>(h: &H, store: &H::Store, id: &str) -> Option<Claim> {
    let mut tx = match (store.begin(&impatient()).await, h.traits().writers) {
        (Ok(tx), _) => tx,
        (Err(error), Writers::OneAtATime) => {
            assert_eq!(error.class(), Some(FaultClass::Contention), "{error}");
            return None;
        }
        (Err(error), Writers::Concurrent) => panic!("beginning beside another transaction: {error}"),
    };
    match store.claim(&mut tx, &group(), &[request(id)]).await {
        Ok(answers) => {
            let answer = one(answers);
            if answer == Claim::Fresh {
                effect(h, &mut tx, id).await;
            }
            commit(store, tx).await;
            Some(answer)
        }
        Err(StoreError::Busy) => {
            drop(tx);
            None
        }
        Err(error) => panic!("claiming what another transaction holds: {error}"),
    }
}

/// Whether an error says that another transaction is in the way.
pub(super) fn is_in_the_way(error: &StoreError) -> bool {
    matches!(error.class(), None | Some(FaultClass::Contention))
}

pub(super) fn rolled_back(outcome: Result<(), CommitError>) -> FaultClass {
    match outcome {
        Err(CommitError::RolledBack { class, message, .. }) => {
            assert!(!message.is_empty() && !message.contains('\n'), "one line: {message:?}");
            class
        }
        other => panic!("expected that it was rolled back, not {other:?}"),
    }
}

pub(super) async fn resolve<S: InboxStore>(store: &S, id: &str) -> Resolution {
    one(store.resolve(&group(), &[key(id)]).await.expect("a key is resolved"))
}

/// Neither the row nor an effect is there.
pub(super) async fn assert_nothing<H: StoreHarness>(h: &H, id: &str) {
    assert_eq!(h.effects().await, Vec::<String>::new(), "no effect");
    let store = h.open().await;
    assert_eq!(resolve(&store, id).await, Resolution::Absent, "no row of {id}");
}
