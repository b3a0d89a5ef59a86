//! A check of a handler of yours, without any server: what the inbox promises holds only for handlers
//! that let it.
//!
//! The handler gets every message once, and then again with duplicates, in another order of the keys, with
//! conflicts, with a time-out at every await point, and with a crash at every await point and before and
//! after every call of the store. What it leaves must be the same each time.
//!
//! A handler that uses a driver without waiting has no await points but its end; put
//! `tokio::task::yield_now().await` between statements where one more is wanted. A statement that failed
//! and was hidden is found where the database aborts the transaction for it, as PostgreSQL does.
//!
//! ```
//! use inbox_core::{Failure, Message, Tx};
//! use inbox_testkit::{COUNTER, MemoryDatabase, MemoryStore, Publish, apply_effect, check::check};
//!
//! async fn create_invoice(message: Message, mut tx: Tx<MemoryStore>) -> Result<(), Failure> {
//!     Ok(apply_effect(&mut tx, &message)?)
//! }
//! let messages = [Publish::new("m-1").key("a"), Publish::new("m-2").key("b")];
//! let findings = check(create_invoice, MemoryDatabase::new, messages, |db| db.counter(COUNTER));
//! assert!(findings.is_empty(), "{}", findings[0]);
//! ```

mod finding;
mod life;

pub use finding::{Finding, Place, Trial};

use crate::{MemoryDatabase, MemoryStore, Publish};
use fastrand::Rng;
use inbox_core::{Attempt, Handler, Identity, Inbound, Letters, Message};
use life::{Cut, Handled, deliver};
use std::{collections::HashMap, sync::Arc};

/// A database that outlives the processes that use it.
pub trait Database {
    /// The store that the handler is written for.
    type Store: Letters;

    /// A new handle on the same database, as a process makes it when it starts.
    fn open(&self) -> Self::Store;
}

impl Database for MemoryDatabase {
    type Store = MemoryStore;

    fn open(&self) -> MemoryStore {
        self.store()
    }
}

/// Checks a handler over new databases. `snapshot` reads the effects that count, after everything is
/// committed. Each finding is told once for each way of going wrong.
///
/// # Panics
/// When no runtime can be made.
pub fn check<D, H, Args, T>(
    handler: H,
    new_database: impl Fn() -> D,
    messages: impl IntoIterator<Item = Publish>,
    snapshot: impl Fn(&D) -> T,
) -> Vec<Finding<T>>
where
    D: Database,
    H: Handler<D::Store, (), Args>,
    T: Clone + Eq + std::fmt::Debug,
{
    Check::new(new_database, messages, snapshot).run(handler)
}

/// How often a thing was done outside of the transaction.
type Outside = Box<dyn Fn() -> u64>;

/// A check with options, see [`check`].
pub struct Check<N, P> {
    new_database: N,
    messages: Vec<Publish>,
    snapshot: P,
    identity: Identity,
    outside: Option<Outside>,
}

/// Orders of keys that are tried.
const SHUFFLES: u64 = 5;

impl<N, P> Check<N, P> {
    /// With databases made by `new_database`, whose effects `snapshot` reads.
    pub fn new(new_database: N, messages: impl IntoIterator<Item = Publish>, snapshot: P) -> Self {
        let messages = messages.into_iter().collect();
        Self { new_database, messages, snapshot, identity: Identity::default(), outside: None }
    }

    /// Counts what the handler does outside of the transaction (mails sent, say): since ever, and each
    /// idempotency key once if the other side looks at it.
    #[must_use]
    pub fn outside(self, count: impl Fn() -> u64 + 'static) -> Self {
        Self { outside: Some(Box::new(count)), ..self }
    }

    /// How messages are identified. Default: by the ids that they were published with.
    #[must_use]
    pub fn identity(self, identity: Identity) -> Self {
        Self { identity, ..self }
    }

    /// Runs all trials.
    ///
    /// # Panics
    /// When no runtime can be made.
    pub fn run<D, H, Args, T>(self, handler: H) -> Vec<Finding<T>>
    where
        D: Database,
        N: Fn() -> D,
        P: Fn(&D) -> T,
        H: Handler<D::Store, (), Args>,
        T: Clone + Eq + std::fmt::Debug,
    {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap_or_else(|error| panic!("making a runtime: {error}"));
        runtime.block_on(Run { check: &self, handler: Arc::new(handler), findings: Vec::new() }.all())
    }
}

impl<N, P> std::fmt::Debug for Check<N, P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Check").field("messages", &self.messages).finish_non_exhaustive()
    }
}

struct Run<'c, N, P, H, T> {
    check: &'c Check<N, P>,
    handler: Arc<H>,
    findings: Vec<Finding<T>>,
}

