//! The store: one connection, one writer thread, and the transactions on them.

use crate::{
    OpenError, SqliteOptions, SqliteTx, claims,
    connection::{FileIdentity, LOCK_TIMEOUT_MAX, Place, Writer, warn_about_old_sqlite},
    error::{advice, class_of, class_of_call, failed, one_line},
    schema,
    statements::Statements,
    tx::Slot,
    writer::WriterThread,
};
use async_trait::async_trait;
use inbox_core::{
    Claim, ClaimKey, ClaimRequest, CommitError, FaultClass, Group, InboxStore, Resolution, StoreError,
    TxLimits,
};
use rusqlite::{Connection, OptionalExtension};
use std::{
    collections::HashMap,
    error::Error,
    fmt,
    future::Future,
    path::Path,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

/// A transactional inbox in a SQLite database. Cloning shares the connection.
///
/// One store has one connection, so its transactions come one after the other: whoever opens one waits
/// until the one before has ended. A handler must therefore not call the store that lent it its
/// transaction; it would wait for itself.
///
/// Units of work run on the store's own thread. Outside of them, in tests or in administration, a call
/// blocks the thread it is awaited on for the time that SQLite takes, at most
/// [`lock_timeout`](TxLimits::lock_timeout) for a foreign lock, and the statements.
///
/// [`TxLimits::statement_timeout`] is counted from the moment a handler last reached through its
/// transaction handle for the connection. [`TxLimits::idle_timeout`] has no meaning in a database without
/// a server; the runner's time-out for handlers bounds how long a transaction stays open.
#[derive(Clone)]
pub struct SqliteStore {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    place: Place,
    options: SqliteOptions,
    pub(crate) name: String,
    pub(crate) sql: Statements,
    slot: Arc<AsyncMutex<Slot>>,
    /// Committed rows of groups, which are never removed.
    groups: Mutex<HashMap<Group, i64>>,
    thread: WriterThread,
    /// The file as it was opened first.
    identity: Option<FileIdentity>,
    /// Whether running statements have to stop.
    stop: Arc<AtomicBool>,
}

impl SqliteStore {
    /// Settings to open a store with.
    pub fn options() -> SqliteOptions {
        SqliteOptions::default()
    }

    /// Opens the database at `path`, and creates it if it is not there, with the default settings.
    ///
    /// # Errors
    /// [`OpenError`], which names the file.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        Self::options().open(path)
    }

    /// Opens a database in memory, for tests: nothing of it is durable.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn in_memory() -> Result<Self, OpenError> {
        Self::options().open_in_memory()
    }

    /// The statements that make the tables with the default prefix, for those who run their migrations
    /// themselves.
    pub fn schema_sql() -> String {
        schema::script(&SqliteOptions::default().prefix)
    }

    pub(crate) fn open_file(options: SqliteOptions, path: &Path) -> Result<Self, OpenError> {
        Self::open_place(options, Place::file(path)?)
    }

    pub(crate) fn open_memory(options: SqliteOptions) -> Result<Self, OpenError> {
        Self::open_place(options, Place::Memory)
    }

    fn open_place(options: SqliteOptions, place: Place) -> Result<Self, OpenError> {
        schema::check_prefix(&options.prefix)?;
        warn_about_old_sqlite();
        let stop = Arc::new(AtomicBool::new(false));
        let writer = Writer::open(&place, &options, options.create, &stop)?;
        let inner = Inner {
            identity: place.identity(),
            stop,
            name: format!("sqlite:{}", place.path().display()),
            sql: Statements::new(&options.prefix),
            place,
            options,
            slot: Arc::new(AsyncMutex::new(Some(writer))),
            groups: Mutex::new(HashMap::new()),
            thread: WriterThread::start()?,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Claims inside a transaction of your own on a connection of your own: the library mode, for
    /// programs that have their own loop. Give it a transaction that was begun `IMMEDIATE`; a deferred
    /// one can fail as busy although nobody holds the lock any more.
    ///
    /// The connection must be to the store's database. Commit before you acknowledge.
    ///
    /// # Errors
    /// [`StoreError`]; the transaction must be rolled back. It is an error to call it outside of a
    /// transaction.
    pub fn claim_in(
        &self,
        connection: &Connection,
        group: &Group,
        requests: &[ClaimRequest],
    ) -> Result<Vec<Claim>, StoreError> {
        if connection.is_autocommit() {
            let message =
                format!("claiming in {} needs an open transaction; begin one first", self.inner.name);
            return Err(StoreError::failed(FaultClass::Permanent, message));
        }
        let sql = &self.inner.sql;
        let group_id = match self.inner.cached_group(group) {
            Some(id) => id,
            None => claims::make_group(connection, sql, group).map_err(|e| self.failed("claiming", e))?,
        };
        claims::claim(connection, sql, group_id, requests, &[]).map_err(|e| e.told(&self.inner.name))
    }

    /// A failure of one of the store's own statements.
    pub(crate) fn failed(&self, doing: &str, error: rusqlite::Error) -> StoreError {
        failed(doing, &self.inner.name, error)
    }

    /// The number of a group, whose row is made if it is missing.
    pub(crate) fn group_id(&self, tx: &mut SqliteTx, group: &Group) -> rusqlite::Result<i64> {
        if let Some(id) = self.inner.cached_group(group) {
            return Ok(id);
        }
        if let Some((_, id)) = tx.groups.iter().find(|(known, _)| known == group) {
            return Ok(*id);
        }
        let id = claims::make_group(tx, &self.inner.sql, group)?;
        tx.groups.push((group.clone(), id));
        Ok(id)
    }

    /// The number of a group, if it has a row.
    pub(crate) fn find_group(&self, connection: &Connection, group: &Group) -> rusqlite::Result<Option<i64>> {
        if let Some(id) = self.inner.cached_group(group) {
            return Ok(Some(id));
        }
        let mut find = connection.prepare_cached(&self.inner.sql.find_group)?;
        find.query_row([group.as_str()], |row| row.get(0)).optional()
    }

    /// Refuses to go on in a transaction that is no longer there: what is written would not belong to it.
    pub(crate) fn check_open(&self, tx: &SqliteTx) -> Result<(), StoreError> {
        match tx.gone() {
            Some(why) => {
                Err(StoreError::failed(FaultClass::HandlerFault, format!("{}: {why}", self.inner.name)))
            }
            None => Ok(()),
        }
    }

    async fn slot(&self) -> OwnedMutexGuard<Slot> {
        Arc::clone(&self.inner.slot).lock_owned().await
    }

    /// Reads on the connection, between transactions.
    pub(crate) async fn read<T>(
        &self,
        doing: &str,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send,
    ) -> Result<T, StoreError> {
        let mut slot = self.slot().await;
        let writer = match slot.take() {
            Some(writer) => writer,
            None => self.inner.reopen()?,
        };
        let outcome = read(&writer.connection);
        *slot = Some(writer);
        outcome.map_err(|e| self.failed(doing, e))
    }

    /// Does `work` in a transaction of its own.
    pub(crate) async fn transact<T>(
        &self,
        doing: &str,
        work: impl FnOnce(&mut SqliteTx) -> Result<T, StoreError> + Send,
    ) -> Result<T, StoreError> {
        let slot = self.slot().await;
        // Nobody tries again for these: they wait as long as opening does.
        let mut limits = TxLimits::default();
        limits.lock_timeout = self.inner.options.open_timeout;
        let mut tx = self.inner.begin(slot, &limits)?;
        let done = work(&mut tx)?;
        match self.inner.commit(tx) {
            Ok(()) => Ok(done),
            Err(CommitError::RolledBack { class, message, source }) => {
                Err(StoreError::Failed { class, message: format!("{doing}: {message}"), source })
            }
            Err(other) => Err(StoreError::failed(FaultClass::Outage, format!("{doing}: {other}"))),
        }
    }
}

impl Inner {
    fn cached_group(&self, group: &Group) -> Option<i64> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner).get(group).copied()
    }

    /// Opens the database again after its connection was lost. The file must still be there: an empty new
    /// one would let every message be applied once more.
    fn reopen(&self) -> Result<Writer, StoreError> {
        if matches!(self.place, Place::Memory) {
            return Err(StoreError::failed(
                FaultClass::Permanent,
                "the database in memory is gone, because its connection was lost; start again",
            ));
        }
        Writer::open(&self.place, &self.options, false, &self.stop)
            .map_err(|e| StoreError::failed(e.class(), e.to_string()).caused_by(e))
    }

    fn begin(&self, mut slot: OwnedMutexGuard<Slot>, limits: &TxLimits) -> Result<SqliteTx, StoreError> {
        // Otherwise the connection would go on writing into a file that nobody finds any more.
        match self.identity.map(|known| (known, self.place.identity())) {
            Some((_, None)) => {
                let message = format!("{} is not there any more; put it back, or stop", self.name);
                return Err(StoreError::failed(FaultClass::Outage, message));
            }
            Some((known, Some(found))) if known != found => {
                let message =
                    format!("{} was replaced by another file while it was in use; start again", self.name);
                return Err(StoreError::failed(FaultClass::Permanent, message));
            }
            _ => {}
        }
        self.stop.store(false, Ordering::Relaxed);
        let writer = match slot.take() {
            Some(writer) => writer,
            None => self.reopen()?,
        };
        let begun = writer
            .connection
            .busy_timeout(limits.lock_timeout.min(LOCK_TIMEOUT_MAX))
            .and_then(|()| writer.run("BEGIN IMMEDIATE"));
        if let Err(error) = begun {
            // After an outage a new connection tells more than an old one.
            let keep = class_of_call(&error) != FaultClass::Outage || matches!(self.place, Place::Memory);
            if keep && writer.connection.is_autocommit() {
                *slot = Some(writer);
            }
            return Err(failed("opening a transaction", &self.name, error));
        }
        writer.guard.lent(limits.statement_timeout);
        Ok(SqliteTx::new(writer, slot))
    }

    fn commit(&self, tx: SqliteTx) -> Result<(), CommitError> {
        if let Some(why) = tx.gone() {
            return Err(CommitError::rolled_back(FaultClass::HandlerFault, format!("{}: {why}", self.name)));
        }
        let (Some(writer), mut tx) = tx.take() else {
            return Err(CommitError::rolled_back(
                FaultClass::HandlerFault,
                "the transaction has ended before",
            ));
        };
        writer.guard.ending();
        match writer.run("COMMIT") {
            Ok(()) if writer.guard.commit_passed() => {
                let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
                groups.extend(tx.groups.drain(..));
                drop(groups);
                tx.keep(writer);
                Ok(())
            }
            // The handler replaced the hook or exchanged the connection. Dropping it leaves only committed rows.
            Ok(()) => Err(CommitError::InDoubt {
                message: format!("{}: the hooks of the connection were replaced by the handler", self.name),
            }),
            Err(error) => {
                let was_ended = writer.connection.is_autocommit();
                if was_ended && !writer.guard.rolled_back() {
                    // The commit went through, and something after it failed.
                    return Err(CommitError::InDoubt {
                        message: format!("committing in {} failed late: {}", self.name, one_line(&error)),
                    });
                }
                tx.give_back(writer);
                let message = format!(
                    "committing in {} failed: {}{}; nothing is stored",
                    self.name,
                    one_line(&error),
                    advice(&error)
                );
                Err(CommitError::rolled_back(class_of(&error), message).caused_by(error))
            }
        }
    }
}

