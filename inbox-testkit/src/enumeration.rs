//! Every single fault of a small run through the real runner, over any store.

use crate::{
    CrashBroker, CrashPlan, CrashStore, Expected, FakeOptions, FakeQueue, FinalState, History, Life, Oracle,
    Publish, RecordingBroker, Schedule, Violation, Witness, live, schedules,
};
use inbox_core::{
    Checkpoints, Failure, Fingerprint, Group, InboxStore, Letters, Message, RetryPolicy, RunError, Runner,
    Summary, Tx,
};
use std::ops::Deref;

/// What a handler is lent by `W`'s store, as the driver's connection.
pub type ConnectionOf<W> = <<<W as World>::Store as InboxStore>::Tx as Deref>::Target;

/// A database that outlives the lives of a process, and how to look into it from outside.
pub trait World: Send + Sync + 'static {
    /// The store under test.
    type Store: Letters + Checkpoints;

    /// A new handle on the same database, as a process makes it when it starts.
    fn open(&self) -> Self::Store;

    /// Looks at what is committed, not through the store under test.
    fn witness(&self, group: &Group) -> Witness;

    /// Everything that is committed at the end.
    fn state(&self, group: &Group) -> FinalState;

    /// The effect under test: a row in a table without a key, and a counter raised by one.
    ///
    /// # Errors
    /// The driver's.
    fn apply(connection: &mut ConnectionOf<Self>, message: &Message) -> Result<(), Failure>
    where
        Self: Sized;
}

/// The payload whose handler always fails, behind a half done effect.
pub const POISON: &str = "poison";

/// A small run, to be lived through with every single fault.
#[derive(Debug, Clone)]
pub struct Enumeration {
    /// The broker.
    pub broker: FakeOptions,
    /// How many messages one transaction takes at most.
    pub batch_max: usize,
    /// Whether the position of the source is kept in the store, too.
    pub with_checkpoints: bool,
    /// What is published, in this order.
    pub input: Vec<Publish>,
    /// What has to come out.
    pub expected: Expected,
}

/// What came out of one schedule.
#[derive(Debug)]
pub struct Outcome {
    /// What the oracle found.
    pub violations: Vec<Violation>,
    /// The plan of the first life, with the calls it saw.
    pub plan: CrashPlan,
    /// The recorded history, to be read.
    pub history: String,
}

impl Enumeration {
    /// Six deliveries with a duplicate, a conflict and a message that always fails, between two keys.
    pub fn of_everything(broker: FakeOptions, batch_max: usize) -> Self {
        let other = "other content";
        Self {
            broker,
            batch_max,
            with_checkpoints: false,
            input: vec![
                Publish::new("a1").key("a"),
                Publish::new("b1").key("b"),
                Publish::new("a1").key("a"),
                Publish::new("a2").key("a").payload(POISON),
                Publish::new("b1").key("b").payload(other),
                Publish::new("a3").key("a"),
            ],
            expected: Expected::new()
                .applied("a1", Some("a"))
                .applied("b1", Some("b"))
                .dead("a2", Some("a"))
                .applied("a3", Some("a"))
                .conflict("b1", Fingerprint::of_payload(Some(other.as_bytes()))),
        }
    }

    /// Four messages and a duplicate, nothing that fails.
    pub fn of_good_messages(broker: FakeOptions, batch_max: usize) -> Self {
        let good = |id: &str, key: &str| Publish::new(id).key(key);
        Self {
            broker,
            batch_max,
            with_checkpoints: false,
            input: vec![good("a1", "a"), good("b1", "b"), good("a1", "a"), good("a2", "a"), good("b2", "b")],
            expected: Expected::new()
                .applied("a1", Some("a"))
                .applied("b1", Some("b"))
                .applied("a2", Some("a"))
                .applied("b2", Some("b")),
        }
    }

    /// The same with checkpoints.
    #[must_use]
    pub fn with_checkpoints(self) -> Self {
        Self { with_checkpoints: true, ..self }
    }

