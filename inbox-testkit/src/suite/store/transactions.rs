//! Contract of transactions: all or nothing.

use super::{harness::StoreHarness, help::*};
use inbox_core::{Claim, CommitError, FaultClass, InboxStore, Resolution};
use std::fmt;

/// Claim and effects appear together with the commit, and not before.
pub async fn commit_is_atomic<H: StoreHarness>(h: &H) {
    let store = h.open().await;
    let mut tx = claimed(&store, "a").await;
    effect(h, &mut tx, "first").await;
    effect(h, &mut tx, "second").await;
    assert_eq!(h.effects().await, Vec::<String>::new(), "nothing is seen before the commit");
    commit(&store, tx).await;
    assert_eq!(h.effects().await, ["first", "second"]);
    assert!(matches!(resolve(&store, "a").await, Resolution::Committed { .. }));
}

/// What was committed is there for a store that was opened later.
pub async fn commit_is_durable<H: StoreHarness>(h: &H) {
    let store = h.open().await;
    assert_eq!(deliver(h, &store, "a").await, Claim::Fresh);
    drop(store);
    assert_eq!(h.effects().await, ["a"]);
    assert!(matches!(resolve(&h.open().await, "a").await, Resolution::Committed { .. }));
}

/// A rollback leaves neither row nor effect, and the key is free.
pub async fn rollback_leaves_nothing<H: StoreHarness>(h: &H) {
    let store = h.open().await;
    let mut tx = claimed(&store, "a").await;
    effect(h, &mut tx, "a").await;
    store.rollback(tx).await.expect("it rolls back");
    assert_nothing(h, "a").await;
    assert_eq!(deliver(h, &store, "a").await, Claim::Fresh);
}

/// A dropped transaction leaves neither row nor effect.
pub async fn drop_leaves_nothing<H: StoreHarness>(h: &H) {
    let store = h.open().await;
    let mut tx = claimed(&store, "a").await;
    effect(h, &mut tx, "a").await;
    drop(tx);
    assert_nothing(h, "a").await;
}

/// What a dropped transaction held is soon free, for its own store and for others.
pub async fn drop_frees<H: StoreHarness>(h: &H) {
    let (store, other) = (h.open().await, h.open().await);
    drop(claimed(&store, "a").await);
    assert_eq!(deliver(h, &other, "a").await, Claim::Fresh, "for another store");
    drop(claimed(&store, "b").await);
    assert_eq!(deliver(h, &store, "b").await, Claim::Fresh, "for the same store");
}

/// A transaction in which nothing was written commits.
pub async fn empty_transaction_commits<H: StoreHarness>(h: &H) {
    let store = h.open().await;
    let tx = begin(&store).await;
    commit(&store, tx).await;
    let mut tx = begin(&store).await;
    assert_eq!(store.claim(&mut tx, &group(), &[]).await.expect("no requests"), []);
    commit(&store, tx).await;
    assert_eq!(h.effects().await, Vec::<String>::new());
}

/// A failed statement whose error the handler hides: where it aborts the transaction, the commit must
/// say so; where it does not, the rest stands as a whole.
pub async fn hidden_failure<H: StoreHarness>(h: &H) {
    let store = h.open().await;
    let mut tx = claimed(&store, "a").await;
    effect(h, &mut tx, "a").await;
    h.fail_statement(&mut tx).await;
    let outcome = store.commit(tx).await;
    if h.traits().failed_statement_aborts {
        assert_eq!(rolled_back(outcome), FaultClass::Aborted);
        assert_nothing(h, "a").await;
    } else {
        outcome.expect("the transaction goes on after a failed statement");
        assert_eq!(h.effects().await, ["a"]);
        assert!(matches!(resolve(&store, "a").await, Resolution::Committed { .. }));
    }
    assert_eq!(deliver(h, &store, "b").await, Claim::Fresh, "the store goes on");
}

/// Some handler ended the transaction: this one's, or one before it in the batch.
fn is_a_handlers(class: FaultClass) -> bool {
    matches!(class, FaultClass::HandlerFault | FaultClass::Aborted)
}

/// A transaction that the handler rolled back is not committed. Where a handler cannot do that, all stands.
pub async fn rolled_back_by_hand<H: StoreHarness>(h: &H) {
    let store = h.open().await;
    let mut tx = claimed(&store, "a").await;
    effect(h, &mut tx, "a").await;
    h.rollback_by_hand(&mut tx).await;
    let outcome = store.commit(tx).await;
    if h.traits().ended_by_hand {
        assert!(is_a_handlers(rolled_back(outcome)));
        assert_nothing(h, "a").await;
    } else {
        outcome.expect("nobody ended it");
        assert_eq!(h.effects().await, ["a"]);
    }
    assert_eq!(deliver(h, &store, "b").await, Claim::Fresh, "the store goes on");
}