#[async_trait]
impl InboxStore for SqliteStore {
    type Tx = SqliteTx;

    async fn begin(&self, limits: &TxLimits) -> Result<SqliteTx, StoreError> {
        let slot = self.slot().await;
        self.inner.begin(slot, limits)
    }

    async fn claim(
        &self,
        tx: &mut SqliteTx,
        group: &Group,
        requests: &[ClaimRequest],
    ) -> Result<Vec<Claim>, StoreError> {
        self.check_open(tx)?;
        let group_id = self.group_id(tx, group).map_err(|e| self.failed("claiming", e))?;
        let claims = claims::claim(tx, &self.inner.sql, group_id, requests, &tx.claimed)
            .map_err(|e| e.told(&self.inner.name))?;
        let fresh = requests.iter().zip(&claims).filter(|(_, claim)| **claim == Claim::Fresh);
        tx.claimed.extend(fresh.map(|(request, _)| (group_id, request.key.clone())));
        Ok(claims)
    }

    async fn commit(&self, tx: SqliteTx) -> Result<(), CommitError> {
        self.inner.commit(tx)
    }

    async fn rollback(&self, tx: SqliteTx) -> Result<(), StoreError> {
        // A connection that cannot roll back is closed, which ends the transaction as well.
        drop(tx);
        Ok(())
    }

