//! Messages that take the process or the database down: handled alone, marked before, given up at last.

use inbox_core::*;
// Both crates have a `Call`; this is the counted one.
use crate::rig::{HOUR, ends, group};
use inbox_testkit::Call;
use inbox_testkit::*;
use std::{
    future::{Future, pending},
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::sync::Notify;

type Builder = RunnerBuilder<FakeBroker, Work<MemoryStore>>;

/// What a handler does beside its effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    Apply,
    /// The process dies.
    Die,
    /// The database ends all connections.
    Cut,
    Fail,
    Hang,
}

/// A queue and a database that outlive processes, and what handlers were started with.
struct Site {
    queue: FakeQueue,
    database: MemoryDatabase,
    started: Arc<Mutex<Vec<String>>>,
    /// How many handlers ran at once when each was started, itself included.
    company: Arc<Mutex<Vec<usize>>>,
    death: Arc<Notify>,
}

impl Site {
    fn with(ids: &[&str]) -> Self {
        let site = Self {
            queue: FakeQueue::new(FakeOptions::queue().redeliver_after(None)),
            database: MemoryDatabase::new(),
            started: Arc::default(),
            company: Arc::default(),
            death: Arc::default(),
        };
        ids.iter().for_each(|id| site.publish(id));
        site
    }

    fn publish(&self, id: &str) {
        let publish = Publish::new(id);
        // Those that begin with a capital have no key.
        self.queue.publish(if id.starts_with(char::is_uppercase) { publish } else { publish.key(&id[..1]) });
    }

    fn with_log(&self) -> RunnerBuilder<FakeBroker, StoreParts<MemoryStore>> {
        self.without_log().attempt_log("host-7")
    }

    fn without_log(&self) -> RunnerBuilder<FakeBroker, StoreParts<MemoryStore>> {
        self.queue.sever();
        Runner::builder("billing").broker(self.queue.connect()).store(self.database.store())
    }

    fn handling(
        &self,
        parts: RunnerBuilder<FakeBroker, StoreParts<MemoryStore>>,
        script: impl Fn(&str) -> Act + Send + Sync + 'static,
    ) -> Builder {
        let (started, company, death) =
            (Arc::clone(&self.started), Arc::clone(&self.company), Arc::clone(&self.death));
        let database = self.database.clone();
        let running = Arc::new(());
        let handler = move |message: Message, mut tx: Tx<MemoryStore>| {
            let act = script(message.id());
            started.lock().unwrap().push(message.id().to_owned());
            let (mine, death, database) = (Arc::clone(&running), Arc::clone(&death), database.clone());
            company.lock().unwrap().push(Arc::strong_count(&mine) - 1);
            async move {
                apply_effect(&mut tx, &message)?;
                // Others may begin meanwhile.
                tokio::time::sleep(Duration::from_millis(1)).await;
                match act {
                    Act::Apply => {}
                    Act::Die => {
                        death.notify_one();
                        pending::<()>().await;
                    }
                    Act::Cut => database.cut_connections(),
                    Act::Fail => return Err(Failure::message("told to fail")),
                    Act::Hang => pending().await,
                }
                drop(mine);
                Ok::<_, Failure>(())
            }
        };
        parts.handler(handler).seed(7)
    }

    /// A process of its own: its runtime is dropped when it dies, which is told by `None`.
    fn life(&self, builder: Builder) -> Option<Summary> {
        live(async {
            tokio::select! {
                biased;
                () = self.death.notified() => None,
                ended = ends(builder.build().unwrap().run()) => Some(crate::rig::balanced(ended.unwrap())),
            }
        })
    }

    /// Lives on until one comes to the end; how often the process died before, and the last summary.
    fn lives(&self, builder: impl Fn() -> Builder) -> (u32, Summary) {
        for deaths in 0..20 {
            if let Some(summary) = self.life(builder()) {
                return (deaths, summary);
            }
        }
        panic!("it dies for ever: {:?}", self.started.lock().unwrap());
    }

    fn starts(&self, id: &str) -> usize {
        self.started.lock().unwrap().iter().filter(|started| *started == id).count()
    }

    fn applied(&self) -> Vec<String> {
        let mut applied: Vec<String> = self.database.rows(EFFECTS).into_iter().map(|row| row.id).collect();
        applied.sort();
        applied
    }

