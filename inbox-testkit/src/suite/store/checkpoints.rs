//! Contract of checkpoints: with the transaction, forward, fenced.

use super::{harness::StoreHarness, help::*};
use inbox_core::{
    Checkpoint, CheckpointMove, Checkpoints, InboxStore, MoveRule, Moved, Partition, RecordMark, Source,
};

fn mark(at: u64) -> Option<RecordMark> {
    Some(RecordMark { at, digest: content("content"), timestamp_ms: Some(-5) })
}

fn forward(number: u32, next: u64) -> CheckpointMove {
    CheckpointMove {
        partition: partition(number),
        rule: MoveRule::Forward,
        to: Checkpoint::new(next, 0, mark(next.saturating_sub(1))),
    }
}

fn from(expected_next: Option<u64>, epoch: u64, next: u64) -> CheckpointMove {
    CheckpointMove {
        partition: partition(0),
        rule: MoveRule::From { expected_next, epoch },
        to: Checkpoint::new(next, epoch, None),
    }
}

/// One call of `advance` in a transaction of its own; what is fenced is rolled back.
async fn advance<S: Checkpoints>(store: &S, moves: &[CheckpointMove]) -> Vec<Moved> {
    let mut tx = begin(store).await;
    let answers = store.advance(&mut tx, &group(), moves).await.expect("the moves are answered");
    if answers.iter().all(|answer| *answer == Moved::Done) {
        commit(store, tx).await;
    } else {
        store.rollback(tx).await.expect("it rolls back");
    }
    answers
}

async fn at<S: Checkpoints>(store: &S) -> Option<Checkpoint> {
    one(store.checkpoints(&group(), &[partition(0)]).await.expect("a checkpoint is read"))
}

async fn next_of<S: Checkpoints>(store: &S) -> Option<u64> {
    at(store).await.map(|checkpoint| checkpoint.next)
}

/// A move appears with the commit of its transaction, as claims and effects do; a rollback leaves none.
pub async fn checkpoint_with_the_transaction<H: StoreHarness>(h: &H) {
    let (store, other) = (h.open().await, h.open().await);
    for commits in [false, true] {
        let mut tx = begin(&store).await;
        store.advance(&mut tx, &group(), &[forward(0, 5)]).await.expect("an answer");
        effect(h, &mut tx, "a").await;
        assert_eq!(at(&other).await, None, "not before the commit");
        if commits {
            commit(&store, tx).await;
        } else {
            store.rollback(tx).await.expect("it rolls back");
        }
        assert_eq!(next_of(&other).await, commits.then_some(5));
        assert_eq!(h.effects().await.len(), usize::from(commits));
    }
}

/// A forward move never goes back, and keeps the stored epoch.
pub async fn forward_never_goes_back<H: StoreHarness>(h: &H) {
    let store = h.open().await;
    store.take_over(&group(), &[partition(0)]).await.expect("it is taken over");
    let mut stored = Vec::new();
    for next in [5, 3, 5, 0, 9] {
        assert_eq!(advance(&store, &[forward(0, next)]).await, [Moved::Done]);
        let found = at(&store).await.expect("a checkpoint");
        assert_eq!(found.epoch, 1, "the epoch is the assignment's");
        stored.push((found.next, found.mark.map(|mark| mark.at)));
    }
    assert_eq!(stored, [(5, Some(4)), (5, Some(4)), (5, Some(4)), (5, Some(4)), (9, Some(8))]);
}

/// A move from a position happens only from exactly there; otherwise it tells what is there, and
/// changes nothing.
pub async fn from_is_compare_and_swap<H: StoreHarness>(h: &H) {
    let store = h.open().await;
    assert_eq!(advance(&store, &[from(Some(0), 0, 3)]).await, [Moved::Fenced { found: None }]);
    assert_eq!(at(&store).await, None);
    assert_eq!(advance(&store, &[from(None, 0, 3)]).await, [Moved::Done]);
    let here = Checkpoint::new(3, 0, None);
    for wrong in [from(None, 0, 9), from(Some(2), 0, 9), from(Some(4), 0, 9), from(Some(3), 1, 9)] {
        let fenced = Moved::Fenced { found: Some(here.clone()) };
        assert_eq!(advance(&store, std::slice::from_ref(&wrong)).await, [fenced], "{wrong:?}");
        assert_eq!(at(&store).await.as_ref(), Some(&here));
    }
    assert_eq!(advance(&store, &[from(Some(3), 0, 4)]).await, [Moved::Done]);
    // In one transaction a move sees the one before it.
    let mut tx = begin(&store).await;
    for (expected, next) in [(4, 6), (6, 8)] {
        let moved = store.advance(&mut tx, &group(), &[from(Some(expected), 0, next)]).await;
        assert_eq!(moved.expect("an answer"), [Moved::Done]);
    }
    commit(&store, tx).await;
    assert_eq!(next_of(&store).await, Some(8));
}

