//! The store: its connections, and the transactions on them.

use crate::{
    OpenError, PostgresOptions, PostgresTx, StatementError,
    claims::{self, Mode, lock_timeout_ms, whole_ms},
    commit,
    error::{class_of, class_of_database, failed},
    pool::Pool,
    statements::{Statements, query},
    url,
};
use async_trait::async_trait;
use inbox_core::{
    Claim, ClaimKey, ClaimRequest, CommitError, FaultClass, Fingerprint, Group, InboxStore, Resolution,
    StoreError, TxLimits,
};
use sqlx::{PgConnection, Row as _, postgres::PgDatabaseError};
use std::{
    collections::HashMap,
    error::Error,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::time::timeout;

/// How long a rollback waits for a reply, perhaps first to a statement whose handler was dropped, before the
/// connection is closed instead.
const ROLLBACK_WAIT: Duration = Duration::from_secs(2);

/// How long transactions of the store's own wait for others; nobody tries again for most of them.
const OWN_LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// A transactional inbox in a PostgreSQL database. Cloning shares the connections.
///
/// Each lane of a runner holds one connection while it has a transaction open; what is done beside units of
/// work (marking starts, recording failures, resolving doubts) takes another one for a moment. A handler
/// must use the transaction that it is lent, and no second connection of this store: with as many lanes as
/// connections it would wait for itself.
///
/// A store belongs to the tokio runtime it is used on.
#[derive(Clone)]
pub struct PostgresStore {
    inner: Arc<Inner>,
}

struct Inner {
    pool: Arc<Pool>,
    sql: Statements,
    begin: String,
    /// Groups, which are never removed.
    groups: Mutex<HashMap<Group, i32>>,
}

impl PostgresStore {
    /// Settings for a database by its URL (`postgres://user@host:5432/database`). What the URL leaves out
    /// comes from the environment variables of PostgreSQL's own clients (`PGUSER`, `PGPASSWORD`, …).
    ///
    /// # Errors
    /// [`OpenError::Url`]; [`OpenError::Parameter`] for a parameter that is not known, and
    /// [`OpenError::NoTls`] where TLS is asked for without the feature `tls`.
    pub fn options(url: &str) -> Result<PostgresOptions, OpenError> {
        PostgresOptions::parse(url)
    }

    /// Connects with the default settings, and makes the tables if they are missing.
    ///
    /// # Errors
    /// [`OpenError`], which names the database without its secrets.
    pub async fn connect(url: &str) -> Result<Self, OpenError> {
        Self::options(url)?.connect().await
    }

    pub(crate) async fn open(options: PostgresOptions) -> Result<Self, OpenError> {
        options.check_names()?;
        url::check_tls(&options.connect)?;
        let (prefix, isolation) = (options.prefix.clone(), options.isolation.as_sql());
        let is_named = !options.transaction_pooling;
        let pool = Arc::new(Pool::new(options));
        let schema = pool.open().await?;
        let inner = Inner {
            sql: Statements::new(&schema, &prefix, is_named),
            begin: format!("BEGIN ISOLATION LEVEL {isolation} READ WRITE"),
            groups: Mutex::new(HashMap::new()),
            pool,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Claims one message inside a transaction of your own on a connection of your own: the library mode, for
    /// programs that have their own loop.
    ///
    /// The connection must be to the store's database, with a transaction open; commit before you
    /// acknowledge. Another transaction that holds the claim undecided is waited for as long as your
    /// `lock_timeout` says, for ever by default; then the answer is [`StoreError::Busy`].
    ///
    /// # Errors
    /// [`StoreError`]; the transaction must be rolled back.
    pub async fn claim_in(
        &self,
        connection: &mut PgConnection,
        group: &Group,
        key: &ClaimKey,
        fingerprint: Fingerprint,
    ) -> Result<Claim, StoreError> {
        let requests = [ClaimRequest { key: key.clone(), fingerprint }];
        let mut claims = self.claim_many_in(connection, group, &requests).await?;
        Ok(claims.pop().unwrap_or(Claim::Fresh))
    }

    /// As [`claim_in`](PostgresStore::claim_in) with several messages in one round trip, each of them once.
    ///
    /// # Errors
    /// [`StoreError`]; the transaction must be rolled back.
    pub async fn claim_many_in(
        &self,
        connection: &mut PgConnection,
        group: &Group,
        requests: &[ClaimRequest],
    ) -> Result<Vec<Claim>, StoreError> {
        let group_id = self.group_id(connection, group).await?;
        claims::claim(connection, self.sql(), self.name(), group_id, requests, Mode::Foreign, |_| false).await
    }

    pub(crate) fn sql(&self) -> &Statements {
        &self.inner.sql
    }

    pub(crate) fn name(&self) -> &str {
        &self.inner.pool.name
    }

    /// A failure of one of the store's own statements.
    pub(crate) fn failed(&self, doing: &str, error: sqlx::Error) -> StoreError {
        failed(doing, self.name(), error)
    }

    fn cached_group(&self, group: &Group) -> Option<i32> {
        self.inner.groups.lock().unwrap_or_else(PoisonError::into_inner).get(group).copied()
    }

    /// The number of a group, if it has a row.
    pub(crate) async fn find_group(
        &self,
        connection: &mut PgConnection,
        group: &Group,
    ) -> Result<Option<i32>, StoreError> {
        if let Some(id) = self.cached_group(group) {
            return Ok(Some(id));
        }
        let found =
            query(&self.sql().find_group).bind(group.as_str().to_owned()).fetch_optional(connection).await;
        let found = found.and_then(|row| row.map(|row| row.try_get(0)).transpose());
        let found: Option<i32> = found.map_err(|e| self.failed("looking up a group", e))?;
        if let Some(id) = found {
            self.inner.groups.lock().unwrap_or_else(PoisonError::into_inner).insert(group.clone(), id);
        }
        Ok(found)
    }

    /// The number of a group, whose row is made if it is missing: in a transaction of its own, because others
    /// would wait for its end.
    pub(crate) async fn group_id(
        &self,
        connection: &mut PgConnection,
        group: &Group,
    ) -> Result<i32, StoreError> {
        if let Some(id) = self.find_group(connection, group).await? {
            return Ok(id);
        }
        let doing = "making a group";
        let mut own = self.inner.pool.beside(doing).await?;
        query(&self.sql().add_group)
            .bind(group.as_str().to_owned())
            .execute(&mut own)
            .await
            .map_err(|e| self.failed(doing, e))?;
        match self.find_group(&mut own, group).await? {
            Some(id) => Ok(id),
            None => {
                let message = format!("{doing} in {}: the row was not kept; look for triggers", self.name());
                Err(StoreError::failed(FaultClass::Permanent, message))
            }
        }
    }

    /// Opens a transaction of the store's own, beside units of work.
    pub(crate) async fn begin_own(&self) -> Result<PostgresTx, StoreError> {
        let mut limits = TxLimits::default();
        limits.lock_timeout = OWN_LOCK_TIMEOUT;
        let wait = format!("; SET LOCAL lock_timeout = {}", lock_timeout_ms(&limits));
        self.begin_with(&limits, &wait).await
    }

    /// Commits a transaction of the store's own.
    pub(crate) async fn commit_own(&self, doing: &str, tx: PostgresTx) -> Result<(), StoreError> {
        match self.commit(tx).await {
            Ok(()) => Ok(()),
            Err(CommitError::RolledBack { class, message, source }) => {
                Err(StoreError::Failed { class, message: format!("{doing}: {message}"), source })
            }
            Err(other) => Err(StoreError::failed(FaultClass::Outage, format!("{doing}: {other}"))),
        }
    }

    /// Ends a transaction in which nothing was written.
    pub(crate) async fn done_reading(&self, tx: PostgresTx) {
        // What was read is right whatever becomes of the connection.
        let _read = self.rollback(tx).await;
    }

    async fn begin_with(&self, limits: &TxLimits, further: &str) -> Result<PostgresTx, StoreError> {
        let sql = format!(
            "{}; SET LOCAL statement_timeout = {}; SET LOCAL idle_in_transaction_session_timeout = {}; {}{further}",
            self.inner.begin,
            whole_ms(limits.statement_timeout),
            whole_ms(limits.idle_timeout),
            commit::OPEN,
        );
        let conn = self.inner.pool.begin("opening a transaction", &sql).await?;
        Ok(PostgresTx::new(conn, limits))
    }

    /// Bounds one of the store's own steps in a unit's transaction, beyond what the server was told.
    pub(crate) async fn within<T>(
        &self,
        doing: &str,
        patience: Duration,
        step: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        match timeout(patience, step).await {
            Ok(outcome) => outcome,
            Err(_) => {
                let waited_s = patience.as_secs();
                let message = format!("{doing} in {} failed: no answer within {waited_s} s", self.name());
                Err(StoreError::failed(FaultClass::Outage, message))
            }
        }
    }
}

#[async_trait]
impl InboxStore for PostgresStore {
    type Tx = PostgresTx;

    /// One round trip. A call that is dropped leaves no transaction open: its connection is closed.
    async fn begin(&self, limits: &TxLimits) -> Result<PostgresTx, StoreError> {
        self.begin_with(limits, "").await
    }

    /// One round trip when all are fresh, two otherwise.
    async fn claim(
        &self,
        tx: &mut PostgresTx,
        group: &Group,
        requests: &[ClaimRequest],
    ) -> Result<Vec<Claim>, StoreError> {
        let patience = tx.patience();
        let work = async {
            let group_id = self.group_id(tx, group).await?;
            let claimed = std::mem::take(&mut tx.claimed);
            let mode = Mode::Unit { lock_timeout_ms: lock_timeout_ms(&tx.limits) };
            let is_own = |key: &ClaimKey| claimed.contains(&(group_id, key.clone()));
            let claims = claims::claim(tx, self.sql(), self.name(), group_id, requests, mode, is_own).await;
            tx.claimed = claimed;
            let claims = claims?;
            let fresh = requests.iter().zip(&claims).filter(|(_, claim)| **claim == Claim::Fresh);
            tx.claimed.extend(fresh.map(|(request, _)| (group_id, request.key.clone())));
            Ok(claims)
        };
        self.within("claiming", patience, work).await
    }

    /// One round trip, in which the server makes sure that the transaction is still the one that was begun.
    async fn commit(&self, tx: PostgresTx) -> Result<(), CommitError> {
        commit::commit(self.name(), tx).await
    }

    /// Waits for a reply for 2 s at most; then the connection is closed, and the server told to end what it
    /// is doing.
    async fn rollback(&self, tx: PostgresTx) -> Result<(), StoreError> {
        let Some(conn) = tx.take() else { return Ok(()) };
        conn.rollback(ROLLBACK_WAIT).await.map_err(|e| self.failed("rolling back", e))
    }

    async fn resolve(&self, group: &Group, keys: &[ClaimKey]) -> Result<Vec<Resolution>, StoreError> {
        let mut tx = self.begin_own().await?;
        let patience = tx.patience();
        let work = async {
            match self.find_group(&mut tx, group).await? {
                Some(group_id) => self.resolve_keys(&mut tx, group_id, keys).await,
                // Groups are committed before their first claim is made.
                None => Ok(vec![Resolution::Absent; keys.len()]),
            }
        };
        let resolutions = self.within("looking up claims", patience, work).await;
        let _nothing_was_kept = self.rollback(tx).await;
        resolutions
    }

    /// By the SQLSTATE. Lost connections, an operator's shutdown, missing resources and damage are an outage;
    /// serialization failures and deadlocks are contention; what was sent into a transaction that had been
    /// aborted or ended, or that was idle for too long, is `Aborted`; a statement that took too long is the
    /// handler's fault; violated constraints, bad data and bad statements are permanent; everything else is
    /// the handler's fault.
    fn classify(&self, error: &(dyn Error + 'static)) -> FaultClass {
        if let Some(error) = error.downcast_ref::<sqlx::Error>() {
            return class_of(error);
        }
        if let Some(error) = error.downcast_ref::<StatementError>() {
            return class_of(error.driver());
        }
        error.downcast_ref::<PgDatabaseError>().map_or(FaultClass::HandlerFault, class_of_database)
    }

    fn describe(&self) -> String {
        self.name().to_owned()
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PostgresStore({})", self.name())
    }
}
