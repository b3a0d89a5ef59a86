//! Messages that are kept: the reference store, and the wrappers around it.

use crate::common::*;
use inbox_core::*;
// Both crates have a `Call`; this is the counted one.
use inbox_testkit::Call;
use inbox_testkit::{conformance::every_single_fault_of_a_stored_run, *};
use std::time::Duration;
use tokio::time::{Instant, advance};

inbox_testkit::stored_inbox_tests!(MemoryDatabase::new().store());

/// The wrappers pass everything on.
mod wrapped {
    use inbox_testkit::*;

    mod crash_store {
        use super::*;
        inbox_testkit::stored_inbox_tests!(CrashStore::new(MemoryDatabase::new().store(), &CrashPlan::dry()));
    }

    mod twisted_claims {
        use super::*;
        // Nothing here is claimed again with other content before it was kept.
        inbox_testkit::stored_inbox_tests!(@ TwistedClaims::silent_conflicts(MemoryDatabase::new().store());
            a_stored_message_is_reclaimed_once
            a_rollback_leaves_it_stored
            a_failure_moves_the_next_attempt
            a_reclaimed_message_can_be_buried
        );
    }
}

struct Memory(MemoryDatabase);

impl World for Memory {
    type Store = MemoryStore;

    fn open(&self) -> MemoryStore {
        self.0.store()
    }

    fn witness(&self, group: &Group) -> Witness {
        self.0.witness(group)
    }

    fn state(&self, group: &Group) -> FinalState {
        assert_eq!(self.0.open_transactions(), 0);
        FinalState::of(&self.0, group)
    }

    fn apply(connection: &mut MemoryConnection, message: &Message) -> Result<(), Failure> {
        Ok(apply_effect(connection, message)?)
    }
}

#[test]
fn every_single_fault_of_keeping_and_handling() {
    // 33 calls with 5 reactions each, and a lost request for each of 6 commits.
    assert_eq!(every_single_fault_of_a_stored_run(|| Memory(MemoryDatabase::new())), 33 * 5 + 6);
}

async fn begin(store: &MemoryStore) -> MemoryTx {
    store.begin(&TxLimits::default()).await.unwrap()
}

async fn keep(store: &MemoryStore, id: &str) {
    let mut tx = begin(store).await;
    store.claim(&mut tx, &group(), &[request(id)]).await.unwrap();
    store.keep(&mut tx, &group(), &[message(id, id)]).await.unwrap();
    store.commit(tx).await.unwrap();
}

async fn reclaim(store: &MemoryStore, tx: &mut MemoryTx, id: &str) -> Result<Claim, StoreError> {
    store.reclaim(tx, &group(), &[request(id)]).await.map(|mut claims| claims.remove(0))
}

