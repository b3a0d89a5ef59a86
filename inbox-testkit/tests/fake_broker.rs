//! The contract of brokers, on the fake one.

use crate::common::*;
use inbox_core::{Ack, AckStrength, Broker, Checkpoint, Credit, Event, Order, Partition, Settled, Source};
use inbox_testkit::*;
use std::{collections::HashMap, time::Duration};

fn queue_of(options: FakeOptions, ids: &[&str]) -> FakeQueue {
    let queue = FakeQueue::new(options);
    ids.iter().for_each(|id| queue.publish(Publish::new(*id)));
    queue
}

fn partition(number: u32) -> Partition {
    Partition { source: Source::new("fake"), number }
}

async fn settle<R>(ack: &impl Ack<Receipt = R>, settlement: inbox_core::Settlement<R>) -> Settled {
    ack.settle(vec![settlement]).await.remove(0).unwrap()
}

#[tokio::test(start_paused = true)]
async fn what_is_not_acknowledged_comes_to_the_next_consumer() {
    let queue = queue_of(FakeOptions::queue(), &["1", "2", "3"]);
    let mut first = queue.connect();
    let mut got = deliveries(&mut first, &credit()).await;
    let ack = first.ack_handle();
    assert_eq!(settle(&ack, acknowledgement(got.remove(1)).await).await, Settled::Confirmed);
    drop(first);
    let mut second = queue.connect();
    assert_eq!(ids(&deliveries(&mut second, &credit()).await), ["1", "3"]);
    // The receipts of the first consumer are stale.
    assert_eq!(settle(&ack, acknowledgement(got.remove(0)).await).await, Settled::Stale);
    assert_eq!(queue.unsettled(), ["1", "3"]);
}

#[test]
fn the_state_outlives_the_runtime() {
    let queue = queue_of(FakeOptions::queue(), &["1"]);
    let plan = CrashPlan::at(0, Reaction::CrashReplyLost);
    let mut broker = CrashBroker::new(queue.connect(), &plan);
    assert_eq!(live(&plan, async move { drop(broker.next(&credit()).await) }).unwrap(), Life::Crashed);
    assert_eq!(queue.deliveries(), [("1".to_owned(), 1)]);
    assert!(!queue.is_settled());
}

#[tokio::test(start_paused = true)]
async fn a_released_delivery_comes_again_in_its_place() {
    let queue = queue_of(FakeOptions::queue().counts_deliveries(true), &["1", "2", "3"]);
    let mut broker = queue.connect();
    let mut got = deliveries(&mut broker, &Credit::new(2, 1000)).await;
    assert_eq!(settle(&broker.ack_handle(), release(got.remove(0))).await, Settled::Confirmed);
    let again = deliveries(&mut broker, &credit()).await;
    assert_eq!(ids(&again), ["1", "3"]);
    assert_eq!(again[0].deliveries_before, Some(1));
    assert_eq!(again[1].deliveries_before, Some(0));
}

#[tokio::test(start_paused = true)]
async fn it_ends_when_all_is_settled_and_stays_ended() {
    let queue = queue_of(FakeOptions::queue(), &["1"]);
    let mut broker = queue.connect();
    let got = deliveries(&mut broker, &credit()).await.remove(0);
    let settlement = acknowledgement(got).await;
    let ack = broker.ack_handle();
    let credit = credit();
    let (event, _) = tokio::join!(broker.next(&credit), async {
        tokio::task::yield_now().await;
        settle(&ack, settlement).await
    });
    assert!(matches!(event, Ok(Event::Ended)));
    queue.publish(Publish::new("2"));
    assert!(matches!(broker.next(&credit).await, Ok(Event::Ended)));
    let mut demand = FakeQueue::new(FakeOptions::queue().end(End::OnDemand)).connect();
    assert!(poll_once(demand.next(&credit)).await.is_none());
}

