//! Contract of claims between transactions: the first commit wins, and nobody waits in a circle.

use super::{
    harness::{StoreHarness, Writers},
    help::*,
};
use inbox_core::{Claim, ClaimRequest, InboxStore, Resolution, StoreError};
use tokio::task::JoinSet;

/// While a claim is undecided, another claimer is told so, and neither `Fresh` nor found.
pub async fn undecided_is_busy<H: StoreHarness>(h: &H) {
    let (first, second) = (h.open().await, h.open().await);
    let mut tx = claimed(&first, "a").await;
    effect(h, &mut tx, "a").await;
    assert_eq!(attempt(h, &second, "a").await, None, "it is not decided yet");
    commit(&first, tx).await;
    assert_eq!(attempt(h, &second, "a").await, Some(Claim::Applied), "the first commit wins");
    assert_eq!(h.effects().await, ["a"]);
}

/// When the first one rolls back, the other one gets the claim.
pub async fn rollback_lets_the_other_have_it<H: StoreHarness>(h: &H) {
    let (first, second) = (h.open().await, h.open().await);
    let tx = claimed(&first, "a").await;
    assert_eq!(attempt(h, &second, "a").await, None, "it is not decided yet");
    first.rollback(tx).await.expect("it rolls back");
    assert_eq!(deliver(h, &second, "a").await, Claim::Fresh);
    assert_eq!(h.effects().await, ["a"]);
}

/// A claimer that waits gets its answer when the other transaction ends: found after a commit, fresh
/// after a rollback.
pub async fn waiting_ends_with_the_other<H: StoreHarness>(h: &H) {
    let (first, second) = (h.open().await, h.open().await);
    for (id, commits) in [("a", true), ("b", false)] {
        let mut tx = claimed(&first, id).await;
        effect(h, &mut tx, id).await;
        let end = async {
            // Lets the other one get as far as its waiting.
            tokio::task::yield_now().await;
            if commits {
                commit(&first, tx).await;
            } else {
                first.rollback(tx).await.expect("it rolls back");
            }
        };
        let answer = match h.traits().writers {
            Writers::Concurrent => tokio::join!(deliver(h, &second, id), end).0,
            Writers::OneAtATime => {
                end.await;
                deliver(h, &second, id).await
            }
        };
        assert_eq!(answer, if commits { Claim::Applied } else { Claim::Fresh }, "commits: {commits}");
    }
    assert_eq!(h.effects().await, ["a", "b"]);
}

/// Of several that claim the same keys at the same time, exactly one gets each.
pub async fn one_of_many_is_fresh<H: StoreHarness>(h: &H) {
    const CLAIMERS: usize = 4;
    const KEYS: usize = 10;
    let mut claimers = JoinSet::new();
    for _ in 0..CLAIMERS {
        let store = h.open().await;
        claimers.spawn(async move {
            let mut fresh = 0;
            for id in 0..KEYS {
                fresh += usize::from(insist(&store, &id.to_string()).await == Claim::Fresh);
            }
            fresh
        });
    }
    let fresh: usize = claimers.join_all().await.into_iter().sum();
    assert_eq!(fresh, KEYS, "each key is fresh once");
}

/// Claims and commits, as often as others are in the way.
async fn insist<S: InboxStore>(store: &S, id: &str) -> Claim {
    loop {
        let attempt = async {
            let mut tx = store.begin(&impatient()).await?;
            let answer = one(store.claim(&mut tx, &group(), &[request(id)]).await?);
            tokio::task::yield_now().await;
            store.commit(tx).await.expect("nothing is in the way of a commit");
            Ok::<Claim, StoreError>(answer)
        };
        match attempt.await {
            Ok(answer) => return answer,
            Err(error) => assert!(is_in_the_way(&error), "{error}"),
        }
        tokio::task::yield_now().await;
    }
}

