//! Building a runner: what it consumes, with what, and by which rules.

use super::{
    control::{self, Control, Controlled},
    coordinator::SPAN_FACTOR,
    counters::Counters,
};
use crate::{
    AckStrength, AttemptLog, Backoff, BatchHandler, Broker, Checkpoints, FingerprintOf, FromMessage, Group,
    Handler, IdFrom, Identity, InboxStore, Letters, Middleware, MissingId, NameError, Observer, Probe,
    RetryPolicy, Router, Scope, StoredInbox, TxLimits,
    batch_handler::Batched,
    handler::{AnyHandler, erase},
    probe::Probes,
};
use std::{marker::PhantomData, num::NonZeroUsize, sync::Arc, time::Duration};

/// When a message is acknowledged, and whether its effect can happen twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Strategy {
    /// After a commit that holds the claim together with the effect. Duplicates, busy rows and
    /// conflicts are dealt with by the runner. The default.
    #[default]
    ExactlyOnce,
    /// After a successful commit, without a claim: duplicates run again. What happens to a message is
    /// written down only when it becomes a letter.
    AtLeastOnce,
    /// When the message is kept in its inbox row, before the handler; then it is handled out of the row.
    /// A failure is recorded in the row and retried separately, by a runner over
    /// [`StoredMessages`](crate::StoredMessages). Needs `.stored_messages()`.
    OnPersist,
    /// Before any work: what fails then is lost for the broker. One attempt, one message per transaction;
    /// needs a broker that confirms acknowledgements.
    AtMostOnce,
}

/// How a transaction gets hold of its messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// It claims them, and applies the effect.
    Claim,
    /// Only the dead are claimed.
    Unclaimed,
    /// It claims them, and keeps them in their rows.
    Persist,
    /// It takes kept ones out of their rows, and applies the effect.
    Reclaim,
}

/// All bounds and rules of a run.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub(crate) strategy: Strategy,
    /// Follows from the strategy and the broker.
    pub(crate) mode: Mode,
    pub(crate) identity: Identity,
    pub(crate) batch_max: usize,
    pub(crate) lanes: usize,
    pub(crate) in_flight_max: usize,
    pub(crate) in_flight_bytes_max: usize,
    pub(crate) retry: RetryPolicy,
    pub(crate) handler_timeout: Duration,
    pub(crate) rollback_timeout: Duration,
    pub(crate) shutdown_timeout: Duration,
    pub(crate) tx_limits: TxLimits,
    pub(crate) outage_backoff: Backoff,
    pub(crate) rerun_backoff: Backoff,
    pub(crate) busy_backoff: Backoff,
    pub(crate) seed: Option<u64>,
    pub(crate) breaker_after: Option<NonZeroUsize>,
    /// Under which name the run stands in the attempt log.
    pub(crate) instance: String,
    /// How far behind the newest delivery of a partition an unfinished one can be.
    pub(crate) open_max: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            strategy: Strategy::default(),
            mode: Mode::Claim,
            identity: Identity::default(),
            batch_max: 100,
            lanes: 1,
            in_flight_max: 1000,
            in_flight_bytes_max: 16 * 1024 * 1024,
            retry: RetryPolicy::default(),
            handler_timeout: Duration::from_secs(30),
            rollback_timeout: Duration::from_secs(5),
            shutdown_timeout: Duration::from_secs(30),
            tx_limits: TxLimits::default(),
            outage_backoff: Backoff::default(),
            rerun_backoff: Backoff::new(Duration::from_millis(5), Duration::from_secs(1)),
            busy_backoff: Backoff::new(Duration::from_millis(20), Duration::from_secs(2)),
            seed: None,
            breaker_after: None,
            instance: String::new(),
            open_max: 0,
        }
    }
}

