//! The whole kit at work: every single fault of a small run, and planted faults that must be seen.

use crate::common::*;
use inbox_core::{Ack, Broker, Letters};
use inbox_testkit::*;

fn publish_all(queue: &FakeQueue) {
    queue.publish(Publish::new("a1").key("a"));
    queue.publish(Publish::new("b1").key("b"));
    queue.publish(Publish::new("a1").key("a"));
    queue.publish(Publish::new("a2").key("a").payload("poison"));
    queue.publish(Publish::new("b1").key("b").payload("other content"));
    queue.publish(Publish::new("a3").key("a"));
}

fn expected() -> Expected {
    Expected::new()
        .applied("a1", Some("a"))
        .applied("b1", Some("b"))
        .dead("a2", Some("a"))
        .applied("a3", Some("a"))
        .conflict("b1", content("other content"))
}

/// Lives through `plan` and then, if that crashed, through a second life without faults.
fn run<S: Letters<Tx = MemoryTx>>(
    options: &FakeOptions,
    plan: CrashPlan,
    spoil: impl Fn(MemoryStore) -> S,
) -> (Vec<Violation>, CrashPlan, String) {
    let (queue, database) = (FakeQueue::new(options.clone()), MemoryDatabase::new());
    publish_all(&queue);
    let history = History::new(database.witness(&group()));
    let plan = plan.recorded(&history);
    let life = |plan: &CrashPlan| {
        let broker = CrashBroker::new(RecordingBroker::fake(queue.connect(), &history), plan);
        let store = CrashStore::new(spoil(database.store()), plan);
        let rig = Rig { history: &history, plan, group: group() };
        live(plan, rig.consume(broker, store)).unwrap()
    };
    match life(&plan) {
        Life::Ended(()) => {}
        Life::Crashed => assert_eq!(life(&CrashPlan::dry().recorded(&history)), Life::Ended(())),
        Life::Stuck => panic!("{}", history.render("stuck")),
    }
    let state = FinalState::of(&database, &group()).and_queue(&queue);
    let violations = Oracle::violations(&history.entries(), &expected(), &state);
    assert_eq!(database.open_transactions(), 0);
    (violations, plan, history.render("run"))
}

fn enumerate(options: &FakeOptions) -> usize {
    let (violations, dry, history) = run(options, CrashPlan::dry(), |store| store);
    assert_eq!(violations, [], "{history}");
    let all = schedules(&dry.passages());
    for &schedule in &all {
        let (violations, plan, history) =
            run(options, CrashPlan::at(schedule.at, schedule.reaction), |store| store);
        assert_eq!(plan.fired(), [schedule]);
        assert_eq!(violations, [], "{schedule}\n{history}");
    }
    all.len()
}

#[test]
fn every_single_fault_of_a_queue_is_survived() {
    assert_eq!(enumerate(&FakeOptions::queue()), 147);
}

#[test]
fn every_single_fault_of_a_log_is_survived() {
    assert_eq!(enumerate(&FakeOptions::log()), 147);
}

#[test]
fn every_single_fault_is_survived_with_deliveries_one_by_one() {
    assert_eq!(enumerate(&FakeOptions::queue().deliveries_max(1)), 162);
}

#[test]
fn seeded_chaos_is_survived_and_the_same_every_time() {
    let mut redelivered = 0;
    for seed in 0..200 {
        for options in [FakeOptions::queue(), FakeOptions::log()] {
            let chaos = Chaos::new(fastrand::Rng::with_seed(seed), 10);
            let options = options.deliveries_max(2).chaos(chaos);
            let (violations, _, history) = run(&options, CrashPlan::dry(), |store| store);
            assert_eq!(violations, [], "seed {seed}\n{history}");
            assert_eq!(history, run(&options, CrashPlan::dry(), |store| store).2, "seed {seed}");
            redelivered += usize::from(history.matches("Delivered").count() > 6);
        }
    }
    assert!(redelivered > 200, "chaos touched only {redelivered} of 400 runs");
}

/// The guarantees that some schedule of a spoilt run breaks.
fn broken<S: Letters<Tx = MemoryTx>>(spoil: impl Fn(MemoryStore) -> S + Copy) -> Vec<Guarantee> {
    let options = FakeOptions::queue();
    let (violations, dry, _) = run(&options, CrashPlan::dry(), spoil);
    let mut broken: Vec<Guarantee> = violations.into_iter().map(|v| v.guarantee).collect();
    for schedule in schedules(&dry.passages()).into_iter().filter(|s| s.reaction.is_crash()) {
        let plan = CrashPlan::at(schedule.at, schedule.reaction);
        broken.extend(run(&options, plan, spoil).0.into_iter().map(|v| v.guarantee));
    }
    broken.sort_unstable();
    broken.dedup();
    broken
}

/// A claim that is committed alone: the crash in between leaves it without its effect.
#[test]
fn a_claim_elsewhere_is_seen() {
    let (queue, database) = (FakeQueue::new(FakeOptions::queue()), MemoryDatabase::new());
    queue.publish(Publish::new("a1").key("a"));
    let history = History::new(database.witness(&group()));
    for plan in [CrashPlan::at(3, Reaction::CrashBefore), CrashPlan::dry()] {
        let broker = CrashBroker::new(RecordingBroker::fake(queue.connect(), &history), &plan);
        let store = CrashStore::new(ClaimElsewhere::new(database.store()), &plan);
        let rig = Rig { history: &history, plan: &plan, group: group() };
        live(&plan, rig.consume(broker, store)).unwrap();
        assert!(plan.passages().len() >= 3);
    }
    let state = FinalState::of(&database, &group()).and_queue(&queue);
    let expected = Expected::new().applied("a1", Some("a"));
    let violations = Oracle::violations(&history.entries(), &expected, &state);
    let alone = Violation::new(Guarantee::G6, "claims without an effect: [\"a1\"]");
    assert!(violations.contains(&alone), "{violations:?}");
}

/// A log that commits the highest acknowledged position loses what is unfinished below it.
#[test]
fn a_planted_highest_position_is_seen() {
    let options = FakeOptions::log().cumulative(Cumulative::PlantedHighest);
    let queue = FakeQueue::new(options);
    queue.publish(Publish::new("a1"));
    queue.publish(Publish::new("a2"));
    live(&CrashPlan::dry(), async {
        let mut broker = queue.connect();
        let later = deliveries(&mut broker, &credit()).await.remove(1);
        broker.ack_handle().settle(vec![acknowledgement(later).await]).await;
    })
    .unwrap();
    let state = FinalState::of(&MemoryDatabase::new(), &group()).and_queue(&queue);
    let violation = nothing_covered(&[], &Expected::new(), &state).unwrap_err();
    assert_eq!(violation, Violation::new(Guarantee::G7, "acknowledgements of others covered [\"a1\"]"));
}

#[test]
fn planted_stores_are_seen() {
    let lies = broken(|store| LyingCommit::new(store, Late::AtNextBegin));
    assert!(lies.contains(&Guarantee::G2) && lies.contains(&Guarantee::G1), "{lies:?}");
    assert!(broken(|store| LyingCommit::new(store, Late::Never)).contains(&Guarantee::G2));
    let forgets = broken(TwistedClaims::forgetful);
    assert!(forgets.contains(&Guarantee::G1) && forgets.contains(&Guarantee::G3), "{forgets:?}");
    assert!(broken(TwistedClaims::silent_conflicts).contains(&Guarantee::G5));
}