/// Two batches that name the same keys in crossing orders do not block each other for ever: one gets
/// all, the other finds all.
pub async fn crossing_batches<H: StoreHarness>(h: &H) {
    let (holder, first, second) = (h.open().await, h.open().await, h.open().await);
    for round in 0..5 {
        let ids: Vec<String> = (0..21).map(|i| format!("{round}-{i:02}")).collect();
        let up: Vec<ClaimRequest> = ids.iter().map(|id| request(id)).collect();
        let down: Vec<ClaimRequest> = up.iter().rev().cloned().collect();
        // Whoever does not take them in one order is in the middle of the way when the holder lets go.
        let tx = claimed(&holder, &ids[10]).await;
        let let_go = async {
            tokio::task::yield_now().await;
            holder.rollback(tx).await.expect("it rolls back");
        };
        let (up, down) = match h.traits().writers {
            Writers::Concurrent => {
                let (up, down, ()) = tokio::join!(batch(&first, &up), batch(&second, &down), let_go);
                (up, down)
            }
            Writers::OneAtATime => {
                let_go.await;
                (batch(&first, &up).await, batch(&second, &down).await)
            }
        };
        let all = |answers: &[Claim], wanted| answers.iter().all(|answer| *answer == wanted);
        let (winner, loser) = if up[0] == Claim::Fresh { (&up, &down) } else { (&down, &up) };
        assert!(all(winner, Claim::Fresh), "round {round}: {winner:?}");
        assert!(all(loser, Claim::Applied), "round {round}: {loser:?}");
    }
}

async fn batch<S: InboxStore>(store: &S, requests: &[ClaimRequest]) -> Vec<Claim> {
    let mut tx = begin(store).await;
    let answers = store.claim(&mut tx, &group(), requests).await.expect("no deadlock");
    commit(store, tx).await;
    answers
}

/// Keys that others do not hold are claimed beside them.
pub async fn other_keys_are_not_in_the_way<H: StoreHarness>(h: &H) {
    let (first, second) = (h.open().await, h.open().await);
    let tx = claimed(&first, "a").await;
    let beside = attempt(h, &second, "b").await;
    match h.traits().writers {
        Writers::Concurrent => assert_eq!(beside, Some(Claim::Fresh)),
        Writers::OneAtATime => assert_eq!(beside, None),
    }
    commit(&first, tx).await;
}

/// Rows are resolved with disposition and content, in the order of the keys; what is not there is absent.
pub async fn resolve_tells_what_is_committed<H: StoreHarness>(h: &H) {
    let store = h.open().await;
    let absent = store.resolve(&group(), &[key("a"), key("b")]).await;
    assert_eq!(absent.expect("answers"), [Resolution::Absent; 2], "an empty database");
    deliver(h, &store, "b").await;
    assert_eq!(store.resolve(&group(), &[]).await.expect("no keys"), []);
    let resolved = store.resolve(&group(), &[key("c"), key("b"), key("a")]).await.expect("answers");
    let is_there = |resolution: &Resolution| match resolution {
        Resolution::Committed { fingerprint, .. } => *fingerprint == content("content"),
        _ => false,
    };
    assert_eq!(resolved.iter().map(is_there).collect::<Vec<_>>(), [false, true, false]);
}

/// While a transaction that could commit a key is open, the key is not resolved: it waits or fails.
pub async fn resolve_does_not_guess<H: StoreHarness>(h: &H) {
    let (first, second) = (h.open().await, h.open().await);
    for (id, commits) in [("a", true), ("b", false)] {
        let tx = claimed(&first, id).await;
        let keys = [key(id)];
        let group = group();
        let while_open = tokio::time::timeout(impatient().lock_timeout, second.resolve(&group, &keys)).await;
        match while_open {
            Err(_waits) => {}
            Ok(Err(error)) => assert!(is_in_the_way(&error), "{error}"),
            Ok(Ok(guess)) => panic!("it said {guess:?} while the transaction was open"),
        }
        if commits {
            commit(&first, tx).await;
        } else {
            first.rollback(tx).await.expect("it rolls back");
        }
        let decided = resolve(&second, id).await;
        assert_eq!(matches!(decided, Resolution::Committed { .. }), commits, "{decided:?}");
    }
}