/// Taking over raises the epoch, keeps the position, and fences the owner before.
pub async fn take_over_fences_the_owner_before<H: StoreHarness>(h: &H) {
    let (old, new) = (h.open().await, h.open().await);
    let taken = old.take_over(&group(), &[partition(0)]).await.expect("it is taken over");
    assert_eq!(taken, [Checkpoint::new(0, 1, None)]);
    assert_eq!(advance(&old, &[from(Some(0), 1, 5)]).await, [Moved::Done]);
    let taken = new.take_over(&group(), &[partition(0)]).await.expect("it is taken over");
    assert_eq!(taken, [Checkpoint::new(5, 2, None)]);
    let found = Some(Checkpoint::new(5, 2, None));
    assert_eq!(advance(&old, &[from(Some(5), 1, 6)]).await, [Moved::Fenced { found }]);
    assert_eq!(advance(&new, &[from(Some(5), 2, 6)]).await, [Moved::Done]);
    assert_eq!(at(&old).await, Some(Checkpoint::new(6, 2, None)));
}

/// While one transaction holds a checkpoint, no other one holds, moves or takes it over.
pub async fn hold_excludes_others<H: StoreHarness>(h: &H) {
    let (first, second) = (h.open().await, h.open().await);
    first.take_over(&group(), &[partition(0)]).await.expect("it is taken over");
    let mut tx = begin(&first).await;
    let held = first.hold(&mut tx, &group(), &[partition(0)]).await.expect("it is held");
    assert_eq!(held, [Some(Checkpoint::new(0, 1, None))]);
    for step in ["hold", "advance"] {
        let outcome = async {
            let mut tx = second.begin(&impatient()).await?;
            if step == "hold" {
                second.hold(&mut tx, &group(), &[partition(0)]).await.map(|_| ())
            } else {
                second.advance(&mut tx, &group(), &[from(Some(0), 1, 7)]).await.map(|_| ())
            }
        };
        let error = outcome.await.expect_err("it is held by another one");
        assert!(is_in_the_way(&error), "{step}: {error}");
    }
    let group = group();
    let partitions = [partition(0)];
    let taking = second.take_over(&group, &partitions);
    match tokio::time::timeout(impatient().lock_timeout, taking).await {
        Err(_waits) => {}
        Ok(Err(error)) => assert!(is_in_the_way(&error), "{error}"),
        Ok(Ok(taken)) => panic!("it was taken over while it was held: {taken:?}"),
    }
    let moved = first.advance(&mut tx, &group, &[from(Some(0), 1, 5)]).await.expect("an answer");
    assert_eq!(moved, [Moved::Done]);
    commit(&first, tx).await;
    assert_eq!(next_of(&second).await, Some(5));
}

/// Answers stand in the order of partitions and moves, and each partition is its own.
pub async fn checkpoint_answers_in_order<H: StoreHarness>(h: &H) {
    let store = h.open().await;
    let elsewhere = Partition { source: Source::new("elsewhere"), number: 2 };
    let mut moves = vec![forward(2, 20), forward(0, 0), forward(1, 10)];
    moves.push(CheckpointMove { partition: elsewhere.clone(), ..forward(2, 99) });
    assert_eq!(advance(&store, &moves).await, vec![Moved::Done; 4]);
    let asked = [partition(1), partition(3), partition(2), elsewhere, partition(0)];
    let nexts = |found: Vec<Option<Checkpoint>>| -> Vec<Option<u64>> {
        found.into_iter().map(|checkpoint| checkpoint.map(|checkpoint| checkpoint.next)).collect()
    };
    let expected = [Some(10), None, Some(20), Some(99), Some(0)];
    assert_eq!(nexts(store.checkpoints(&group(), &asked).await.expect("they are read")), expected);
    let mut tx = begin(&store).await;
    assert_eq!(nexts(store.hold(&mut tx, &group(), &asked).await.expect("they are held")), expected);
    store.rollback(tx).await.expect("it rolls back");
    let taken = store.take_over(&group(), &asked).await.expect("they are taken over");
    let taken: Vec<(u64, u64)> =
        taken.into_iter().map(|checkpoint| (checkpoint.next, checkpoint.epoch)).collect();
    assert_eq!(taken, [(10, 1), (0, 1), (20, 1), (99, 1), (0, 1)]);
    let others = store.checkpoints(&named_group("shipping"), &asked).await.expect("they are read");
    assert_eq!(others, vec![None; 5], "another group has its own");
}

