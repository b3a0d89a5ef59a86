//! What each reaction does to a call.

use crate::common::*;
use inbox_core::*;
use inbox_testkit::{Call, *};
use std::time::Duration;

/// Commits one claimed effect under a plan and tells the answer and whether it is stored.
fn commit_under(reaction: Reaction) -> (Life<Result<(), CommitError>>, bool) {
    let database = MemoryDatabase::new();
    let plan = CrashPlan::at(2, reaction);
    let store = CrashStore::new(database.store(), &plan);
    let life = live(&plan, async move {
        let mut tx = store.begin(&TxLimits::default()).await.unwrap();
        store.claim(&mut tx, &group(), &[request("1")]).await.unwrap();
        apply_effect(&mut tx, &message("1", "1")).unwrap();
        store.commit(tx).await
    });
    assert_eq!(plan.passages(), [Call::Begin, Call::Claim, Call::Commit]);
    assert_eq!(plan.fired(), [Schedule { at: 2, call: Call::Commit, reaction }]);
    assert_eq!(database.open_transactions(), 0, "a crash closes what was open");
    (life.unwrap(), database.counter(COUNTER) == 1)
}

#[test]
fn a_commit_is_hit_before_or_after() {
    use Reaction::*;
    assert!(matches!(commit_under(CrashBefore), (Life::Crashed, false)));
    assert!(matches!(commit_under(CrashReplyLost), (Life::Crashed, true)));
    assert!(matches!(commit_under(CrashAfter), (Life::Crashed, true)));
    let refused = commit_under(Refuse);
    assert!(matches!(refused, (Life::Ended(Err(CommitError::RolledBack { .. })), false)), "{refused:?}");
    let lost = commit_under(AnswerLost);
    assert!(matches!(lost, (Life::Ended(Err(CommitError::InDoubt { .. })), true)), "{lost:?}");
    let lost = commit_under(RequestLost);
    assert!(matches!(lost, (Life::Ended(Err(CommitError::InDoubt { .. })), false)), "{lost:?}");
}

#[test]
fn a_settlement_is_hit_before_or_after() {
    for (reaction, arrives) in [
        (Reaction::CrashBefore, false),
        (Reaction::CrashReplyLost, true),
        (Reaction::Refuse, false),
        (Reaction::AnswerLost, true),
    ] {
        let queue = FakeQueue::new(FakeOptions::queue());
        queue.publish(Publish::new("1"));
        let plan = CrashPlan::at(1, reaction);
        let mut broker = CrashBroker::new(queue.connect(), &plan);
        let life = live(&plan, async move {
            let got = deliveries(&mut broker, &credit()).await.remove(0);
            broker.ack_handle().settle(vec![acknowledgement(got).await]).await.remove(0).is_err()
        });
        assert_eq!(life.unwrap(), if reaction.is_crash() { Life::Crashed } else { Life::Ended(true) });
        assert_eq!(queue.is_settled(), arrives, "{reaction:?}");
    }
}

#[test]
fn after_a_crash_no_call_is_performed() {
    let database = MemoryDatabase::new();
    let plan = CrashPlan::at(0, Reaction::CrashAfter);
    let store = CrashStore::new(database.store(), &plan);
    let life = live(&plan, async move {
        // Another task would still run before the harness drops the runtime.
        let tx = store.begin(&TxLimits::default()).await.unwrap();
        assert!(store.commit(tx).await.is_ok(), "never answered");
    });
    assert_eq!((life.unwrap(), plan.passages()), (Life::Crashed, vec![Call::Begin]));
}

#[tokio::test(start_paused = true)]
async fn a_refused_next_gives_its_deliveries_later_and_within_the_credit() {
    let queue = FakeQueue::new(FakeOptions::queue());
    ["1", "2", "3"].into_iter().for_each(|id| queue.publish(Publish::new(id)));
    let plan = CrashPlan::at(0, Reaction::Refuse);
    let mut broker = CrashBroker::new(queue.connect(), &plan);
    // A cancelled call is not counted.
    let waiting = Credit::new(0, 0);
    assert!(tokio::time::timeout(Duration::from_secs(1), broker.next(&waiting)).await.is_err());
    assert_eq!(plan.passages(), []);
    assert!(broker.next(&credit()).await.unwrap_err().is_transient());
    assert!(tokio::time::timeout(Duration::from_secs(1), broker.next(&waiting)).await.is_err());
    assert_eq!(ids(&deliveries(&mut broker, &Credit::new(2, 100)).await), ["1", "2"]);
    assert_eq!(ids(&deliveries(&mut broker, &credit()).await), ["3"]);
    assert_eq!(plan.passages(), [Call::Next]);
}

#[test]
fn a_handler_point_fails_or_crashes() {
    let point = |reaction| {
        let plan = CrashPlan::at(0, reaction);
        live(&plan, plan.handler_point("middle")).unwrap()
    };
    assert_eq!(point(Reaction::Refuse), Life::Ended(Err(PlannedFailure)));
    assert_eq!(point(Reaction::CrashBefore), Life::Crashed);
    let dry = CrashPlan::dry();
    assert_eq!(live(&dry, dry.handler_point("middle")).unwrap(), Life::Ended(Ok(())));
}

#[test]
fn a_life_that_waits_for_ever_is_stuck() {
    let life = live(&CrashPlan::dry(), std::future::pending::<()>());
    assert_eq!(life.unwrap(), Life::Stuck);
}

#[test]
fn schedules_are_all_reactions_that_mean_something() {
    let of = |call| schedules(&[call]).len();
    assert_eq!((of(Call::Begin), of(Call::Commit), of(Call::Settle)), (5, 6, 5));
    assert_eq!((of(Call::Next), of(Call::Handler)), (3, 2));
    let one = schedules(&[Call::Begin, Call::Commit])[5];
    assert_eq!(one.to_string(), "crash_before@1:commit");
}