/// Why a runner cannot be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The consumer group's name is refused.
    #[error("consumer group {group:?}: {why}")]
    Group {
        /// The refused name, cut to 80 characters.
        group: String,
        /// What is wrong with it.
        why: NameError,
    },
    /// A number is outside of its bounds.
    #[error("option `{option}` is {value}; it has to be {bounds}")]
    OutOfBounds {
        /// The option's name.
        option: &'static str,
        /// The refused value.
        value: String,
        /// What is allowed.
        bounds: &'static str,
    },
    /// The broker keeps no progress, and no checkpoints were asked for.
    #[error("this broker keeps no progress of its own: add `.checkpoints()`, with a store that keeps them")]
    NeedsCheckpoints,
    /// The strategy or the broker works with kept messages, and the store was not asked for them.
    #[error(
        "{who} works with messages that are kept in the store: add `.stored_messages()`, with a store that keeps them"
    )]
    NeedsStoredMessages {
        /// The strategy or the broker.
        who: &'static str,
    },
    /// The strategy at most once needs to know that an acknowledgement has arrived.
    #[error(
        "strategy at most once: this broker confirms no acknowledgement, so a message could be handled twice"
    )]
    NeedsConfirmedAck,
    /// The strategy at most once keeps no checkpoints: they are written after the work.
    #[error(
        "strategy at most once: a checkpoint is written after the work, so a message could be handled twice; \
         leave `.checkpoints()` out"
    )]
    NoCheckpoints,
    /// With this strategy a message whose handling ends the process does not come again.
    #[error(
        "strategy {strategy}: a message is acknowledged before it is handled, so an attempt log has nothing to \
         tell; leave `.attempt_log()` out"
    )]
    NoAttemptLog {
        /// The strategy.
        strategy: &'static str,
    },
    /// Positions are needed, and the broker's do not last.
    #[error("option `{option}`: this broker's deliveries have no lasting positions")]
    NotPositional {
        /// The option that needs them.
        option: &'static str,
    },
}

/// A runner that is ready to run.
pub struct Runner<B = (), W = ()> {
    pub(crate) group: Group,
    pub(crate) broker: B,
    pub(crate) work: W,
    pub(crate) config: Config,
    pub(crate) probes: Probes,
    pub(crate) observers: Observers,
    pub(crate) counters: Arc<Counters>,
    control: Control,
    pub(crate) controlled: Controlled,
}

/// Those who want to know how messages ended.
pub(crate) type Observers = Vec<Arc<dyn Observer>>;

/// A store with those of its abilities that the run uses.
pub struct StoreParts<S: InboxStore> {
    pub(crate) store: Arc<S>,
    pub(crate) letters: Option<Arc<dyn Letters<Tx = S::Tx>>>,
    pub(crate) checkpoints: Option<Arc<dyn Checkpoints<Tx = S::Tx>>>,
    pub(crate) stored: Option<Arc<dyn StoredInbox<Tx = S::Tx>>>,
    pub(crate) attempt_log: Option<Arc<dyn AttemptLog<Tx = S::Tx>>>,
}

/// A store and the handler that works with it.
pub struct Work<S: InboxStore> {
    pub(crate) parts: StoreParts<S>,
    pub(crate) handler: Arc<dyn AnyHandler<S>>,
    pub(crate) layers: Vec<Arc<dyn Middleware<S>>>,
}

/// Collects what a [`Runner`] needs: broker, store and handler, in this order, and options at any time.
#[must_use]
pub struct RunnerBuilder<B = (), W = ()> {
    group: String,
    broker: B,
    work: W,
    config: Config,
    probes: Probes,
    observers: Observers,
    breaker_is_set: bool,
}

impl Runner {
    /// Begins to build a runner for a consumer group.
    pub fn builder(group: impl Into<String>) -> RunnerBuilder {
        RunnerBuilder {
            group: group.into(),
            broker: (),
            work: (),
            config: Config::default(),
            probes: Probes::default(),
            observers: Observers::new(),
            breaker_is_set: false,
        }
    }
}

impl<B: Broker, S: InboxStore> Runner<B, Work<S>> {
    /// Steers the run from elsewhere: pause, resume, drain, shut down.
    pub fn control(&self) -> Control {
        self.control.clone()
    }

    /// Live counts; they can be read while the runner runs, and after it has ended.
    pub fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.counters)
    }
}

impl<B, W> RunnerBuilder<B, W> {
    fn with<B2, W2>(self, change: impl FnOnce(B, W) -> (B2, W2)) -> RunnerBuilder<B2, W2> {
        let Self { group, broker, work, config, probes, observers, breaker_is_set } = self;
        let (broker, work) = change(broker, work);
        RunnerBuilder { group, broker, work, config, probes, observers, breaker_is_set }
    }

    /// When messages are acknowledged. Default: exactly once.
    pub fn strategy(mut self, strategy: Strategy) -> Self {
        self.config.strategy = strategy;
        self
    }

    /// Where message ids are read from. Default: the broker's own format.
    pub fn id_from(mut self, id_from: IdFrom) -> Self {
        self.config.identity.from = id_from;
        self
    }

    /// What is done with a record that has no id. Default: it becomes a letter.
    pub fn missing_id(mut self, missing_id: MissingId) -> Self {
        self.config.identity.missing = missing_id;
        self
    }