#[tokio::test(start_paused = true)]
async fn of_two_that_reclaim_one_is_fresh_and_the_other_busy_and_then_too_late() {
    let database = MemoryDatabase::new();
    let store = database.store();
    keep(&store, "1").await;
    let (mut first, mut second) = (begin(&store).await, begin(&store).await);
    assert_eq!(reclaim(&store, &mut first, "1").await.unwrap(), Claim::Fresh);
    let before = Instant::now();
    assert!(matches!(reclaim(&store, &mut second, "1").await, Err(StoreError::Busy)));
    assert_eq!(before.elapsed(), TxLimits::default().lock_timeout);
    // What is undecided: a redelivery finds the committed row, and a lost commit is not resolved yet.
    let mut third = begin(&store).await;
    assert_eq!(store.claim(&mut third, &group(), &[request("1")]).await.unwrap(), [Claim::Stored]);
    assert!(matches!(store.resolve(&group(), &[key("1")]).await, Err(StoreError::Busy)));
    let failure = store.record_failure(&group(), &key("1"), 1, "no", Duration::ZERO).await;
    assert!(matches!(failure, Err(StoreError::Busy)));
    assert_eq!(database.stored(&group()).len(), 1);
    store.commit(first).await.unwrap();
    assert_eq!(reclaim(&store, &mut second, "1").await.unwrap(), Claim::Applied);
    assert_eq!(database.stored(&group()).len(), 0);
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_gets_it_after_a_rollback() {
    for commits in [true, false] {
        let store = MemoryDatabase::new().store();
        keep(&store, "1").await;
        let mut first = begin(&store).await;
        reclaim(&store, &mut first, "1").await.unwrap();
        let mut second = begin(&store).await;
        let (answer, ()) = tokio::join!(reclaim(&store, &mut second, "1"), async {
            tokio::task::yield_now().await;
            if commits { store.commit(first).await.unwrap() } else { drop(first) }
        });
        assert_eq!(answer.unwrap(), if commits { Claim::Applied } else { Claim::Fresh });
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_that_reclaim_exactly_one_applies() {
    let database = MemoryDatabase::new();
    for id in 0..50 {
        keep(&database.store(), &id.to_string()).await;
    }
    let tasks: Vec<_> = (0..16)
        .map(|_| {
            let store = database.store();
            tokio::spawn(async move {
                let mut limits = TxLimits::default();
                limits.lock_timeout = Duration::from_secs(600);
                for id in 0..50 {
                    let id = id.to_string();
                    let mut tx = store.begin(&limits).await.unwrap();
                    if reclaim(&store, &mut tx, &id).await.unwrap() == Claim::Fresh {
                        apply_effect(&mut tx, &message(&id, &id)).unwrap();
                    }
                    tokio::task::yield_now().await;
                    store.commit(tx).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!((database.counter(COUNTER), database.stored(&group()).len()), (50, 0));
}

#[tokio::test(start_paused = true)]
async fn what_failed_is_due_when_its_time_has_come() {
    let store = MemoryDatabase::new().store();
    keep(&store, "1").await;
    let second = Duration::from_secs(1);
    store.record_failure(&group(), &key("1"), 1, "no", second).await.unwrap();
    assert_eq!(store.next_due(&group()).await.unwrap(), Some(second));
    advance(second - Duration::from_millis(1)).await;
    assert!(store.due(&group(), 1).await.unwrap().is_empty());
    advance(Duration::from_millis(1)).await;
    assert_eq!(store.due(&group(), 1).await.unwrap()[0].attempts, 1);
    assert_eq!(store.next_due(&group()).await.unwrap(), Some(Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn without_its_database_nothing_is_answered() {
    let database = MemoryDatabase::new();
    let store = database.store();
    keep(&store, "1").await;
    let mut tx = begin(&store).await;
    database.cut_connections();
    let outage = Some(FaultClass::Outage);
    assert_eq!(reclaim(&store, &mut tx, "1").await.unwrap_err().class(), outage);
    assert_eq!(store.keep(&mut tx, &group(), &[]).await.unwrap_err().class(), outage);
    database.set_available(false);
    assert_eq!(store.due(&group(), 1).await.unwrap_err().class(), outage);
    assert_eq!(store.next_due(&group()).await.unwrap_err().class(), outage);
    let failure = store.record_failure(&group(), &key("1"), 1, "no", Duration::ZERO).await;
    assert_eq!(failure.unwrap_err().class(), outage);
}

#[test]
fn the_calls_are_counted_but_for_the_question_how_long() {
    let plan = CrashPlan::dry();
    let store = CrashStore::new(MemoryDatabase::new().store(), &plan);
    let life = live(&plan, async move {
        let mut tx = store.begin(&TxLimits::default()).await.unwrap();
        store.claim(&mut tx, &group(), &[request("1")]).await.unwrap();
        store.keep(&mut tx, &group(), &[message("1", "1")]).await.unwrap();
        store.reclaim(&mut tx, &group(), &[]).await.unwrap();
        store.rollback(tx).await.unwrap();
        store.due(&group(), 1).await.unwrap();
        store.next_due(&group()).await.unwrap();
        store.record_failure(&group(), &key("1"), 1, "no", Duration::ZERO).await.unwrap();
    });
    assert_eq!(life.unwrap(), Life::Ended(()));
    let calls =
        [Call::Begin, Call::Claim, Call::Keep, Call::Reclaim, Call::Rollback, Call::Due, Call::RecordFailure];
    assert_eq!(plan.passages(), calls);
    for call in [Call::Keep, Call::Reclaim, Call::Due, Call::RecordFailure] {
        assert_eq!(schedules(&[call]).len(), 5, "all but a lost request, which is a refusal here");
    }
}