    async fn resolve(&self, group: &Group, keys: &[ClaimKey]) -> Result<Vec<Resolution>, StoreError> {
        // With the write lock in hand, nobody else has a transaction open that could commit the keys.
        let slot = self.slot().await;
        let tx = self.inner.begin(slot, &TxLimits::default())?;
        let doing = "looking up claims";
        let Some(group_id) = self.find_group(&tx, group).map_err(|e| self.failed(doing, e))? else {
            return Ok(vec![Resolution::Absent; keys.len()]);
        };
        let found = |key| claims::find(&tx, &self.inner.sql, group_id, key);
        keys.iter()
            .map(|key| match found(key).map_err(|e| self.failed(doing, e))? {
                Some((disposition, fingerprint)) => Ok(Resolution::Committed { disposition, fingerprint }),
                None => Ok(Resolution::Absent),
            })
            .collect()
    }

    /// Constraint, syntax and type errors are permanent; locks are contention; a full or failing disk is an
    /// outage, and so is a damaged or read-only file, for which no message is charged while the store's
    /// own calls end the run; everything else is the handler's fault.
    fn classify(&self, error: &(dyn Error + 'static)) -> FaultClass {
        error.downcast_ref::<rusqlite::Error>().map_or(FaultClass::HandlerFault, class_of)
    }

    /// Runs the unit on the store's own thread, in the order of the calls. When the runtime ends, the unit
    /// is dropped at its next await, and its transaction rolled back.
    ///
    /// # Panics
    /// Outside of a tokio runtime, as the default does.
    fn run_unit(&self, unit: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.inner.thread.run(unit);
    }

    /// Stops the statement that is running in the open transaction, if there is one.
    fn interrupt(&self) {
        self.inner.stop.store(true, Ordering::Relaxed);
    }

    fn describe(&self) -> String {
        self.inner.name.clone()
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SqliteStore({})", self.inner.name)
    }
}