    /// What of a message is its content: when an id is seen again with other content, that is a conflict.
    /// Default: the payload's bytes.
    pub fn fingerprint(mut self, fingerprint: FingerprintOf) -> Self {
        self.config.identity.fingerprint = fingerprint;
        self
    }

    /// The namespace of ids, needed when several sources number independently. Default: empty.
    pub fn scope(mut self, scope: Scope) -> Self {
        self.config.identity.scope = scope;
        self
    }

    /// How many messages one transaction takes at most, 1 to 10,000. Default 100. A lane takes what is
    /// ready and never waits for more.
    pub fn batch_max(mut self, messages: usize) -> Self {
        self.config.batch_max = messages;
        self
    }

    /// How many units of work run at once, 1 to 1,024. Default 1.
    pub fn lanes(mut self, lanes: usize) -> Self {
        self.config.lanes = lanes;
        self
    }

    /// How many deliveries may be open at once, queued ones included; at least 1. Default 1,000.
    pub fn in_flight_max(mut self, messages: usize) -> Self {
        self.config.in_flight_max = messages;
        self
    }

    /// How many bytes of payload, key and headers may be open at once; at least 1. It is exceeded by at
    /// most one delivery, since the broker may give one that is larger than what is left. Default 16 MiB.
    pub fn in_flight_bytes_max(mut self, bytes: usize) -> Self {
        self.config.in_flight_bytes_max = bytes;
        self
    }

    /// What is done about failures. Default: five attempts, then a letter.
    pub fn retry(mut self, retry: RetryPolicy) -> Self {
        self.config.retry = retry;
        self
    }

    /// How long a handler may take; then it is dropped and the attempt counts as failed. Default 30 s.
    pub fn handler_timeout(mut self, time: Duration) -> Self {
        self.config.handler_timeout = time;
        self
    }

    /// How long a rollback may take before the connection is dropped. Default 5 s.
    pub fn rollback_timeout(mut self, time: Duration) -> Self {
        self.config.rollback_timeout = time;
        self
    }

    /// How long a shutdown waits for what has started; then handlers are dropped and rolled back.
    /// Commits are never cut. Default 30 s.
    pub fn shutdown_timeout(mut self, time: Duration) -> Self {
        self.config.shutdown_timeout = time;
        self
    }

    /// Bounds that the database enforces.
    pub fn tx_limits(mut self, limits: TxLimits) -> Self {
        self.config.tx_limits = limits;
        self
    }

    /// How long to wait while the store or the broker is out of reach. Default 100 ms to 30 s.
    pub fn outage_backoff(mut self, backoff: Backoff) -> Self {
        self.config.outage_backoff = backoff;
        self
    }

    /// The seed of the jitter in back-offs, for runs that can be repeated. Default: random.
    pub fn seed(mut self, seed: u64) -> Self {
        self.config.seed = Some(seed);
        self
    }

    /// When so many distinct messages have failed in a row, none applied in between, it is not the messages:
    /// nothing more is taken in, one message is tried at a time, with the waits of `outage_backoff`, failing
    /// costs no attempt, and nothing becomes a letter, until one is applied. At least 1. Default: never.
    pub fn breaker_after(mut self, messages: usize) -> Self {
        self.config.breaker_after = NonZeroUsize::new(messages);
        self.breaker_is_set = true;
        self
    }

    /// Lets somebody know how messages ended. May be called several times.
    pub fn observer(mut self, observer: impl Observer) -> Self {
        self.observers.push(Arc::new(observer));
        self
    }

    /// A probe, passed at each [`ProbePoint`](crate::ProbePoint). For tests.
    pub fn probe(mut self, probe: impl Probe) -> Self {
        self.probes = Probes(Some(Arc::new(probe)));
        self
    }
}

impl RunnerBuilder {
    /// Where messages come from.
    pub fn broker<B: Broker>(self, broker: B) -> RunnerBuilder<B> {
        self.with(|(), ()| (broker, ()))
    }
}

impl<B: Broker> RunnerBuilder<B> {
    /// Where claims and effects go. The store keeps letters, so messages that cannot be applied become
    /// letters by default.
    pub fn store<S: InboxStore + Letters>(self, store: S) -> RunnerBuilder<B, StoreParts<S>> {
        let store = Arc::new(store);
        let letters: Arc<dyn Letters<Tx = S::Tx>> = Arc::clone(&store) as _;
        self.with(|broker, ()| (broker, StoreParts { letters: Some(letters), ..StoreParts::new(store) }))
    }