    fn letters(&self) -> Vec<(String, String, u32)> {
        let letters = self.database.letters(&group()).into_iter();
        letters.map(|l| (l.claim.id.as_str().to_owned(), l.reason, l.attempts)).collect()
    }

    fn marks(&self, id: &str) -> u32 {
        let key = ClaimKey { scope: Scope::default(), id: MessageId::new(id).unwrap() };
        live(async { self.database.store().marks(&group(), &key).await.unwrap() })
    }
}

fn live<T>(life: impl Future<Output = T>) -> T {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(life)
}

fn if_bad(act: Act) -> impl Fn(&str) -> Act + Send + Sync + Clone + 'static {
    move |id| if id.ends_with("bad") { act } else { Act::Apply }
}

#[test]
fn a_message_that_kills_the_process_ends_as_one_letter_and_only_it() {
    for lanes in [1, 4] {
        let site = Site::with(&["a1", "N1", "b1", "b-bad", "b2", "N2", "c1"]);
        let (deaths, summary) = site.lives(|| {
            let parts = site.with_log();
            site.handling(parts, if_bad(Act::Die)).lanes(lanes)
        });
        // Once in company, and then as often as a suspect is started.
        assert_eq!((deaths, site.starts("b-bad")), (4, 4), "{lanes} lanes");
        assert_eq!(site.letters(), [("b-bad".to_owned(), "suspect".to_owned(), 3)]);
        assert_eq!(site.applied(), ["N1", "N2", "a1", "b1", "b2", "c1"]);
        assert_eq!(site.database.counter(COUNTER), 6);
        assert_eq!(summary.dead_letters, 1);
        assert_eq!(site.marks("b-bad"), 0, "the letter takes the marks with it");
    }
}

#[test]
fn the_bound_on_starts_is_the_policys() {
    let site = Site::with(&["a-bad", "a1"]);
    let policy = RetryPolicy::default().starts_max(1);
    let (deaths, _) = site.lives(|| {
        let parts = site.with_log();
        site.handling(parts, if_bad(Act::Die)).retry(policy.clone())
    });
    assert_eq!((deaths, site.starts("a-bad")), (2, 2));
    assert_eq!(site.letters().len(), 1);
}

#[test]
fn a_message_that_kills_the_connection_ends_as_one_letter_and_only_it() {
    let site = Site::with(&["a1", "a-bad", "a2", "N-bad", "N1"]);
    let parts = site.with_log();
    let summary = site.life(site.handling(parts, if_bad(Act::Cut))).unwrap();
    let mut letters = site.letters();
    letters.sort();
    let letter = |id: &str| (id.to_owned(), "suspect".to_owned(), 3);
    assert_eq!(letters, [letter("N-bad"), letter("a-bad")]);
    assert_eq!(site.applied(), ["N1", "a1", "a2"]);
    assert_eq!(summary.failed_attempts, 0, "nobody is charged");
}

#[test]
fn without_a_log_nothing_is_given_up_and_the_others_flow() {
    let site = Site::with(&["N-bad", "a1", "N1", "b1"]);
    live(async {
        let parts = site.without_log();
        let builder = site.handling(parts, if_bad(Act::Cut));
        let (stop, run) = {
            let runner = builder.build().unwrap();
            let control = runner.control();
            (control, tokio::spawn(runner.run()))
        };
        tokio::time::sleep(HOUR).await;
        assert_eq!(site.applied(), ["N1", "a1", "b1"]);
        assert!(site.letters().is_empty());
        assert_eq!(site.queue.unsettled(), ["N-bad"]);
        assert!(site.starts("N-bad") > 10, "it is tried for ever");
        stop.shutdown(None);
        ends(run).await.unwrap().unwrap();
    });
}

