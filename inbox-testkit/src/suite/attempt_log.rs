//! The contract of [`AttemptLog`], for the stores that have this ability. It takes
//! the [`StoreHarness`] of the store suite; [`attempt_log_suite!`](crate::attempt_log_suite) makes a test of
//! each case.

use super::store::StoreHarness;
use inbox_core::{AttemptLog, ClaimKey, Group, InboxStore, MessageId, Scope, TxLimits};

/// The one list of cases; calls `$then` with it.
#[doc(hidden)]
#[macro_export]
macro_rules! __attempt_log_cases {
    ($then:ident, $($rest:tt)*) => {
        $crate::$then! {
            [
                unclean_run_is_told clean_run_is_forgotten runs_of_instances_are_separate marks_are_kept
                marks_of_groups_are_separate marks_are_cleared_with_the_transaction
            ]
            $($rest)*
        }
    };
}

fn group(name: &str) -> Group {
    Group::new(name).expect("a group")
}

fn key(scope: &str, id: &str) -> ClaimKey {
    ClaimKey { scope: Scope::new(scope).expect("a scope"), id: MessageId::new(id).expect("an id") }
}

async fn open_run<S: AttemptLog>(store: &S, instance: &str, open_max: u64) -> Option<u64> {
    store.open_run(&group("billing"), instance, open_max).await.expect("a run is opened")
}

async fn marks<S: AttemptLog>(store: &S, group: &Group, key: &ClaimKey) -> u32 {
    store.marks(group, key).await.expect("marks are read")
}

async fn mark<S: AttemptLog>(store: &S, group: &Group, key: &ClaimKey, marks: u32) {
    store.mark_start(group, key, marks).await.expect("a start is marked");
}

/// A run that was not closed is told to the next one, with the largest bound since the last clean end.
pub async fn unclean_run_is_told<H>(h: &H)
where
    H: StoreHarness<Store: AttemptLog>,
{
    let store = h.open().await;
    assert_eq!(open_run(&store, "a", 10).await, None);
    drop(store);
    let store = h.open().await;
    assert_eq!(open_run(&store, "a", 3).await, Some(10));
    assert_eq!(open_run(&store, "a", 70_000).await, Some(10), "the larger bound is kept");
    assert_eq!(open_run(&store, "a", u64::MAX).await, Some(70_000));
    assert!(open_run(&store, "a", 1).await.is_some_and(|open_max| open_max >= i64::MAX as u64));
}

/// A closed run is forgotten; closing one that is not open changes nothing.
pub async fn clean_run_is_forgotten<H>(h: &H)
where
    H: StoreHarness<Store: AttemptLog>,
{
    let store = h.open().await;
    let billing = group("billing");
    store.close_run(&billing, "a").await.expect("nothing to close");
    assert_eq!(open_run(&store, "a", 10).await, None);
    store.close_run(&billing, "a").await.expect("it is closed");
    let store = h.open().await;
    assert_eq!(open_run(&store, "a", 4).await, None);
    assert_eq!(open_run(&store, "a", 1).await, Some(4), "what was closed does not come back");
}

/// Instances and groups have runs of their own, whatever they are called.
pub async fn runs_of_instances_are_separate<H>(h: &H)
where
    H: StoreHarness<Store: AttemptLog>,
{
    let store = h.open().await;
    for (number, instance) in ["", "a", "A", "a ", "host-7.übung"].into_iter().enumerate() {
        assert_eq!(open_run(&store, instance, number as u64).await, None, "{instance:?}");
    }
    assert_eq!(store.open_run(&group("shipping"), "a", 9).await.expect("opened"), None);
    store.close_run(&group("billing"), "A").await.expect("closed");
    assert_eq!(open_run(&store, "A", 1).await, None);
    assert_eq!(open_run(&store, "a ", 1).await, Some(3));
    assert_eq!(open_run(&store, "a", 1).await, Some(1));
    assert_eq!(store.open_run(&group("shipping"), "a", 1).await.expect("opened"), Some(9));
}

/// A mark is there when the call returns, for every handle; it is set, not added to.
pub async fn marks_are_kept<H>(h: &H)
where
    H: StoreHarness<Store: AttemptLog>,
{
    let (store, billing) = (h.open().await, group("billing"));
    let (one, other) = (key("", "m-1"), key("eu", "m-1"));
    assert_eq!(marks(&store, &billing, &one).await, 0);
    mark(&store, &billing, &one, 1).await;
    mark(&store, &billing, &one, 1).await;
    assert_eq!(marks(&store, &billing, &one).await, 1, "a repeated call counts once");
    mark(&store, &billing, &one, 2).await;
    drop(store);
    let store = h.open().await;
    assert_eq!(marks(&store, &billing, &one).await, 2);
    assert_eq!(marks(&store, &billing, &other).await, 0, "scopes are separate");
    mark(&store, &billing, &other, u32::MAX).await;
    assert_eq!(marks(&store, &billing, &other).await, u32::MAX);
}

/// Each group has marks of its own, known or not.
pub async fn marks_of_groups_are_separate<H>(h: &H)
where
    H: StoreHarness<Store: AttemptLog>,
{
    let (store, one) = (h.open().await, key("", "m-1"));
    mark(&store, &group("billing"), &one, 2).await;
    assert_eq!(marks(&store, &group("shipping"), &one).await, 0);
    mark(&store, &group("shipping"), &one, 1).await;
    assert_eq!(marks(&store, &group("billing"), &one).await, 2);
}

/// Marks go with the commit of the transaction, those of the named messages alone; a rollback leaves them.
pub async fn marks_are_cleared_with_the_transaction<H>(h: &H)
where
    H: StoreHarness<Store: AttemptLog>,
{
    let (store, other, billing) = (h.open().await, h.open().await, group("billing"));
    let [one, two, three] = ["m-1", "m-2", "m-3"].map(|id| key("", id));
    for (key, n) in [(&one, 1), (&two, 2), (&three, 3)] {
        mark(&store, &billing, key, n).await;
    }
    for commits in [false, true] {
        let mut tx = store.begin(&TxLimits::default()).await.expect("a transaction begins");
        let keys = [two.clone(), key("", "never seen"), one.clone()];
        store.clear_marks(&mut tx, &billing, &keys).await.expect("marks are cleared");
        h.effect(&mut tx, "a").await.expect("an effect");
        assert_eq!(marks(&other, &billing, &one).await, 1, "not before the commit");
        if commits {
            store.commit(tx).await.expect("it commits");
        } else {
            store.rollback(tx).await.expect("it rolls back");
        }
        let left = if commits { [0, 0, 3] } else { [1, 2, 3] };
        for (key, n) in [&one, &two, &three].into_iter().zip(left) {
            assert_eq!(marks(&other, &billing, key).await, n, "commits: {commits}, {key}");
        }
        assert_eq!(h.effects().await.len(), usize::from(commits));
    }
}
