//! A runner over a fake queue and the reference store, with a handler that does as it is told.
// Every test program has its own copy and uses a part of it.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

mod store;

use inbox_core::*;
use inbox_testkit::*;
use std::{
    future::Future,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::sync::{Semaphore, oneshot};

pub use store::{HookedStore, Hooks};

pub const HOUR: Duration = Duration::from_secs(3600);

pub type Builder = RunnerBuilder<FakeBroker, Work<HookedStore>>;
pub type Run = tokio::task::JoinHandle<Result<Summary, RunError>>;

/// What the handler does with a message, behind an effect that a rollback has to take away.
#[derive(Debug, Clone)]
pub enum Act {
    Apply,
    Fail,
    FailFor(Duration),
    Permanent,
    PanicAtOnce,
    PanicInFuture,
    PanicLater,
    Hang,
    Wait(Gate),
    WaitAndFail(Gate),
    FailCommit,
    Abort,
    Leak(Leaked),
}

/// Where a handler hides the transaction it should have let go.
pub type Leaked = Arc<Mutex<Option<Tx<HookedStore>>>>;

/// A signal that stays on once it is given.
#[derive(Debug, Clone)]
pub struct Gate {
    open: Arc<Semaphore>,
    reached: Arc<Semaphore>,
}

impl Gate {
    pub fn new() -> Self {
        Self { open: Arc::new(Semaphore::new(0)), reached: Arc::new(Semaphore::new(0)) }
    }

    pub fn open(&self) {
        self.open.add_permits(1 << 20);
    }

    pub async fn pass(&self) {
        self.reached.add_permits(1);
        self.open.acquire().await.unwrap().forget();
    }

    /// Until somebody stands before it, or has passed.
    pub async fn reached(&self) {
        ends(async { self.reached.acquire().await.unwrap().forget() }).await;
    }
}

pub struct Rig {
    pub queue: FakeQueue,
    pub database: MemoryDatabase,
    pub hooks: Hooks,
    seen: Arc<Mutex<Vec<(String, u32)>>>,
}

pub fn group() -> Group {
    Group::new("billing").unwrap()
}

/// Ends a test that would wait for ever: virtual time runs as soon as nothing else does.
pub async fn ends<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(HOUR * 24 * 365, future).await.expect("it waits for ever")
}

/// Every delivery is counted once.
pub fn balanced(summary: Summary) -> Summary {
    let Summary { applied, duplicates, conflicts, dead_letters, released, received, .. } = summary;
    assert_eq!(received, applied + duplicates + conflicts + dead_letters + released, "{summary:?}");
    summary
}

impl Rig {
    pub fn new(options: FakeOptions) -> Self {
        Self {
            queue: FakeQueue::new(options),
            database: MemoryDatabase::new(),
            hooks: Hooks::default(),
            seen: Arc::default(),
        }
    }

    /// A queue that holds messages with these ids, whose key is the letter they begin with.
    pub fn with(ids: &[&str]) -> Self {
        let rig = Self::new(FakeOptions::queue().redeliver_after(None));
        ids.iter().for_each(|id| rig.publish(id));
        rig
    }

    pub fn publish(&self, id: &str) {
        self.queue.publish(Publish::new(id).key(&id[..1]));
    }

    pub fn store(&self) -> HookedStore {
        HookedStore::new(self.database.store(), &self.hooks)
    }

    pub fn handler(
        &self,
        script: impl Fn(&str, u32) -> Act + Send + Sync + 'static,
    ) -> impl Fn(Message, Attempt, Tx<HookedStore>) -> futures::Boxed + Send + Sync + 'static {
        let seen = Arc::clone(&self.seen);
        move |message, Attempt(attempt), tx| {
            seen.lock().unwrap().push((message.id().to_owned(), attempt));
            let act = script(message.id(), attempt);
            assert!(!matches!(act, Act::PanicAtOnce), "at once");
            Box::pin(perform(act, message, tx))
        }
    }

    pub fn builder(&self, script: impl Fn(&str, u32) -> Act + Send + Sync + 'static) -> Builder {
        Runner::builder("billing")
            .broker(self.queue.connect())
            .store(self.store())
            .handler(self.handler(script))
            .seed(7)
    }

    pub fn with_checkpoints(&self, script: impl Fn(&str, u32) -> Act + Send + Sync + 'static) -> Builder {
        Runner::builder("billing")
            .broker(self.queue.connect())
            .store(self.store())
            .checkpoints()
            .handler(self.handler(script))
            .seed(7)
    }

    /// Ids in the order in which their effects were committed.
    pub fn applied(&self) -> Vec<String> {
        self.database.rows(EFFECTS).into_iter().map(|row| row.id).collect()
    }

    pub fn applied_of(&self, key: &str) -> Vec<String> {
        self.applied().into_iter().filter(|id| id.starts_with(key)).collect()
    }

    /// The attempts that the handler was told of, for one id.
    pub fn attempts(&self, id: &str) -> Vec<u32> {
        self.seen.lock().unwrap().iter().filter(|(seen, _)| seen == id).map(|&(_, n)| n).collect()
    }

    /// Reason, error and attempts of every letter, with its id.
    pub fn letters(&self) -> Vec<(String, String, String, u32)> {
        let letters = self.database.letters(&group()).into_iter();
        letters.map(|l| (l.claim.id.as_str().to_owned(), l.reason, l.error, l.attempts)).collect()
    }

    /// Runs to the end of the source.
    pub async fn run(&self, builder: Builder) -> Summary {
        balanced(ends(builder.build().unwrap().run()).await.unwrap())
    }
}

/// Starts a run that ends on the returned signal (or when the source does).
pub fn start(builder: Builder) -> (oneshot::Sender<()>, Run, Arc<Counters>) {
    let runner = builder.build().unwrap();
    let counters = runner.counters();
    let (stop, stopped) = oneshot::channel::<()>();
    let run = tokio::spawn(async move {
        runner
            .run_until(async move {
                if stopped.await.is_err() {
                    std::future::pending::<()>().await;
                }
            })
            .await
    });
    (stop, run, counters)
}

/// Lets everything happen that needs no more than this virtual time.
pub async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

async fn perform(act: Act, message: Message, mut tx: Tx<HookedStore>) -> Result<(), Failure> {
    assert!(!matches!(act, Act::PanicInFuture), "in the future");
    apply_effect(&mut tx, &message)?;
    match act {
        Act::Apply | Act::PanicAtOnce | Act::PanicInFuture => Ok(()),
        Act::Fail => Err(Failure::message("told to fail")),
        Act::FailFor(time) => Err(Failure::message("told to fail").retry_after(time)),
        Act::Permanent => Err(Failure::message("told to fail").permanent()),
        Act::PanicLater => {
            tokio::task::yield_now().await;
            panic!("later");
        }
        Act::Hang => std::future::pending().await,
        Act::Wait(gate) => {
            gate.pass().await;
            Ok(())
        }
        Act::WaitAndFail(gate) => {
            gate.pass().await;
            Err(Failure::message("told to fail"))
        }
        Act::FailCommit => {
            tx.fail_commit("no such order");
            Ok(())
        }
        Act::Abort => {
            tx.abort();
            Ok(())
        }
        Act::Leak(place) => {
            *place.lock().unwrap() = Some(tx);
            Ok(())
        }
    }
}

pub mod futures {
    use inbox_core::Failure;
    pub type Boxed = std::pin::Pin<Box<dyn Future<Output = Result<(), Failure>> + Send>>;
    use std::future::Future;
}