/// All checkpoints of a source are listed by number, and forgotten together, and no others.
pub async fn list_and_forget<H: StoreHarness>(h: &H) {
    let store = h.open().await;
    let source = partition(0).source;
    let elsewhere = Partition { source: Source::new("elsewhere"), number: 0 };
    let mut moves: Vec<CheckpointMove> = [10, 2, 1].map(|number| forward(number, 5)).to_vec();
    moves.push(CheckpointMove { partition: elsewhere.clone(), ..forward(0, 7) });
    advance(&store, &moves).await;
    store.take_over(&named_group("shipping"), &[partition(1)]).await.expect("it is taken over");
    let listed = store.list_checkpoints(&group(), &source).await.expect("they are listed");
    let numbers: Vec<u32> = listed.iter().map(|(partition, _)| partition.number).collect();
    assert_eq!(numbers, [1, 2, 10]);
    assert!(listed.iter().all(|(partition, found)| partition.source == source && found.next == 5));
    assert_eq!(store.forget(&group(), &source).await.expect("they are forgotten"), 3);
    assert_eq!(store.forget(&group(), &source).await.expect("none is left"), 0);
    assert_eq!(store.list_checkpoints(&group(), &source).await.expect("they are listed"), []);
    let kept = store.checkpoints(&group(), &[elsewhere, partition(1)]).await.expect("they are read");
    assert_eq!(kept[0].as_ref().map(|found| found.next), Some(7));
    assert_eq!(kept[1], None);
    let other = store.checkpoints(&named_group("shipping"), &[partition(1)]).await.expect("they are read");
    assert!(one(other).is_some(), "another group's stay");
}

/// The mark of the last record reads back as it was, and can be absent again.
pub async fn marks_read_back<H: StoreHarness>(h: &H) {
    let store = h.open().await;
    let version_2 = inbox_core::Fingerprint::from_bytes(&[2; inbox_core::FINGERPRINT_BYTES]).expect("one");
    let marks = [
        Some(RecordMark { at: 0, digest: content("a"), timestamp_ms: None }),
        Some(RecordMark { at: i64::MAX as u64, digest: version_2, timestamp_ms: Some(0) }),
        Some(RecordMark { at: 7, digest: content("b"), timestamp_ms: Some(i64::MIN) }),
        Some(RecordMark { at: 8, digest: content("b"), timestamp_ms: Some(i64::MAX) }),
        None,
    ];
    let mut expected_next = None;
    for (next, mark) in marks.into_iter().enumerate() {
        let next = next as u64 + 1;
        let step = CheckpointMove { to: Checkpoint::new(next, 0, mark), ..from(expected_next, 0, next) };
        assert_eq!(advance(&store, &[step]).await, [Moved::Done]);
        assert_eq!(at(&h.open().await).await, Some(Checkpoint::new(next, 0, mark)));
        expected_next = Some(next);
    }
}

/// A position or epoch that the database cannot hold is an error or reads back; it never becomes
/// another one, and a raised epoch is never lower.
pub async fn large_numbers_in_checkpoints<H: StoreHarness>(h: &H) {
    let store = h.open().await;
    let largest = i64::MAX as u64;
    for (number, next) in [largest, largest + 1, u64::MAX].into_iter().enumerate() {
        let number = number as u32;
        let mut tx = begin(&store).await;
        match store.advance(&mut tx, &group(), &[forward(number, next)]).await {
            Ok(moved) => {
                assert_eq!(moved, [Moved::Done]);
                commit(&store, tx).await;
                let found = store.checkpoints(&group(), &[partition(number)]).await.expect("it is read");
                assert_eq!(one(found).map(|found| found.next), Some(next));
            }
            Err(error) => assert!(next > largest, "{next} can be held: {error}"),
        }
    }
    let epoch = largest;
    let high = CheckpointMove { partition: partition(9), ..from(None, epoch, 1) };
    assert_eq!(advance(&store, &[high]).await, [Moved::Done]);
    match store.take_over(&group(), &[partition(9)]).await {
        Ok(taken) => assert!(one(taken).epoch > epoch, "the epoch rises"),
        Err(_cannot_be_held) => {
            let found = store.checkpoints(&group(), &[partition(9)]).await.expect("it is read");
            assert_eq!(one(found).map(|found| found.epoch), Some(epoch), "nothing changed");
        }
    }
}