/// Polls a future once and drops it: a cancelled call.
async fn poll_once<F: Future>(future: F) -> Option<F::Output> {
    tokio::select! {
        biased;
        output = future => Some(output),
        () = std::future::ready(()) => None,
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_call_loses_nothing_and_a_waiting_one_is_woken() {
    let queue = FakeQueue::new(FakeOptions::queue().end(End::OnDemand));
    let mut broker = queue.connect();
    for _ in 0..3 {
        assert!(poll_once(broker.next(&credit())).await.is_none());
    }
    let publisher = queue.clone();
    let publish = async move {
        tokio::task::yield_now().await;
        publisher.publish(Publish::new("1"));
    };
    let credit = credit();
    let (got, ()) = tokio::join!(deliveries(&mut broker, &credit), publish);
    assert_eq!(ids(&got), ["1"]);
    queue.end();
    assert!(matches!(broker.next(&credit).await, Ok(Event::Ended)));
}

#[tokio::test(start_paused = true)]
async fn credit_is_obeyed() {
    let queue = queue_of(FakeOptions::queue().end(End::OnDemand), &["1", "22", "333", "4"]);
    queue.publish(Publish::new("5").partition(1));
    let mut broker = queue.connect();
    assert!(poll_once(broker.next(&Credit::new(0, 100))).await.is_none());
    assert!(poll_once(broker.next(&Credit::new(10, 0))).await.is_none());
    assert_eq!(ids(&deliveries(&mut broker, &Credit::new(1, 100)).await), ["1"]);
    // One that is larger than the credit comes alone.
    assert_eq!(ids(&deliveries(&mut broker, &Credit::new(10, 1)).await), ["22"]);
    assert_eq!(ids(&deliveries(&mut broker, &Credit::new(10, 3)).await), ["333"]);
    let mut held = credit();
    held.held.push(partition(0));
    assert_eq!(ids(&deliveries(&mut broker, &held).await), ["5"]);
    assert!(poll_once(broker.next(&held)).await.is_none());
    assert_eq!(ids(&deliveries(&mut broker, &credit()).await), ["4"]);
    let two = queue_of(FakeOptions::queue().deliveries_max(2), &["1", "2", "3"]);
    assert_eq!(deliveries(&mut two.connect(), &credit()).await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_cut_connection_fails_once_and_its_receipts_are_stale() {
    for options in [FakeOptions::queue(), FakeOptions::log()] {
        let queue = queue_of(options, &["1", "2"]);
        let mut broker = queue.connect();
        let old = deliveries(&mut broker, &credit()).await.remove(0);
        queue.sever();
        let error = broker.next(&credit()).await.unwrap_err();
        assert!(error.is_transient());
        assert_eq!(ids(&deliveries(&mut broker, &credit()).await), ["1", "2"]);
        let ack = broker.ack_handle();
        assert_eq!(settle(&ack, acknowledgement(old).await).await, Settled::Stale);
        assert_eq!(queue.unsettled(), ["1", "2"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_settlement_is_made_up_for_by_redelivery() {
    for (answer, options) in
        [(LostAnswer::Well, FakeOptions::queue()), (LostAnswer::Failed, FakeOptions::log())]
    {
        let queue = queue_of(options, &["1"]);
        let mut broker = queue.connect();
        let got = deliveries(&mut broker, &credit()).await.remove(0);
        queue.lose_settlements(1, answer);
        let answers = broker.ack_handle().settle(vec![acknowledgement(got).await]).await;
        assert_eq!(answers[0].is_ok(), answer == LostAnswer::Well);
        // Paused time jumps to the visibility time-out.
        let again = deliveries(&mut broker, &credit()).await.remove(0);
        settle(&broker.ack_handle(), acknowledgement(again).await).await;
        assert!(queue.is_settled());
    }
}

#[tokio::test(start_paused = true)]
async fn two_consumers_of_a_queue_compete() {
    let queue = queue_of(FakeOptions::queue().deliveries_max(1), &["1", "2"]);
    let (mut one, mut two) = (queue.connect(), queue.connect());
    assert_eq!(ids(&deliveries(&mut one, &credit()).await), ["1"]);
    assert_eq!(ids(&deliveries(&mut two, &credit()).await), ["2"]);
    drop(one);
    assert_eq!(ids(&deliveries(&mut two, &credit()).await), ["1"]);
    queue.redeliver_unsettled();
    assert_eq!(ids(&deliveries(&mut two, &credit()).await), ["1"]);
}

#[tokio::test(start_paused = true)]
async fn duplicates_and_reordering() {
    let queue = queue_of(FakeOptions::queue(), &["1", "2", "3", "4"]);
    assert!(queue.duplicate("2"));
    assert!(!queue.duplicate("9"));
    queue.shuffle(&mut fastrand::Rng::with_seed(7));
    let got = deliveries(&mut queue.connect(), &credit()).await;
    let mut sorted = ids(&got);
    assert_ne!(sorted, ["1", "2", "3", "4", "2"]);
    sorted.sort_unstable();
    assert_eq!(sorted, ["1", "2", "2", "3", "4"]);
}

#[tokio::test(start_paused = true)]
async fn a_log_goes_on_at_the_lowest_unfinished_record() {
    let queue = queue_of(FakeOptions::log().position_step(10), &["0", "1", "2", "3"]);
    let mut broker = queue.connect();
    let mut got = deliveries(&mut broker, &credit()).await;
    assert_eq!(got.iter().map(|d| d.inbound.position.unwrap().at).collect::<Vec<_>>(), [0, 10, 20, 30]);
    let ack = broker.ack_handle();
    assert_eq!(settle(&ack, acknowledgement(got.remove(2)).await).await, Settled::Deferred);
    assert_eq!(settle(&ack, acknowledgement(got.remove(0)).await).await, Settled::Confirmed);
    assert_eq!(queue.committed(0), Some(1));
    assert_eq!(queue.unsettled(), ["1", "2", "3"]);
    drop(broker);
    let mut again = queue.connect();
    assert_eq!(ids(&deliveries(&mut again, &credit()).await), ["1", "2", "3"]);
    assert_eq!(queue.covered(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_release_in_a_log_rewinds_after_the_acknowledgements_beside_it() {
    let queue = queue_of(FakeOptions::log(), &["0", "1", "2"]);
    let mut broker = queue.connect();
    let mut got = deliveries(&mut broker, &credit()).await;
    let (one, zero) = (got.remove(1), got.remove(0));
    let batch = vec![release(one), acknowledgement(zero).await];
    let answers = broker.ack_handle().settle(batch).await;
    assert!(answers.iter().all(|answer| matches!(answer, Ok(Settled::Confirmed))));
    assert_eq!(ids(&deliveries(&mut broker, &credit()).await), ["1", "2"]);
}

#[tokio::test(start_paused = true)]
async fn a_new_consumer_of_a_log_takes_it_over() {
    let queue = queue_of(FakeOptions::log(), &["0"]);
    let mut old = queue.connect();
    let got = deliveries(&mut old, &credit()).await.remove(0);
    let mut new = queue.connect();
    assert!(matches!(old.next(&credit()).await, Ok(Event::Lost(lost)) if lost == [partition(0)]));
    assert!(poll_once(old.next(&credit())).await.is_none());
    assert_eq!(settle(&old.ack_handle(), acknowledgement(got).await).await, Settled::Stale);
    assert_eq!(ids(&deliveries(&mut new, &credit()).await), ["0"]);
    drop(old);
    queue.publish(Publish::new("1"));
    assert_eq!(ids(&deliveries(&mut new, &credit()).await), ["1"]);
}

#[tokio::test(start_paused = true)]
async fn partitions_are_assigned_revoked_and_lost() {
    let options = FakeOptions::log().mode(Mode::Log { rebalances: true }).ack(AckStrength::Checkpoint);
    let queue = queue_of(options, &["0", "1", "2"]);
    let mut broker = queue.connect();
    assert!(broker.capabilities().rebalances && broker.capabilities().positional);
    let Ok(Event::Assigned(assignment)) = broker.next(&credit()).await else { panic!("not assigned") };
    assert_eq!(assignment.partitions(), [partition(0)]);
    assert!(poll_once(broker.next(&credit())).await.is_none(), "nothing before the answer");
    let start = HashMap::from([(partition(0), Checkpoint::new(1, 1, None))]);
    let credit = credit();
    let (got, ()) = tokio::join!(deliveries(&mut broker, &credit), async {
        tokio::task::yield_now().await;
        assignment.start_at(start);
    });
    assert_eq!(ids(&got), ["1", "2"]);
    assert_eq!(queue.unsettled(), ["1", "2"]);

    queue.revoke(&[0], Duration::from_secs(5));
    let Ok(Event::Revoked(revocation)) = broker.next(&credit).await else { panic!("not revoked") };
    let mut got = got.into_iter();
    let ack = broker.ack_handle();
    assert_eq!(settle(&ack, acknowledgement(got.next().unwrap()).await).await, Settled::Confirmed);
    drop(revocation);
    assert!(poll_once(broker.next(&credit)).await.is_none());
    assert_eq!(settle(&ack, acknowledgement(got.next().unwrap()).await).await, Settled::Stale);

    queue.assign(&[0]);
    let Ok(Event::Assigned(assignment)) = broker.next(&credit).await else { panic!("not assigned") };
    drop(assignment);
    assert_eq!(ids(&deliveries(&mut broker, &credit).await), ["2"]);
    queue.lose(&[0]);
    assert!(matches!(broker.next(&credit).await, Ok(Event::Lost(_))));
    assert!(poll_once(broker.next(&credit)).await.is_none());

    // With checkpoints alone the broker itself remembers nothing.
    let mut next = queue.connect();
    let Ok(Event::Lost(_)) = broker.next(&credit).await else { panic!("not lost") };
    let Ok(Event::Assigned(assignment)) = next.next(&credit).await else { panic!("not assigned") };
    drop(assignment);
    assert_eq!(ids(&deliveries(&mut next, &credit).await), ["0", "1", "2"]);
}

#[test]
fn capabilities_follow_the_mode() {
    let reorders = Chaos::new(fastrand::Rng::with_seed(1), 0).reorder(0.5);
    let of = |options| FakeQueue::new(options).connect().capabilities();
    assert_eq!(of(FakeOptions::queue()).order, Order::Partition);
    assert_eq!(of(FakeOptions::queue().chaos(reorders.clone())).order, Order::None);
    assert_eq!(of(FakeOptions::log().chaos(reorders)).order, Order::Partition);
    assert!(!of(FakeOptions::queue()).positional);
}
