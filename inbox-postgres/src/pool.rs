//! The store's connections. One that may be in any state but "nothing open" is closed, never kept.

use crate::{
    OpenError, PostgresOptions,
    error::{advice, failed, one_line},
    schema,
};
use inbox_core::{FaultClass, StoreError};
use sqlx::{AssertSqlSafe, Connection as _, Error, PgConnection, Row as _, raw_sql};
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

/// The oldest server that is known to work.
const SERVER_VERSION_MIN: i32 = 130_000;

/// What is asked of a server on every new connection.
const LOOK: &str = "SELECT current_setting('server_version_num'), pg_is_in_recovery()::text, \
     current_setting('fsync'), current_setting('synchronous_commit'), \
     current_setting('default_transaction_read_only'), current_setting('server_encoding'), \
     pg_backend_pid()::text, \
     coalesce((SELECT backend_start::text FROM pg_stat_get_activity(pg_backend_pid())), ''), \
     coalesce(current_schema()::text, '')";

/// What a handler writes after it has ended the unit's transaction by itself is refused by this.
const READ_ONLY_OUTSIDE: &str = "; SET SESSION default_transaction_read_only = on";

/// The process on the server's side, by which a statement that nobody waits for can be ended.
#[derive(Debug, Clone)]
struct Backend {
    pid: i32,
    started: String,
}

/// A connection that is lent, with the right to have one. Dropped, it is closed, and the server rolls back.
pub(crate) struct Conn {
    pub(crate) driver: PgConnection,
    backend: Backend,
    /// Whether it has served before.
    reused: bool,
    pool: Arc<Pool>,
    permit: OwnedSemaphorePermit,
}

struct Idle {
    driver: PgConnection,
    backend: Backend,
}

/// The connections that wait, and how to make further ones.
pub(crate) struct Pool {
    options: PostgresOptions,
    pub(crate) name: String,
    permits: Arc<Semaphore>,
    idle: Mutex<Vec<Idle>>,
}

impl Pool {
    pub(crate) fn new(options: PostgresOptions) -> Self {
        Self {
            name: options.describe(),
            permits: Arc::new(Semaphore::new(options.connections_max as usize)),
            idle: Mutex::new(Vec::new()),
            options,
        }
    }