#[test]
fn after_an_unclean_stop_the_first_deliveries_are_handled_alone() {
    let ids: Vec<String> = (10..30).map(|n| format!("N{n}")).collect();
    let site = Site::with(&ids.iter().map(String::as_str).collect::<Vec<_>>());
    let builder = |act| {
        let parts = site.with_log();
        site.handling(parts, move |id| if id == "N10" { act } else { Act::Apply })
            .lanes(4)
            .batch_max(1)
            .in_flight_max(4)
    };
    assert!(site.life(builder(Act::Die)).is_none());
    let before = site.company.lock().unwrap().len();
    let summary = site.life(builder(Act::Apply)).unwrap();
    assert_eq!(site.applied(), ids);
    assert_eq!(summary.suspects, 4);
    let company = site.company.lock().unwrap()[before..].to_vec();
    let alone = company.iter().take_while(|&&company| company == 1).count();
    assert!(alone >= 4 && company[alone..].iter().any(|&company| company > 1), "{company:?}");
    assert!(ids.iter().all(|id| site.marks(id) == 0), "no marks are left");
    // And the end was clean.
    site.publish("N30");
    assert_eq!(site.life(builder(Act::Apply)).unwrap().suspects, 0);
}

#[test]
fn an_early_stop_does_not_forget_an_unclean_one() {
    let site = Site::with(&["a-bad"]);
    let builder = |act| {
        let parts = site.with_log();
        site.handling(parts, if_bad(act))
    };
    assert!(site.life(builder(Act::Die)).is_none());
    // Ended in good order, before anything has come.
    live(async {
        let runner = builder(Act::Apply).build().unwrap();
        ends(runner.run_until(std::future::ready(()))).await.unwrap();
    });
    assert_eq!(site.life(builder(Act::Apply)).unwrap().suspects, 1);
    assert_eq!(site.applied(), ["a-bad"]);
}

#[test]
fn a_failure_acquits() {
    let site = Site::with(&["a-bad", "a1"]);
    let builder = |act| {
        let parts = site.with_log();
        site.handling(parts, if_bad(act))
    };
    assert!(site.life(builder(Act::Die)).is_none());
    assert!(site.life(builder(Act::Die)).is_none());
    assert_eq!(site.marks("a-bad"), 1);
    // The process outlives it: its five attempts are counted, and no marks any more.
    site.life(builder(Act::Fail)).unwrap();
    assert_eq!(site.marks("a-bad"), 0);
    assert_eq!(site.letters(), [("a-bad".to_owned(), "failed".to_owned(), 5)]);
    assert_eq!(site.applied(), ["a1"]);
}

/// Before anything else comes of it: a process that dies while it waits for its retry has not died of it.
#[test]
fn a_failure_acquits_at_once() {
    let site = Site::with(&["a-bad"]);
    for _ in 0..2 {
        assert!(site.life(site.handling(site.with_log(), if_bad(Act::Die))).is_none());
    }
    assert_eq!(site.marks("a-bad"), 1);
    live(async {
        let policy = RetryPolicy::default().backoff(Backoff::new(HOUR, HOUR));
        let runner = site.handling(site.with_log(), if_bad(Act::Fail)).retry(policy).build().unwrap();
        let counters = runner.counters();
        let run = tokio::spawn(runner.run());
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!((counters.read().failed_attempts, site.letters().len()), (1, 0));
        run.abort();
    });
    assert_eq!(site.marks("a-bad"), 0);
}

#[test]
fn without_suspects_the_log_is_not_asked() {
    let site = Site::with(&["a1", "b1"]);
    let plan = CrashPlan::of([]);
    live(async {
        let runner = Runner::builder("billing")
            .broker(site.queue.connect())
            .store(CrashStore::new(site.database.store(), &plan))
            .attempt_log("host-7")
            .handler(|_: Message, _: Tx<CrashStore<MemoryStore>>| async { Ok::<_, Failure>(()) })
            .build()
            .unwrap();
        assert_eq!(ends(runner.run()).await.unwrap().applied, 2);
    });
    let of_the_log = [Call::OpenRun, Call::CloseRun, Call::Marks, Call::MarkStart, Call::ClearMarks];
    let calls: Vec<Call> = plan.passages().into_iter().filter(|call| of_the_log.contains(call)).collect();
    assert_eq!(calls, [Call::OpenRun, Call::CloseRun]);
}

