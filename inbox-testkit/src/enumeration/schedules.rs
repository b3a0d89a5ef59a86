//! Living through schedules of faults, and judging what comes out.

use super::{Enumeration, World, life::group};
use crate::{CrashPlan, FakeQueue, History, Life, Oracle, Reaction, Schedule, Violation, schedules};

/// What came out of one schedule.
#[derive(Debug)]
pub struct Outcome {
    /// What the oracle found.
    pub violations: Vec<Violation>,
    /// Why the run did not come to its end, if it did not.
    pub failure: Option<String>,
    /// The plan of each life, with the calls it saw.
    pub lives: Vec<CrashPlan>,
    /// The recorded history.
    pub history: History,
}

impl Outcome {
    /// Everything that is wrong.
    pub fn wrong(&self) -> Option<String> {
        let violation = self.violations.first().map(ToString::to_string);
        violation.or_else(|| self.failure.clone())
    }

    fn passages(&self, life: usize) -> Vec<crate::Call> {
        self.lives.get(life).map(CrashPlan::passages).unwrap_or_default()
    }

    /// # Panics
    /// When anything is wrong.
    fn must_be_right(&self, run: &Enumeration, about: &str) {
        if let Some(wrong) = self.wrong() {
            panic!("{run}: {about}: {wrong}\n{}", self.history.render("run"));
        }
    }
}

/// A fault of the runner that was seen.
#[derive(Debug, Clone)]
pub struct Caught {
    /// In which run.
    pub run: String,
    /// With which fault; `none` without any.
    pub schedule: String,
    /// What was wrong.
    pub wrong: String,
}

impl Enumeration {
    /// Lives through one plan after the other, as long as they crash, and then through a life without
    /// faults.
    pub fn live_through<W: World>(&self, world: &W, plans: impl IntoIterator<Item = CrashPlan>) -> Outcome {
        let queue = FakeQueue::new(self.broker.clone());
        for message in &self.input {
            queue.publish(message.clone());
        }
        let history = History::new(world.witness(&group()));
        let mut plans = plans.into_iter();
        let mut lives: Vec<CrashPlan> = Vec::new();
        let failure = loop {
            let plan = plans.next().unwrap_or_else(CrashPlan::dry).recorded(&history);
            lives.push(plan.clone());
            match self.one_life(world, &queue, &history, &plan) {
                Life::Crashed => {}
                Life::Ended(Ok(_)) => break None,
                Life::Ended(Err(error)) => break Some(format!("the run ended with: {error}")),
                Life::Stuck => break Some("the run is stuck".to_owned()),
            }
        };
        let state = world.state(&group()).and_queue(&queue);
        let expected = self.expected.clone().under(self.strategy);
        // Two faults can use both attempts of a message up; at most once it has only one.
        let failed = history.count_refused_handlers();
        let attempts = if self.strategy == inbox_core::Strategy::AtMostOnce { 1 } else { 2 };
        let expected = if failed >= attempts { expected.or_dead() } else { expected };
        let violations = Oracle::violations(&history.entries(), &expected, &state);
        Outcome { violations, failure, lives, history }
    }

    /// Lives through every single fault of the run, each in a new world, and gives their number.
    ///
    /// # Panics
    /// With the schedule and its history when the oracle finds anything.
    pub fn every_single_fault<W: World>(&self, new_world: impl Fn() -> W) -> usize {
        let all = self.first_faults(&new_world);
        for &first in &all {
            self.must_survive(&new_world(), &[first]);
        }
        all.len()
    }

    /// Lives through every ordered pair of faults of the run, each in a new world, and gives their number.
    /// After a crash the second fault hits the next life; otherwise it hits the same life, later.
    /// Only those pairs whose faults are both `chosen`.
    ///
    /// # Panics
    /// With the schedule and its history when the oracle finds anything.
    pub fn every_pair<W: World>(
        &self,
        new_world: impl Fn() -> W,
        chosen: impl Fn(Reaction) -> bool,
    ) -> usize {
        let mut pairs = 0;
        for first in self.first_faults(&new_world).into_iter().filter(|first| chosen(first.reaction)) {
            let alone = self.must_survive(&new_world(), &[first]);
            let life = usize::from(first.reaction.is_crash());
            let later = schedules(&alone.passages(life)).into_iter();
            let later = later.filter(|second| life == 1 || second.at > first.at);
            for second in later.filter(|second| chosen(second.reaction)) {
                self.must_survive(&new_world(), &[first, second]);
                pairs += 1;
            }
        }
        pairs
    }

    /// The first schedule in which something is wrong: without a fault, with a single one.
    /// For planted faults of the runner, which have to be seen.
    pub fn first_wrong<W: World>(&self, new_world: impl Fn() -> W) -> Option<Caught> {
        let caught = |schedule: String, outcome: &Outcome| {
            outcome.wrong().map(|wrong| Caught { run: self.to_string(), schedule, wrong })
        };
        let dry = self.live_through(&new_world(), []);
        let all = schedules(&dry.passages(0));
        caught("none".to_owned(), &dry).or_else(|| {
            all.into_iter().find_map(|first| {
                caught(first.to_string(), &self.live_through(&new_world(), self.plans(&[first])))
            })
        })
    }

    /// What the oracle finds in any schedule of the run; for planted faults, which it has to find.
    pub fn violations_anywhere<W: World>(&self, new_world: impl Fn() -> W) -> Vec<Violation> {
        let dry = self.live_through(&new_world(), []);
        let all = schedules(&dry.passages(0));
        let mut violations = dry.violations;
        for schedule in all.into_iter().filter(|s| s.reaction.is_crash()) {
            let outcome = self.live_through(&new_world(), self.plans(&[schedule]));
            violations.extend(outcome.violations);
        }
        violations
    }

    /// Every single fault, found by a run without any.
    fn first_faults<W: World>(&self, new_world: impl Fn() -> W) -> Vec<Schedule> {
        let dry = self.live_through(&new_world(), []);
        dry.must_be_right(self, "without a fault");
        schedules(&dry.passages(0))
    }

    /// Faults by life: a crash ends one.
    fn plans(&self, faults: &[Schedule]) -> Vec<CrashPlan> {
        let lives = faults.split_inclusive(|fault| fault.reaction.is_crash());
        lives.map(|life| CrashPlan::of(life.iter().map(|fault| (fault.at, fault.reaction)))).collect()
    }

    fn must_survive<W: World>(&self, world: &W, faults: &[Schedule]) -> Outcome {
        let outcome = self.live_through(world, self.plans(faults));
        let about = || faults.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let fired: Vec<Schedule> = outcome.lives.iter().flat_map(CrashPlan::fired).collect();
        assert_eq!(fired, faults, "{self}: {}\n{}", about(), outcome.history.render("run"));
        if outcome.wrong().is_some() {
            outcome.must_be_right(self, &about());
        }
        outcome
    }
}
