//! How a store is connected.

use crate::{OpenError, PostgresStore, schema, url};
use sqlx::{ConnectOptions as _, postgres::PgConnectOptions};
use std::time::Duration;

/// How much of what others do at the same time a transaction sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Isolation {
    /// Each statement sees what was committed before it. PostgreSQL's own default, and enough for claims.
    #[default]
    ReadCommitted,
    /// All statements see what was committed before the first. Transactions that write the same rows fail as
    /// contention and are run again.
    RepeatableRead,
    /// As if transactions came one after the other. More of them fail as contention and are run again.
    Serializable,
}

impl Isolation {
    pub(crate) fn as_sql(self) -> &'static str {
        match self {
            Self::ReadCommitted => "READ COMMITTED",
            Self::RepeatableRead => "REPEATABLE READ",
            Self::Serializable => "SERIALIZABLE",
        }
    }
}

/// Settings of a [`PostgresStore`]; begin with [`PostgresStore::options`] or
/// [`from`](PostgresOptions::from) sqlx's own.
#[derive(Debug, Clone)]
#[must_use = "options do nothing until a store is connected with them"]
pub struct PostgresOptions {
    pub(crate) connect: PgConnectOptions,
    pub(crate) schema: Option<String>,
    pub(crate) prefix: String,
    pub(crate) isolation: Isolation,
    pub(crate) connections_max: u32,
    pub(crate) acquire_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) migrate: bool,
    pub(crate) transaction_pooling: bool,
    pub(crate) accept_lost_commits: bool,
}

impl From<PgConnectOptions> for PostgresOptions {
    fn from(connect: PgConnectOptions) -> Self {
        Self {
            // The server is told what runs, not the log of this program.
            connect: connect.disable_statement_logging(),
            schema: None,
            prefix: "inbox_".into(),
            isolation: Isolation::ReadCommitted,
            connections_max: 10,
            acquire_timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(10),
            migrate: true,
            transaction_pooling: false,
            accept_lost_commits: false,
        }
    }
}

impl PostgresOptions {
    pub(crate) fn parse(url: &str) -> Result<Self, OpenError> {
        url::parse(url).map(Self::from)
    }

    /// The schema of the store's tables, made if it is missing: 1 to 63 of `a-z`, `0-9` and `_`, the first
    /// one no digit. By default the first one of the connection's search path.
    pub fn schema(mut self, schema: impl Into<String>) -> Self {
        self.schema = Some(schema.into());
        self
    }

    /// What the names of the store's tables begin with: 1 to 31 of `a-z`, `0-9` and `_`, the first one no
    /// digit. `inbox_` by default.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// The isolation level of the units of work. [`Isolation::ReadCommitted`] by default.
    pub fn isolation(mut self, isolation: Isolation) -> Self {
        self.isolation = isolation;
        self
    }

    /// How many connections there may be at a time, at least 1; one per lane of the runner, and one more for
    /// what is done beside them. 10 by default.
    pub fn connections_max(mut self, connections_max: u32) -> Self {
        self.connections_max = connections_max.max(1);
        self
    }

    /// How long a call waits for one of the connections. 30 s by default.
    pub fn acquire_timeout(mut self, acquire_timeout: Duration) -> Self {
        self.acquire_timeout = acquire_timeout;
        self
    }

    /// How long making a connection may take. 10 s by default.
    pub fn connect_timeout(mut self, connect_timeout: Duration) -> Self {
        self.connect_timeout = connect_timeout;
        self
    }

    /// Whether connecting brings the store's tables up to date. It does by default; without, they must be
    /// there: run what [`schema_sql`](PostgresOptions::schema_sql) gives.
    pub fn migrate(mut self, migrate: bool) -> Self {
        self.migrate = migrate;
        self
    }

    /// For a pooler such as PgBouncer in transaction mode, where each transaction may run on another
    /// connection of the server: no named prepared statements, no settings of sessions. Handlers have to
    /// say [`persistent(false)`](sqlx::query::Query::persistent) on their queries, unless the pooler knows
    /// prepared statements (PgBouncer 1.21 with `max_prepared_statements`).
    ///
    /// One guard is missing then: what a handler writes after it has sent `ROLLBACK` itself is stored, while
    /// its message counts as failed.
    pub fn transaction_pooling(mut self, transaction_pooling: bool) -> Self {
        self.transaction_pooling = transaction_pooling;
        self
    }

    /// Connects also to a server that forgets commits in a crash (`fsync = off` or `synchronous_commit = off`):
    /// **messages that were acknowledged can be lost then**. For tests, and for data that can be had again.
    pub fn accept_lost_commits(mut self, accept: bool) -> Self {
        self.accept_lost_commits = accept;
        self
    }

    /// Connects, checks that the server can keep the store's promises, and brings the tables up to date.
    ///
    /// # Errors
    /// [`OpenError`].
    pub async fn connect(self) -> Result<PostgresStore, OpenError> {
        PostgresStore::open(self).await
    }

    /// The statements that make the store's tables, for those who run their migrations themselves.
    ///
    /// # Errors
    /// [`OpenError::Name`].
    pub fn schema_sql(&self) -> Result<String, OpenError> {
        self.check_names()?;
        Ok(schema::script(self.schema.as_deref(), &self.prefix))
    }

    pub(crate) fn check_names(&self) -> Result<(), OpenError> {
        schema::check_name("table prefix", &self.prefix, 31)?;
        self.schema.as_deref().map_or(Ok(()), |schema| schema::check_name("schema", schema, 63))
    }

    /// The connection's settings as they are used.
    pub(crate) fn driver(&self) -> PgConnectOptions {
        let mut connect = self.connect.clone();
        if connect.get_application_name().is_none() {
            connect = connect.application_name("inbox");
        }
        if self.transaction_pooling {
            // PgBouncer refuses start-up parameters that it does not know.
            connect = connect.extra_float_digits(None);
        }
        connect
    }

    /// What errors and logs call the database, without user and password.
    pub(crate) fn describe(&self) -> String {
        let database = self.connect.get_database().unwrap_or_else(|| self.connect.get_username());
        let place = match self.connect.get_socket() {
            Some(socket) => socket.display().to_string(),
            None => format!("{}:{}", self.connect.get_host(), self.connect.get_port()),
        };
        format!("postgres://{place}/{database}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_holds_no_secret() {
        let options = PostgresOptions::parse("postgres://me:s3cret@db.example:6543/shop").unwrap();
        assert_eq!(options.describe(), "postgres://db.example:6543/shop");
        for url in ["postgres://me:s3cret@db.example:port/shop", "mysql//s3cret", "s3cret"] {
            if let Err(error) = PostgresOptions::parse(url) {
                assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
            }
        }
    }
}