    /// Lives through `plan`, and, if that crashed, through a second life without faults.
    ///
    /// # Panics
    /// When a life does not end, or the runner ends with an error.
    pub fn live_through<W: World>(&self, world: &W, plan: CrashPlan) -> Outcome {
        let group = Group::new("billing").unwrap_or_else(|error| panic!("the group: {error}"));
        let queue = FakeQueue::new(self.broker.clone());
        for message in &self.input {
            queue.publish(message.clone());
        }
        let history = History::new(world.witness(&group));
        let plan = plan.recorded(&history);
        match self.one_life(world, &queue, &history, &plan) {
            Life::Ended(Ok(_)) => {}
            Life::Ended(Err(error)) => panic!("{}", history.render(&format!("the run ended with: {error}"))),
            Life::Stuck => panic!("{}", history.render("the run is stuck")),
            Life::Crashed => {
                match self.one_life(world, &queue, &history, &CrashPlan::dry().recorded(&history)) {
                    Life::Ended(Ok(_)) => {}
                    other => panic!("{}", history.render(&format!("the second life: {other:?}"))),
                }
            }
        }
        let state = world.state(&group).and_queue(&queue);
        let violations = Oracle::violations(&history.entries(), &self.expected, &state);
        Outcome { violations, plan, history: history.render("run") }
    }

    fn one_life<W: World>(
        &self,
        world: &W,
        queue: &FakeQueue,
        history: &History,
        plan: &CrashPlan,
    ) -> Life<Result<Summary, RunError>> {
        let broker = CrashBroker::new(RecordingBroker::fake(queue.connect(), history), plan);
        let store = CrashStore::new(world.open(), plan);
        let (batch_max, with_checkpoints) = (self.batch_max, self.with_checkpoints);
        let (for_handler, history, plan_of_handler) = (plan.clone(), history.clone(), plan);
        let run = async move {
            let handler = move |message: Message, mut tx: Tx<CrashStore<W::Store>>| {
                let (plan, history) = (for_handler.clone(), history.clone());
                async move {
                    history.handler_started(message.id(), message.fingerprint());
                    // The effect comes first, so that every failure leaves something to be taken away.
                    let outcome = match W::apply(&mut tx, &message) {
                        Ok(()) => plan.handler_point(message.id()).await.map_err(Failure::from),
                        Err(failure) => Err(failure),
                    };
                    let outcome = outcome.and_then(|()| match message.payload() {
                        Some(payload) if &payload[..] == POISON.as_bytes() => Err(Failure::message(POISON)),
                        _ => Ok(()),
                    });
                    history.handler_ended(message.id(), outcome.is_ok());
                    outcome
                }
            };
            let builder = Runner::builder("billing").broker(broker).store(store);
            let builder = if with_checkpoints { builder.checkpoints() } else { builder };
            builder
                .handler(handler)
                .batch_max(batch_max)
                .retry(RetryPolicy::default().attempts_max(2))
                .seed(1)
                .build()
                .unwrap_or_else(|error| panic!("building the runner: {error}"))
                .run()
                .await
        };
        live(plan_of_handler, run).unwrap_or_else(|error| panic!("starting a runtime: {error}"))
    }

    /// Lives through every single fault of the run, each in a new world, and gives their number.
    ///
    /// # Panics
    /// With the schedule and its history when the oracle finds anything.
    pub fn every_single_fault<W: World>(&self, new_world: impl Fn() -> W) -> usize {
        let dry = self.live_through(&new_world(), CrashPlan::dry());
        assert_eq!(dry.violations, [], "without a fault\n{}", dry.history);
        let all = schedules(&dry.plan.passages());
        for &schedule in &all {
            let Outcome { violations, plan, history } = self.schedule(&new_world(), schedule);
            assert_eq!(plan.fired(), [schedule], "{history}");
            assert_eq!(violations, [], "{schedule}\n{history}");
        }
        all.len()
    }

    /// What the oracle finds in any schedule of the run; for planted faults, which it has to find.
    pub fn violations_anywhere<W: World>(&self, new_world: impl Fn() -> W) -> Vec<Violation> {
        let dry = self.live_through(&new_world(), CrashPlan::dry());
        let mut violations = dry.violations;
        for schedule in schedules(&dry.plan.passages()).into_iter().filter(|s| s.reaction.is_crash()) {
            violations.extend(self.schedule(&new_world(), schedule).violations);
        }
        violations
    }

    fn schedule<W: World>(&self, world: &W, schedule: Schedule) -> Outcome {
        self.live_through(world, CrashPlan::at(schedule.at, schedule.reaction))
    }
}