#[test]
fn a_shutdown_under_a_suspect_is_not_held_against_it() {
    let site = Site::with(&["a-bad"]);
    let builder = |act| {
        let parts = site.with_log();
        site.handling(parts, if_bad(act)).handler_timeout(HOUR)
    };
    assert!(site.life(builder(Act::Die)).is_none());
    for _ in 0..5 {
        live(async {
            let runner = builder(Act::Hang).build().unwrap();
            let stop = tokio::time::sleep(Duration::from_secs(60));
            ends(runner.run_until(stop)).await.unwrap();
        });
        assert_eq!(site.marks("a-bad"), 0);
    }
    site.life(builder(Act::Apply)).unwrap();
    assert_eq!((site.applied(), site.letters().len()), (vec!["a-bad".to_owned()], 0));
}

#[test]
fn an_outage_before_the_start_is_not_held_against_a_suspect() {
    let site = Site::with(&["a-bad", "a1"]);
    let builder = |act| {
        let parts = site.with_log();
        site.handling(parts, if_bad(act))
    };
    assert!(site.life(builder(Act::Die)).is_none());
    // The store goes away before the suspect is handled, for an hour.
    live(async {
        let runner = builder(Act::Apply).build().unwrap();
        let counters = runner.counters();
        let run = tokio::spawn(runner.run());
        while counters.read().received == 0 {
            tokio::time::sleep(Duration::from_nanos(1)).await;
        }
        site.database.set_available(false);
        tokio::time::sleep(HOUR).await;
        assert!(counters.read().outages > 10);
        site.database.set_available(true);
        ends(run).await.unwrap().unwrap();
    });
    assert_eq!(site.applied(), ["a-bad", "a1"]);
    assert!(site.letters().is_empty());
}

#[test]
fn a_mark_whose_start_was_not_made_is_used_by_the_next_one() {
    let site = Site::with(&["a-bad"]);
    assert!(site.life(site.handling(site.with_log(), if_bad(Act::Die))).is_none());
    // Opened, marks read, marked; then no transaction can be opened six times.
    let plan = CrashPlan::of((3..9).map(|at| (at, Reaction::Refuse)));
    live(async {
        site.queue.sever();
        let runner = Runner::builder("billing")
            .broker(site.queue.connect())
            .store(CrashStore::new(site.database.store(), &plan))
            .attempt_log("host-7")
            .handler(|message: Message, mut tx: Tx<CrashStore<MemoryStore>>| async move {
                apply_effect(&mut tx, &message)?;
                Ok::<_, Failure>(())
            })
            .seed(7)
            .build()
            .unwrap();
        ends(runner.run()).await.unwrap();
    });
    let calls = plan.passages();
    let count = |call| calls.iter().filter(|&&passed| passed == call).count();
    assert_eq!((count(Call::MarkStart), count(Call::Begin)), (1, 7), "{calls:?}");
    assert_eq!((site.applied(), site.letters().len()), (vec!["a-bad".to_owned()], 0));
}

#[test]
fn with_the_policy_to_halt_a_killer_is_not_given_up() {
    let site = Site::with(&["a-bad", "a1"]);
    let policy = RetryPolicy::default().exhausted(Exhausted::Halt);
    let builder = |act| {
        let parts = site.with_log();
        site.handling(parts, if_bad(act)).retry(policy.clone())
    };
    for _ in 0..4 {
        assert!(site.life(builder(Act::Die)).is_none());
    }
    let halted = live(async { ends(builder(Act::Die).build().unwrap().run()).await.unwrap_err() });
    assert!(
        matches!(&halted, RunError::Halted { id, attempts: 3, .. } if id.id.as_str() == "a-bad"),
        "{halted}"
    );
    assert!(site.letters().is_empty());
    assert!(!site.queue.unsettled().is_empty());
}

#[test]
fn strategies_that_acknowledge_first_refuse_an_attempt_log() {
    let queue = FakeQueue::new(FakeOptions::queue().ack(AckStrength::Confirmed));
    let error = Runner::builder("billing")
        .strategy(Strategy::AtMostOnce)
        .broker(queue.connect())
        .store(MemoryDatabase::new().store())
        .attempt_log("")
        .handler(|_: Message, _: Tx<MemoryStore>| async { Ok::<_, Failure>(()) })
        .build()
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "strategy at most once: a message is acknowledged before it is handled, so an attempt log has nothing \
         to tell; leave `.attempt_log()` out"
    );
}