    /// A store that keeps no letters: the run halts at a message that cannot be applied.
    pub fn store_without_letters<S: InboxStore>(self, store: S) -> RunnerBuilder<B, StoreParts<S>> {
        let store = Arc::new(store);
        self.with(|broker, ()| (broker, StoreParts::new(store)))
    }
}

impl<B: Broker, S: InboxStore + Checkpoints> RunnerBuilder<B, StoreParts<S>> {
    /// Keeps the position of the source in the store, in the transactions of the effects. Beside inbox
    /// rows it is a faster start; the rows decide. Needed for brokers that keep no progress themselves.
    pub fn checkpoints(self) -> Self {
        self.with(|broker, mut parts: StoreParts<S>| {
            parts.checkpoints = Some(Arc::clone(&parts.store) as _);
            (broker, parts)
        })
    }
}

impl<B: Broker, S: InboxStore + AttemptLog> RunnerBuilder<B, StoreParts<S>> {
    /// Marks the starts of suspects in the store, so that a message that takes the process or the database
    /// down becomes a letter, and only that one (see [`RetryPolicy::starts_max`]). A run that was killed is
    /// noticed by the next one of the same `instance`, which handles the first deliveries of each partition
    /// alone; give every process of a group a name of its own that stays the same when it is started
    /// again, such as a host's.
    pub fn attempt_log(mut self, instance: impl Into<String>) -> Self {
        self.config.instance = instance.into();
        self.with(|broker, mut parts: StoreParts<S>| {
            parts.attempt_log = Some(Arc::clone(&parts.store) as _);
            (broker, parts)
        })
    }
}

impl<S: InboxStore> StoreParts<S> {
    fn new(store: Arc<S>) -> Self {
        Self { store, letters: None, checkpoints: None, stored: None, attempt_log: None }
    }
}

impl<B: Broker, S: InboxStore + StoredInbox> RunnerBuilder<B, StoreParts<S>> {
    /// Lets the run keep messages in the store and take them out of it: for the strategy
    /// [`Strategy::OnPersist`] and for [`StoredMessages`](crate::StoredMessages).
    pub fn stored_messages(self) -> Self {
        self.with(|broker, mut parts: StoreParts<S>| {
            parts.stored = Some(Arc::clone(&parts.store) as _);
            (broker, parts)
        })
    }
}

impl<B: Broker, S: InboxStore> RunnerBuilder<B, StoreParts<S>> {
    /// What is called for each message.
    pub fn handler<Args: 'static, H: Handler<S, (), Args>>(self, handler: H) -> RunnerBuilder<B, Work<S>> {
        self.with_handler(erase(handler))
    }

    /// Handlers by message type.
    pub fn router<App: Clone + Send + Sync + 'static>(
        self,
        router: Router<S, App>,
    ) -> RunnerBuilder<B, Work<S>> {
        self.with_handler(Arc::new(router))
    }

    /// What is called for all freshly claimed messages of a unit of work at once.
    pub fn batch_handler<T: FromMessage<()>, H: BatchHandler<S, T>>(
        self,
        handler: H,
    ) -> RunnerBuilder<B, Work<S>> {
        self.with_handler(Arc::new(Batched { handler, value: PhantomData::<fn() -> T> }))
    }

    fn with_handler(self, handler: Arc<dyn AnyHandler<S>>) -> RunnerBuilder<B, Work<S>> {
        self.with(|broker, parts| (broker, Work { parts, handler, layers: Vec::new() }))
    }
}

impl<B: Broker, S: InboxStore> RunnerBuilder<B, Work<S>> {
    /// Puts middleware around every handler; what is added first is outermost. Batch handlers have none.
    pub fn around(mut self, middleware: impl Middleware<S>) -> Self {
        self.work.layers.push(Arc::new(middleware));
        self
    }
}