    /// Makes the first connection, and brings the tables up to date. Gives the schema they are in.
    pub(crate) async fn open(self: &Arc<Self>) -> Result<String, OpenError> {
        let (mut idle, search_path) = self.make().await?;
        let schema = match &self.options.schema {
            Some(schema) => schema.clone(),
            None if search_path.is_empty() => {
                let why = "no schema of its search_path exists: name one with schema()".to_owned();
                return Err(OpenError::Unsafe { place: self.name.clone(), why, passing: false });
            }
            None => search_path,
        };
        let place = schema::Place { database: &self.name, schema: &schema, prefix: &self.options.prefix };
        place.migrate(&mut idle.driver, self.options.migrate).await?;
        self.idle().push(idle);
        Ok(schema)
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a connection and looks at the server. Gives the first schema of its search path, too.
    async fn make(&self) -> Result<(Idle, String), OpenError> {
        let made = timeout(self.options.connect_timeout, async {
            let mut driver = PgConnection::connect_with(&self.options.driver()).await?;
            let mut sql = LOOK.to_owned();
            if !self.options.transaction_pooling {
                sql.push_str(READ_ONLY_OUTSIDE);
            }
            let row = raw_sql(AssertSqlSafe(sql)).fetch_one(&mut driver).await?;
            let texts: Result<Vec<String>, Error> = (0..9).map(|column| row.try_get(column)).collect();
            Ok::<_, Error>((driver, texts?))
        });
        let (driver, texts) = match made.await {
            Ok(Ok(made)) => made,
            Ok(Err(error)) => {
                return Err(OpenError::Connect {
                    place: self.name.clone(),
                    reason: one_line(&error),
                    advice: advice(&error),
                    source: error.into(),
                });
            }
            Err(_) => {
                let waited_s = self.options.connect_timeout.as_secs();
                return Err(OpenError::NoAnswer { place: self.name.clone(), waited_s });
            }
        };
        let look = Look { texts: &texts, accept_lost_commits: self.options.accept_lost_commits };
        if let Some((why, passing)) = look.objection() {
            return Err(OpenError::Unsafe { place: self.name.clone(), why, passing });
        }
        let backend = Backend { pid: texts[6].parse().unwrap_or_default(), started: texts[7].clone() };
        Ok((Idle { driver, backend }, texts[8].clone()))
    }

    /// A connection on which nothing is open; a new one when none waits.
    pub(crate) async fn acquire(self: &Arc<Self>) -> Result<Conn, StoreError> {
        let permit = timeout(self.options.acquire_timeout, Arc::clone(&self.permits).acquire_owned()).await;
        let permit = match permit {
            Ok(Ok(permit)) => permit,
            _ => {
                let (max, waited_s) = (self.options.connections_max, self.options.acquire_timeout.as_secs());
                let message = format!(
                    "all {max} connections to {} were in use for {waited_s} s; raise connections_max, or have fewer lanes",
                    self.name
                );
                return Err(StoreError::failed(FaultClass::Outage, message));
            }
        };
        let waiting = self.idle().pop();
        let (idle, reused) = match waiting {
            Some(idle) => (idle, true),
            None => {
                let made = self.make().await;
                // While the program runs, whatever a server says on connecting can pass.
                let (idle, _) =
                    made.map_err(|e| StoreError::failed(FaultClass::Outage, e.to_string()).caused_by(e))?;
                (idle, false)
            }
        };
        let Idle { driver, backend } = idle;
        Ok(Conn { driver, backend, reused, pool: Arc::clone(self), permit })
    }

    /// Acquires a connection and runs the statements that open a transaction. One that was lost while it
    /// waited is told from a server that is gone.
    pub(crate) async fn begin(self: &Arc<Self>, doing: &str, sql: &str) -> Result<Conn, StoreError> {
        loop {
            let mut conn = self.acquire().await?;
            let opened = timeout(self.options.connect_timeout, conn.open(sql)).await;
            match opened {
                Ok(Ok(())) => return Ok(conn),
                Ok(Err(error)) if conn.reused && crate::error::is_lost(&error) => {
                    // Most likely all were lost together.
                    self.idle().clear();
                }
                Ok(Err(error)) => {
                    // A server that became a standby refuses to open a transaction that writes.
                    let class = match crate::error::class_of(&error) {
                        FaultClass::Contention => FaultClass::Contention,
                        _ => FaultClass::Outage,
                    };
                    return Err(match failed(doing, &self.name, error) {
                        StoreError::Failed { message, source, .. } => {
                            StoreError::Failed { class, message, source }
                        }
                        other => other,
                    });
                }
                Err(_) => {
                    let waited_s = self.options.connect_timeout.as_secs();
                    let message = format!(
                        "{doing} in {} failed: the server has not answered for {waited_s} s",
                        self.name
                    );
                    return Err(StoreError::failed(FaultClass::Outage, message));
                }
            }
        }
    }

    /// A connection for one statement beside the others, closed behind it: whoever needs it may hold one
    /// already, and must not wait for another one's end.
    pub(crate) async fn beside(&self, doing: &str) -> Result<PgConnection, StoreError> {
        let made =
            timeout(self.options.connect_timeout, PgConnection::connect_with(&self.options.driver())).await;
        match made {
            Ok(made) => made.map_err(|e| failed(doing, &self.name, e)),
            Err(_) => {
                let message = format!("{doing} in {} failed: the server does not answer", self.name);
                Err(StoreError::failed(FaultClass::Outage, message))
            }
        }
    }

    /// Ends the statement of a connection that nobody waits for any more, so that its locks end.
    async fn terminate(self: Arc<Self>, backend: Backend) {
        let work = async {
            let mut driver = PgConnection::connect_with(&self.options.driver()).await?;
            // The start tells the process from a later one with the same number.
            sqlx::query(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = $1 AND backend_start::text = $2",
            )
            .bind(backend.pid)
            .bind(backend.started)
            .execute(&mut driver)
            .await?;
            driver.close().await
        };
        match timeout(self.options.connect_timeout, work).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::debug!(target: "inbox", error = %one_line(&error), "a statement could not be ended");
            }
            Err(_) => tracing::debug!(target: "inbox", "a statement could not be ended in time"),
        }
    }
}