impl<N, P, H, T: Clone + Eq + std::fmt::Debug> Run<'_, N, P, H, T> {
    async fn all<D, Args>(mut self) -> Vec<Finding<T>>
    where
        D: Database,
        N: Fn() -> D,
        P: Fn(&D) -> T,
        H: Handler<D::Store, (), Args>,
    {
        let source = inbox_core::Source::new("checked");
        let inbounds: Vec<Inbound> =
            self.check.messages.iter().map(|message| message.clone().into_inbound(&source)).collect();
        let mut messages = Vec::new();
        for inbound in &inbounds {
            match self.check.identity.identify(inbound.clone()) {
                (message, None) => messages.push(message),
                (message, Some(defect)) => {
                    let (id, error) = (message.id().to_owned(), defect.to_string());
                    return vec![Finding::Fails { trial: Trial::Clean, id, error }];
                }
            }
        }
        // How often the handler of each message waits, which the clean run tells.
        let mut waits = Vec::new();
        let Some(clean) = self.trial(Trial::Clean, &messages, None, Some(&mut waits)).await else {
            return self.findings;
        };
        let twice = messages.iter().flat_map(|message| [message.clone(), message.clone()]);
        let thrice: Vec<Message> = twice.chain(messages.iter().cloned()).collect();
        self.compare(Trial::Duplicates, &thrice, None, &clean).await;
        for seed in 0..SHUFFLES {
            self.compare(Trial::Reordered { seed }, &reordered(&messages, seed), None, &clean).await;
        }
        let both: Vec<Message> =
            inbounds.iter().zip(&messages).flat_map(|(i, m)| [m.clone(), self.other_content(i)]).collect();
        self.compare(Trial::Conflicts, &both, None, &clean).await;
        for (index, message) in messages.iter().enumerate() {
            let id = message.id().to_owned();
            let awaits = (1..=waits[index]).map(Place::Await);
            for at in awaits.clone().chain([Place::BeforeCommit]) {
                let trial = Trial::TimeOut { id: id.clone(), at };
                self.compare(trial, &messages, Some((index, Cut { at, dies: false })), &clean).await;
            }
            let before = [Place::BeforeBegin, Place::AfterBegin, Place::AfterClaim];
            let behind = [Place::BeforeCommit, Place::AfterCommit];
            for at in before.into_iter().chain(awaits).chain(behind) {
                let trial = Trial::Crash { id: id.clone(), at };
                self.compare(trial, &messages, Some((index, Cut { at, dies: true })), &clean).await;
            }
        }
        self.findings
    }

    /// The same id with a payload that is one blank longer.
    fn other_content(&self, inbound: &Inbound) -> Message {
        let mut other = inbound.clone();
        let mut payload = other.payload.map(|payload| payload.to_vec()).unwrap_or_default();
        payload.push(b' ');
        other.payload = Some(payload.into());
        self.check.identity.identify(other).0
    }

    async fn compare<D, Args>(
        &mut self,
        trial: Trial,
        messages: &[Message],
        cut: Option<(usize, Cut)>,
        (clean, clean_outside): &(T, u64),
    ) where
        D: Database,
        N: Fn() -> D,
        P: Fn(&D) -> T,
        H: Handler<D::Store, (), Args>,
    {
        let Some((found, found_outside)) = self.trial(trial.clone(), messages, cut, None).await else {
            return;
        };
        if found_outside != *clean_outside {
            let (clean, found) = (*clean_outside, found_outside);
            self.findings.push(Finding::ActsOutside { trial: trial.clone(), clean, found });
        }
        if found != *clean {
            self.findings.push(Finding::EffectsDiffer { trial, clean: clean.clone(), found });
        }
    }

    /// Lives through one trial on a new database, and gives what is left, or `None` with a finding.
    async fn trial<D, Args>(
        &mut self,
        trial: Trial,
        messages: &[Message],
        cut: Option<(usize, Cut)>,
        mut waits: Option<&mut Vec<usize>>,
    ) -> Option<(T, u64)>
    where
        D: Database,
        N: Fn() -> D,
        P: Fn(&D) -> T,
        H: Handler<D::Store, (), Args>,
    {
        let count = || self.check.outside.as_ref().map_or(0, |count| count());
        let before = count();
        let database = (self.check.new_database)();
        let mut store = database.open();
        let (mut index, mut attempt, mut cut) = (0, Attempt(1), cut);
        while let Some(message) = messages.get(index) {
            let here = cut.filter(|(at, _)| *at == index).map(|(_, cut)| cut);
            let handled = deliver(&store, &self.handler, message, (Attempt(attempt.0), here), &trial).await;
            match handled {
                Handled::Settled(count) => {
                    if let Some(waits) = &mut waits {
                        waits.push(count);
                    }
                    (index, attempt) = (index + 1, Attempt(1));
                }
                Handled::TimedOut => (attempt, cut) = (Attempt(2), None),
                Handled::Died => {
                    // The next process opens the database anew and gets everything again.
                    drop(store);
                    store = database.open();
                    (index, attempt, cut) = (0, Attempt(1), None);
                }
                Handled::Wrong(finding) => {
                    self.findings.push(finding);
                    return None;
                }
            }
        }
        drop(store);
        let outside = count() - before;
        Some(((self.check.snapshot)(&database), outside))
    }
}

/// Another order, in which messages of one key stay as they were.
fn reordered(messages: &[Message], seed: u64) -> Vec<Message> {
    let mut rng = Rng::with_seed(seed);
    let mut places: Vec<usize> = (0..messages.len()).collect();
    rng.shuffle(&mut places);
    // Keys get shuffled places; each key fills its own in order.
    let mut of_key: HashMap<Option<&[u8]>, Vec<usize>> = HashMap::new();
    for &place in &places {
        let key = messages[place].key().map(|key| &key[..]);
        if key.is_some() {
            of_key.entry(key).or_default().push(place);
        }
    }
    of_key.values_mut().for_each(|indexes| indexes.sort_unstable_by(|a, b| b.cmp(a)));
    let next = |place: usize| {
        let key = messages[place].key().map(|key| &key[..]);
        of_key.get_mut(&key).and_then(Vec::pop).unwrap_or(place)
    };
    places.into_iter().map(next).map(|index| messages[index].clone()).collect()
}
