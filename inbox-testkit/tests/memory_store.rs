//! The contract of stores, on the reference one.

use crate::common::*;
use inbox_core::*;
use inbox_testkit::*;
use std::time::Duration;

async fn begin(store: &MemoryStore) -> MemoryTx {
    store.begin(&TxLimits::default()).await.unwrap()
}

async fn claim(store: &MemoryStore, tx: &mut MemoryTx, id: &str) -> Result<Claim, StoreError> {
    store.claim(tx, &group(), &[request(id)]).await.map(|mut claims| claims.remove(0))
}

#[tokio::test(start_paused = true)]
async fn nothing_is_seen_before_the_commit_and_all_after_it() {
    let database = MemoryDatabase::new();
    let store = database.store();
    let mut tx = begin(&store).await;
    assert_eq!(claim(&store, &mut tx, "1").await.unwrap(), Claim::Fresh);
    apply_effect(&mut tx, &message("1", "1")).unwrap();
    assert_eq!(tx.counter(COUNTER), Ok(1), "its own writes are seen");
    assert_eq!((database.rows(EFFECTS).len(), database.counter(COUNTER)), (0, 0));
    assert_eq!(database.claims(&group()), []);
    store.commit(tx).await.unwrap();
    assert_eq!((database.rows(EFFECTS).len(), database.counter(COUNTER)), (1, 1));
    let row = ClaimRow { disposition: Disposition::Applied, fingerprint: content("1") };
    assert_eq!(database.claims(&group()), [(key("1"), row)]);
    assert_eq!(database.open_transactions(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_or_rolled_back_transaction_leaves_nothing() {
    let database = MemoryDatabase::new();
    let store = database.store();
    for is_dropped in [true, false] {
        let mut tx = begin(&store).await;
        assert_eq!(claim(&store, &mut tx, "1").await.unwrap(), Claim::Fresh);
        apply_effect(&mut tx, &message("1", "1")).unwrap();
        if is_dropped {
            drop(tx)
        } else {
            store.rollback(tx).await.unwrap()
        }
        assert_eq!(database.rows(EFFECTS), []);
        assert_eq!(database.claims(&group()), []);
        assert_eq!(database.open_transactions(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_found_row_tells_its_disposition_or_a_conflict() {
    let database = MemoryDatabase::new();
    let store = database.store();
    let mut tx = begin(&store).await;
    claim(&store, &mut tx, "1").await.unwrap();
    claim(&store, &mut tx, "2").await.unwrap();
    let letter = Letter::new(message("2", "2"), LetterReason::Failed, "no", 3);
    store.bury(&mut tx, &group(), &[letter]).await.unwrap();
    store.commit(tx).await.unwrap();

    let mut tx = begin(&store).await;
    let other = ClaimRequest { key: key("1"), fingerprint: content("other") };
    let requests = [request("2"), other, request("3")];
    let claims = store.claim(&mut tx, &group(), &requests).await.unwrap();
    assert_eq!(claims, [Claim::Dead, Claim::Conflict { stored: content("1") }, Claim::Fresh]);
    let elsewhere = Group::new("shipping").unwrap();
    assert_eq!(store.claim(&mut tx, &elsewhere, &[request("1")]).await.unwrap(), [Claim::Fresh]);
}

#[tokio::test(start_paused = true)]
async fn an_undecided_claim_is_busy_after_the_lock_timeout() {
    let store = MemoryDatabase::new().store();
    let mut first = begin(&store).await;
    claim(&store, &mut first, "1").await.unwrap();
    let mut second = begin(&store).await;
    let before = tokio::time::Instant::now();
    assert!(matches!(claim(&store, &mut second, "1").await, Err(StoreError::Busy)));
    assert_eq!(before.elapsed(), TxLimits::default().lock_timeout, "in paused time, exactly");
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_is_fresh_after_a_rollback_and_finds_after_a_commit() {
    for commits in [true, false] {
        let store = MemoryDatabase::new().store();
        let mut first = begin(&store).await;
        claim(&store, &mut first, "1").await.unwrap();
        let mut second = begin(&store).await;
        let (answer, ()) = tokio::join!(claim(&store, &mut second, "1"), async {
            tokio::task::yield_now().await;
            if commits { store.commit(first).await.unwrap() } else { drop(first) }
        });
        assert_eq!(answer.unwrap(), if commits { Claim::Applied } else { Claim::Fresh });
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_claimers_exactly_one_is_fresh() {
    let database = MemoryDatabase::new();
    let tasks: Vec<_> = (0..16)
        .map(|_| {
            let store = database.store();
            tokio::spawn(async move {
                let mut fresh = 0;
                for id in 0..50 {
                    let id = id.to_string();
                    let mut limits = TxLimits::default();
                    limits.lock_timeout = Duration::from_secs(600);
                    let mut tx = store.begin(&limits).await.unwrap();
                    if claim(&store, &mut tx, &id).await.unwrap() == Claim::Fresh {
                        apply_effect(&mut tx, &message(&id, &id)).unwrap();
                        fresh += 1;
                    }
                    tokio::task::yield_now().await;
                    store.commit(tx).await.unwrap();
                }
                fresh
            })
        })
        .collect();
    let mut fresh = 0;
    for task in tasks {
        fresh += task.await.unwrap();
    }
    assert_eq!((fresh, database.counter(COUNTER)), (50, 50));
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_cannot_be_says_why() {
    let database = MemoryDatabase::new();
    let store = database.store();
    let class_of = |result: Result<(), CommitError>| match result {
        Err(CommitError::RolledBack { class, .. }) => class,
        other => panic!("{other:?}"),
    };
    let mut tx = begin(&store).await;
    claim(&store, &mut tx, "1").await.unwrap();
    tx.fail_commit("invoices_total_check");
    assert_eq!(class_of(store.commit(tx).await), FaultClass::Permanent);

    let mut tx = begin(&store).await;
    claim(&store, &mut tx, "1").await.unwrap();
    tx.abort();
    let error = apply_effect(&mut tx, &message("1", "1")).unwrap_err();
    assert_eq!((error.clone(), store.classify(&error)), (MemoryError::Aborted, FaultClass::Aborted));
    assert_eq!(class_of(store.commit(tx).await), FaultClass::Aborted);

    let mut tx = begin(&store).await;
    database.cut_connections();
    assert_eq!(claim(&store, &mut tx, "1").await.unwrap_err().class(), Some(FaultClass::Outage));
    assert_eq!(class_of(store.commit(tx).await), FaultClass::Outage);

    let tx = begin(&store).await;
    database.set_available(false);
    assert_eq!(class_of(store.commit(tx).await), FaultClass::Outage);
    assert!(store.begin(&TxLimits::default()).await.is_err());
    database.set_available(true);
    assert_eq!(claim(&store, &mut begin(&store).await, "1").await.unwrap(), Claim::Fresh);
    assert_eq!(database.claims(&group()), []);
}

#[tokio::test(start_paused = true)]
async fn resolve_waits_for_the_open_transaction() {
    let store = MemoryDatabase::new().store();
    let mut tx = begin(&store).await;
    claim(&store, &mut tx, "1").await.unwrap();
    let keys = [key("1"), key("2")];
    assert!(matches!(store.resolve(&group(), &keys).await, Err(StoreError::Busy)));
    let g = group();
    let (resolutions, ()) = tokio::join!(store.resolve(&g, &keys), async {
        tokio::task::yield_now().await;
        store.commit(tx).await.unwrap();
    });
    let committed = Resolution::Committed { disposition: Disposition::Applied, fingerprint: content("1") };
    assert_eq!(resolutions.unwrap(), [committed, Resolution::Absent]);
}

#[tokio::test(start_paused = true)]
async fn letters_and_conflicts_are_kept_once() {
    let database = MemoryDatabase::new();
    let store = database.store();
    let mut tx = begin(&store).await;
    let letter = Letter::new(message("1", "1"), LetterReason::Failed, "no", 3);
    let error = store.bury(&mut tx, &group(), std::slice::from_ref(&letter)).await.unwrap_err();
    assert_eq!(error.class(), Some(FaultClass::Permanent), "only what it has claimed can be buried");
    drop(tx);

    for _ in 0..2 {
        let mut tx = begin(&store).await;
        if claim(&store, &mut tx, "1").await.unwrap() == Claim::Fresh {
            store.bury(&mut tx, &group(), &[letter.clone(), letter.clone()]).await.unwrap();
        }
        let conflict = Conflict::new(message("1", "other"), content("1"));
        store.record_conflicts(&mut tx, &group(), &[conflict]).await.unwrap();
        store.commit(tx).await.unwrap();
    }
    let page = Page::first(Some(group()), 10);
    let letters = Inspect::letters(&store, &page).await.unwrap();
    assert_eq!((letters.len(), letters[0].attempts), (1, 3));
    let conflicts = Inspect::conflicts(&store, &page).await.unwrap();
    assert_eq!((conflicts.len(), conflicts[0].seen, conflicts[0].refused), (1, 2, content("other")));
    assert!(store.letter(letters[0].letter_id).await.unwrap().is_some());
    let mut stats = GroupStats::new("billing");
    (stats.dead, stats.conflicts) = (1, 1);
    assert_eq!(store.group_stats().await.unwrap(), [stats]);
    let evidence = database.evidence(&group(), "1", content("other"));
    let claim = Some((Disposition::Dead, content("1")));
    assert_eq!(evidence, Evidence { claim, letter: true, conflict: true, effects: 0 });
}

#[tokio::test(start_paused = true)]
async fn checkpoints_are_fenced_by_position_and_epoch() {
    let store = MemoryDatabase::new().store();
    let (group, partition) = (group(), Partition { source: Source::new("log"), number: 0 });
    let partitions = [partition.clone()];
    let taken = store.take_over(&group, &partitions).await.unwrap();
    assert_eq!(taken, [Checkpoint::new(0, 1, None)]);
    let step = |expected_next, epoch, next| CheckpointMove {
        partition: partition.clone(),
        rule: MoveRule::From { expected_next: Some(expected_next), epoch },
        to: Checkpoint::new(next, epoch, None),
    };
    let mut tx = begin(&store).await;
    assert_eq!(store.advance(&mut tx, &group, &[step(0, 1, 5)]).await.unwrap(), [Moved::Done]);
    assert_eq!(store.advance(&mut tx, &group, &[step(5, 1, 6)]).await.unwrap(), [Moved::Done]);
    assert_eq!(store.checkpoints(&group, &partitions).await.unwrap(), taken.map_some());
    // Another owner waits for this transaction.
    assert!(matches!(store.take_over(&group, &partitions).await, Err(StoreError::Busy)));
    store.commit(tx).await.unwrap();

    assert_eq!(store.take_over(&group, &partitions).await.unwrap()[0].epoch, 2);
    let mut late = begin(&store).await;
    let found = Some(Checkpoint::new(6, 2, None));
    let answer = store.advance(&mut late, &group, &[step(6, 1, 7)]).await.unwrap();
    assert_eq!(answer, [Moved::Fenced { found: found.clone() }]);
    assert_eq!(store.hold(&mut late, &group, &partitions).await.unwrap(), [found]);
    let back = CheckpointMove { rule: MoveRule::Forward, ..step(0, 9, 3) };
    let on = CheckpointMove { rule: MoveRule::Forward, ..step(0, 9, 8) };
    store.advance(&mut late, &group, &[back]).await.unwrap();
    store.advance(&mut late, &group, &[on]).await.unwrap();
    store.commit(late).await.unwrap();
    let listed = store.list_checkpoints(&group, &partition.source).await.unwrap();
    assert_eq!(listed, [(partition.clone(), Checkpoint::new(8, 2, None))], "the epoch is kept");
    assert_eq!(store.forget(&group, &partition.source).await.unwrap(), 1);
}

trait MapSome<T> {
    fn map_some(self) -> Vec<Option<T>>;
}

impl<T> MapSome<T> for Vec<T> {
    fn map_some(self) -> Vec<Option<T>> {
        self.into_iter().map(Some).collect()
    }
}