impl<B: Broker, S: InboxStore> RunnerBuilder<B, Work<S>> {
    /// Checks everything.
    ///
    /// # Errors
    /// [`BuildError`] names the option that is refused.
    pub fn build(self) -> Result<Runner<B, Work<S>>, BuildError> {
        let Self { group, broker, work, mut config, probes, observers, breaker_is_set } = self;
        let group = Group::new(&group)
            .map_err(|why| BuildError::Group { group: group.chars().take(80).collect(), why })?;
        let bounded = |option, value: usize, min: usize, max: usize, bounds| {
            if (min..=max).contains(&value) {
                Ok(())
            } else {
                Err(BuildError::OutOfBounds { option, value: value.to_string(), bounds })
            }
        };
        bounded("batch_max", config.batch_max, 1, 10_000, "1 to 10,000")?;
        bounded("lanes", config.lanes, 1, 1024, "1 to 1,024")?;
        bounded("in_flight_max", config.in_flight_max, 1, usize::MAX, "at least 1")?;
        bounded("in_flight_bytes_max", config.in_flight_bytes_max, 1, usize::MAX, "at least 1")?;
        bounded("attempts_max", config.retry.attempts_max as usize, 1, u32::MAX as usize, "at least 1")?;
        bounded("starts_max", config.retry.starts_max as usize, 1, u32::MAX as usize, "at least 1")?;
        let breaker_after = config.breaker_after.map_or(usize::from(!breaker_is_set), NonZeroUsize::get);
        bounded("breaker_after", breaker_after, 1, usize::MAX, "at least 1")?;
        if config.instance.len() > crate::NAME_BYTES_MAX {
            let (option, value) = ("attempt_log", format!("an instance of {} bytes", config.instance.len()));
            return Err(BuildError::OutOfBounds { option, value, bounds: "at most 255 bytes" });
        }
        if config.handler_timeout.is_zero() {
            let (option, value) = ("handler_timeout", "0 s".to_owned());
            return Err(BuildError::OutOfBounds { option, value, bounds: "more than nothing" });
        }
        let capabilities = broker.capabilities();
        if work.parts.checkpoints.is_none() && capabilities.ack == AckStrength::Checkpoint {
            return Err(BuildError::NeedsCheckpoints);
        }
        if work.parts.checkpoints.is_some() && !capabilities.positional {
            return Err(BuildError::NotPositional { option: "checkpoints" });
        }
        check_identity(&config.identity, capabilities.positional)?;
        if config.strategy == Strategy::AtMostOnce {
            if capabilities.ack != AckStrength::Confirmed {
                return Err(BuildError::NeedsConfirmedAck);
            }
            if work.parts.checkpoints.is_some() {
                return Err(BuildError::NoCheckpoints);
            }
            config.batch_max = 1;
            config.retry.attempts_max = 1;
        }
        let who = match config.strategy {
            Strategy::OnPersist => Some("strategy at least once, on persist,"),
            _ if capabilities.reads_stored => Some("this broker"),
            _ => None,
        };
        if let Some(who) = who.filter(|_| work.parts.stored.is_none()) {
            return Err(BuildError::NeedsStoredMessages { who });
        }
        config.mode = match config.strategy {
            _ if capabilities.reads_stored => Mode::Reclaim,
            Strategy::ExactlyOnce => Mode::Claim,
            Strategy::AtLeastOnce | Strategy::AtMostOnce => Mode::Unclaimed,
            Strategy::OnPersist => Mode::Persist,
        };
        let acknowledges_first = match config.strategy {
            Strategy::AtMostOnce => Some("at most once"),
            Strategy::OnPersist if config.mode == Mode::Persist => Some("at least once, on persist"),
            _ => None,
        };
        if let Some(strategy) = acknowledges_first.filter(|_| work.parts.attempt_log.is_some()) {
            return Err(BuildError::NoAttemptLog { strategy });
        }
        let factor = if capabilities.positional { SPAN_FACTOR } else { 1 };
        config.open_max = config.in_flight_max.saturating_mul(factor) as u64;
        if work.parts.letters.is_none() {
            config.retry.exhausted = crate::Exhausted::Halt;
        }
        let (control, controlled) = control::channel();
        Ok(Runner {
            group,
            broker,
            work,
            config,
            probes,
            observers,
            counters: Arc::default(),
            control,
            controlled,
        })
    }
}

fn check_identity(identity: &Identity, positional: bool) -> Result<(), BuildError> {
    let empty = |option| {
        let value = "an empty list".to_owned();
        Err(BuildError::OutOfBounds { option, value, bounds: "at least one place" })
    };
    if identity.from.is_nowhere() {
        return empty("id_from");
    }
    if matches!(&identity.fingerprint, FingerprintOf::Fields(fields) if fields.is_empty()) {
        return empty("fingerprint");
    }
    match identity.needs_position() {
        Some(option) if !positional => Err(BuildError::NotPositional { option }),
        _ => Ok(()),
    }
}

impl<B, W> std::fmt::Debug for Runner<B, W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runner").field("group", &self.group).finish_non_exhaustive()
    }
}

impl<B, W> std::fmt::Debug for RunnerBuilder<B, W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunnerBuilder").field("group", &self.group).finish_non_exhaustive()
    }
}

impl<S: InboxStore> std::fmt::Debug for StoreParts<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "StoreParts({})", self.store.describe())
    }
}

impl<S: InboxStore> std::fmt::Debug for Work<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Work({})", self.parts.store.describe())
    }
}