impl Conn {
    /// Opens a transaction. sqlx counts it as one from the first time on for ever, so that a handler's
    /// `begin` makes a savepoint, and never a transaction whose commit would be ours.
    async fn open(&mut self, sql: &str) -> Result<(), Error> {
        let sql = AssertSqlSafe(sql.to_owned());
        if self.driver.is_in_transaction() {
            return raw_sql(sql).execute(&mut self.driver).await.map(drop);
        }
        // Its drop would roll back. It holds nothing but a borrow.
        std::mem::forget(self.driver.begin_with(sql).await?);
        Ok(())
    }

    /// Ends the transaction without a trace. A reply that is still to come is not waited for any longer than
    /// `wait`; then the connection is closed, and the server told to end what it is doing.
    pub(crate) async fn rollback(mut self, wait: Duration) -> Result<(), Error> {
        match timeout(wait, raw_sql("ROLLBACK").execute(&mut self.driver)).await {
            Ok(Ok(_)) => {
                self.give_back();
                Ok(())
            }
            Ok(Err(error)) => Err(error),
            Err(_) => {
                self.abandon();
                Ok(())
            }
        }
    }

    /// Closes a connection on which a statement may still run.
    pub(crate) fn abandon(self) {
        let (pool, backend) = (Arc::clone(&self.pool), self.backend.clone());
        drop(self);
        if pool.options.transaction_pooling {
            return;
        }
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(pool.terminate(backend));
        }
    }

    /// Keeps the connection for others. Nothing is open on it.
    pub(crate) fn give_back(self) {
        let Self { driver, backend, pool, permit, .. } = self;
        // Before the permit ends, so that whoever gets it finds the connection.
        pool.idle().push(Idle { driver, backend });
        drop(permit);
    }
}

/// What a server said about itself.
struct Look<'l> {
    texts: &'l [String],
    accept_lost_commits: bool,
}

impl Look<'_> {
    /// Why it cannot be used, and whether that can pass by itself.
    fn objection(&self) -> Option<(String, bool)> {
        let [version, recovery, fsync, synchronous, read_only, encoding, ..] = self.texts else {
            return Some(("it does not answer as PostgreSQL does".into(), false));
        };
        if version.parse().is_ok_and(|version: i32| version < SERVER_VERSION_MIN) {
            return Some((
                format!("it is PostgreSQL {}; 13 or newer is needed", version_text(version)),
                false,
            ));
        }
        if recovery == "true" {
            return Some(("it is a standby and cannot write; connect to the primary".into(), true));
        }
        if read_only == "on" {
            let why =
                "default_transaction_read_only is on: somebody wants nothing to be written; turn it off";
            return Some((why.into(), true));
        }
        if encoding != "UTF8" {
            return Some((format!("its encoding is {encoding}; make a database with UTF8"), false));
        }
        for (setting, value) in [("fsync", fsync), ("synchronous_commit", synchronous)] {
            if value == "off" && !self.accept_lost_commits {
                let why = format!(
                    "{setting} is off, so a crash of the server can lose messages that were acknowledged; \
                     turn it on (programs can accept that by accept_lost_commits(true))"
                );
                return Some((why, false));
            }
        }
        None
    }
}

fn version_text(number: &str) -> String {
    number
        .parse::<i32>()
        .map_or_else(|_| number.to_owned(), |number| format!("{}.{}", number / 10_000, number % 100))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn objection(changed: usize, to: &str) -> Option<String> {
        let mut texts: Vec<String> =
            ["150004", "false", "on", "on", "off", "UTF8", "1", "", "public"].map(str::to_owned).to_vec();
        texts[changed] = to.to_owned();
        Look { texts: &texts, accept_lost_commits: false }.objection().map(|(why, _)| why)
    }

    #[test]
    fn servers_that_would_break_a_promise_are_refused() {
        assert_eq!(objection(0, "150004"), None);
        assert_eq!(objection(3, "remote_apply"), None);
        for (changed, to, word) in [
            (0, "120003", "12.3"),
            (1, "true", "standby"),
            (2, "off", "fsync"),
            (3, "off", "synchronous_commit"),
            (4, "on", "default_transaction_read_only"),
            (5, "LATIN1", "LATIN1"),
        ] {
            assert!(objection(changed, to).is_some_and(|why| why.contains(word)), "{to}");
        }
    }
}