/// What is written after the handler rolled back must not be stored on its own.
pub async fn writes_after_a_rollback_by_hand<H: StoreHarness>(h: &H) {
    let store = h.open().await;
    let mut tx = claimed(&store, "a").await;
    h.rollback_by_hand(&mut tx).await;
    let written = h.effect(&mut tx, "after").await;
    let outcome = store.commit(tx).await;
    if h.traits().ended_by_hand {
        assert!(is_a_handlers(rolled_back(outcome)));
        assert_nothing(h, "a").await;
    } else {
        written.expect("nobody ended it");
        outcome.expect("nobody ended it");
        assert_eq!(h.effects().await, ["after"]);
    }
}

/// A handler that commits by hand does not get its unit of work committed as if nothing had happened:
/// the store never says `Ok`, and `RolledBack` only when nothing is stored.
pub async fn committed_by_hand<H: StoreHarness>(h: &H) {
    let store = h.open().await;
    let mut tx = claimed(&store, "a").await;
    effect(h, &mut tx, "a").await;
    h.commit_by_hand(&mut tx).await;
    match store.commit(tx).await {
        Ok(()) => assert!(!h.traits().ended_by_hand, "the handler ended it and the commit said Ok"),
        Err(CommitError::RolledBack { class, .. }) => {
            assert!(is_a_handlers(class), "{class:?}");
            assert_nothing(h, "a").await;
        }
        Err(_) => {
            // In doubt: then both are there or neither is.
            let row = matches!(resolve(&store, "a").await, Resolution::Committed { .. });
            assert_eq!(row, h.effects().await == ["a"]);
        }
    }
    assert_eq!(deliver(h, &store, "b").await, Claim::Fresh, "the store goes on");
}

/// A constraint that fails at the commit is a permanent fault, and nothing is stored.
pub async fn deferred_constraint<H: StoreHarness>(h: &H) {
    let store = h.open().await;
    let mut tx = claimed(&store, "a").await;
    effect(h, &mut tx, "a").await;
    h.violate_at_commit(&mut tx).await;
    let outcome = store.commit(tx).await;
    if h.traits().deferred_constraints {
        assert_eq!(rolled_back(outcome), FaultClass::Permanent);
        assert_nothing(h, "a").await;
        assert_eq!(deliver(h, &store, "a").await, Claim::Fresh);
    } else {
        outcome.expect("nothing was violated");
    }
}

/// A connection that was cut takes its transaction along; it is an outage, or in doubt, and the store
/// finds a new one.
pub async fn connection_cut<H: StoreHarness>(h: &H) {
    let store = h.open().await;
    let mut tx = claimed(&store, "a").await;
    effect(h, &mut tx, "a").await;
    h.cut_connections().await;
    let outcome = store.commit(tx).await;
    if !h.traits().connections_cut {
        outcome.expect("it cannot be cut");
        assert_eq!(h.effects().await, ["a"]);
        return;
    }
    match outcome {
        Ok(()) => panic!("the connection was cut and the commit said Ok"),
        Err(CommitError::RolledBack { class, .. }) => assert_eq!(class, FaultClass::Outage),
        Err(_) => {}
    }
    // Several connections may have been cut; each is found out once.
    for _ in 0..20 {
        match store.begin(&patient()).await {
            Ok(tx) => {
                let _gone = store.rollback(tx).await;
                break;
            }
            Err(error) => assert_eq!(error.class(), Some(FaultClass::Outage), "{error}"),
        }
    }
    assert_nothing(h, "a").await;
    assert_eq!(deliver(h, &store, "a").await, Claim::Fresh);
}

/// An error that the store does not know is the handler's fault, and its name is one line.
pub async fn unknown_errors_are_the_handlers<H: StoreHarness>(h: &H) {
    #[derive(Debug)]
    struct Unknown;
    impl fmt::Display for Unknown {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("unknown")
        }
    }
    impl std::error::Error for Unknown {}
    let store = h.open().await;
    assert_eq!(store.classify(&Unknown), FaultClass::HandlerFault);
    let name = store.describe();
    assert!(!name.is_empty() && !name.contains('\n'), "{name:?}");
}

/// A unit of work that is handed over runs to its end.
pub async fn unit_runs_to_its_end<H: StoreHarness>(h: &H) {
    let store = h.open().await;
    let (done, ended) = tokio::sync::oneshot::channel();
    store.run_unit(Box::pin(async move {
        tokio::task::yield_now().await;
        let _nobody_listens = done.send("done");
    }));
    assert_eq!(ended.await, Ok("done"));
}

/// An effect of one mebibyte is kept byte for byte.
pub async fn large_effect<H: StoreHarness>(h: &H) {
    let store = h.open().await;
    let large = "é".repeat(1 << 19);
    let mut tx = claimed(&store, "a").await;
    effect(h, &mut tx, &large).await;
    commit(&store, tx).await;
    assert!(h.effects().await == [large], "the effect is another one");
}
