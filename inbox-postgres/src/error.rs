//! What PostgreSQL's errors mean, and how they are told.

use inbox_core::{FaultClass, StoreError};
use sqlx::{
    Error,
    postgres::{PgDatabaseError, PgSeverity},
};
use std::fmt;

/// A database that could not be connected to, or that cannot keep the store's promises.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// A name of the options is not usable.
    #[error(
        "the {what} {name:?} is not usable: it needs 1 to {bytes_max} of a-z, 0-9 and _, not beginning with a digit"
    )]
    Name {
        /// What it names.
        what: &'static str,
        /// What was asked for.
        name: String,
        /// Its greatest length in bytes.
        bytes_max: usize,
    },
    /// The URL cannot be read.
    #[error(
        "the URL of the PostgreSQL database cannot be read: {reason}; write postgres://user@host:5432/database"
    )]
    Url {
        /// The parser's words on one line, without the URL.
        reason: String,
    },
    /// The URL has a parameter that is not known.
    #[error("the URL of the PostgreSQL database has the unknown parameter {name:?}; there are {known}")]
    Parameter {
        /// The parameter.
        name: String,
        /// Those that there are, besides `options[NAME]`.
        known: &'static str,
    },
    /// TLS is asked for, and this program has none.
    #[error(
        "{what} needs TLS, which this program was built without: build it with the cargo feature tls, or leave that out"
    )]
    NoTls {
        /// What asks for it.
        what: String,
    },
    /// The server could not be reached, or refused.
    #[error("cannot connect to {place}: {reason}{advice}")]
    Connect {
        /// The database, without secrets.
        place: String,
        /// The driver's words on one line.
        reason: String,
        /// What to do next.
        advice: &'static str,
        /// The driver's error.
        #[source]
        source: Box<Error>,
    },
    /// The server took too long.
    #[error(
        "cannot connect to {place}: no answer within {waited_s} s; check that the server runs and can be reached"
    )]
    NoAnswer {
        /// The database, without secrets.
        place: String,
        /// How long it was waited for, in seconds.
        waited_s: u64,
    },
    /// The server would break a promise.
    #[error("{place} cannot be used: {why}")]
    Unsafe {
        /// The database, without secrets.
        place: String,
        /// Which setting, what would happen, what to do.
        why: String,
        /// Whether it may be otherwise in a moment, as after a fail-over.
        passing: bool,
    },
    /// The tables were made by a newer version of this crate, which older ones cannot use.
    #[error(
        "the tables {tables}* in {place} have schema version {found}, this program knows up to {known}: use a newer program"
    )]
    NewerSchema {
        /// The database, without secrets.
        place: String,
        /// Schema and prefix of the tables.
        tables: String,
        /// The version that was found.
        found: i32,
        /// The newest version that this crate knows.
        known: i32,
    },
    /// The tables are missing or old, and may not be changed.
    #[error(
        "the tables {tables}* in {place} have schema version {found}, {known} is needed: run the statements of schema_sql(), or let the store migrate"
    )]
    OldSchema {
        /// The database, without secrets.
        place: String,
        /// Schema and prefix of the tables.
        tables: String,
        /// The version that was found; 0 when there are none.
        found: i32,
        /// The version that is needed.
        known: i32,
    },
    /// The tables could not be made.
    #[error("cannot create the tables {tables}* in {place}: {reason}{advice}")]
    Migrate {
        /// The database, without secrets.
        place: String,
        /// Schema and prefix of the tables.
        tables: String,
        /// The driver's words on one line.
        reason: String,
        /// What to do next.
        advice: &'static str,
        /// The driver's error.
        #[source]
        source: Box<Error>,
    },
}

/// An error of a handler's statement in the server's words and with its SQLSTATE, on one line.
/// [`PostgresStore`](crate::PostgresStore) knows what it means, as it does of sqlx's error itself, whose text
/// also has the line of the server's source, which tells nobody anything.
///
/// ```
/// # use inbox_postgres::{StatementError, sqlx::{PgConnection, query}};
/// # async fn statement(tx: &mut PgConnection) -> Result<(), inbox_core::Failure> {
/// query("DELETE FROM carts").execute(tx).await.map_err(StatementError::from)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct StatementError(Error);

impl StatementError {
    /// sqlx's error.
    pub fn driver(&self) -> &Error {
        &self.0
    }
}

impl From<Error> for StatementError {
    fn from(error: Error) -> Self {
        Self(error)
    }
}

impl fmt::Display for StatementError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&one_line(&self.0))
    }
}

// Its text tells everything: it has no source.
impl std::error::Error for StatementError {}

/// PostgreSQL's own error, if it is one.
pub(crate) fn database_error(error: &Error) -> Option<&PgDatabaseError> {
    match error {
        Error::Database(error) => error.try_downcast_ref(),
        _ => None,
    }
}

/// The SQLSTATE, if there is one.
pub(crate) fn state(error: &Error) -> Option<&str> {
    database_error(error).map(PgDatabaseError::code)
}

/// Whether the connection is of no use any more.
pub(crate) fn is_lost(error: &Error) -> bool {
    match error {
        Error::Io(_) | Error::Tls(_) | Error::Protocol(_) | Error::WorkerCrashed | Error::PoolClosed => true,
        other => database_error(other)
            .is_some_and(|error| matches!(error.severity(), PgSeverity::Fatal | PgSeverity::Panic)),
    }
}

/// What an error of a handler's statement means.
pub(crate) fn class_of(error: &Error) -> FaultClass {
    match error {
        Error::Database(error) => {
            error.try_downcast_ref::<PgDatabaseError>().map_or(FaultClass::HandlerFault, class_of_database)
        }
        Error::Io(_) | Error::Tls(_) | Error::PoolTimedOut | Error::PoolClosed | Error::WorkerCrashed => {
            FaultClass::Outage
        }
        // A reply that cannot be understood, after a server was exchanged or a proxy cut it.
        Error::Protocol(_) => FaultClass::Outage,
        Error::RowNotFound => FaultClass::HandlerFault,
        Error::ColumnNotFound(_)
        | Error::ColumnIndexOutOfBounds { .. }
        | Error::ColumnDecode { .. }
        | Error::Decode(_)
        | Error::Encode(_)
        | Error::TypeNotFound { .. }
        | Error::InvalidArgument(_)
        | Error::Configuration(_)
        | Error::InvalidSavePointStatement
        | Error::BeginFailed => FaultClass::Permanent,
        _ => FaultClass::HandlerFault,
    }
}

/// What PostgreSQL's own error means, by its SQLSTATE.
pub(crate) fn class_of_database(error: &PgDatabaseError) -> FaultClass {
    let code = error.code();
    match code {
        crate::schema::GUARD_STATE => FaultClass::HandlerFault,
        // Whoever meets these may not be to blame, but the handler of another message of the batch, which hid
        // an error, ended the transaction (what is written then is outside of it, where it is read-only), or
        // was idle for too long.
        "25P02" | "25006" | "25P03" | "25P04" => FaultClass::Aborted,
        "40001" | "40P01" | "55P03" => FaultClass::Contention,
        // A statement that took too long.
        "57014" => FaultClass::HandlerFault,
        // A prepared statement that became old, or that a pooler lost: it is prepared again.
        "26000" | "0A000" if error.message().contains("cached plan") || code == "26000" => {
            FaultClass::Contention
        }
        // Somebody's programming with a state of its own.
        "P0001" => FaultClass::HandlerFault,
        _ => match code.get(..2) {
            // The connection, the server's resources, an operator, the system, the disk.
            Some("08" | "53" | "57" | "58" | "XX" | "F0") => FaultClass::Outage,
            // No such user or database: somebody is at work on the server.
            Some("28" | "3D") => FaultClass::Outage,
            Some("22" | "23" | "42" | "0A" | "54" | "21" | "2B" | "44") => FaultClass::Permanent,
            Some("40") => FaultClass::Contention,
            _ => FaultClass::HandlerFault,
        },
    }
}

/// A store call that failed at a statement of its own.
pub(crate) fn failed(doing: &str, store: &str, error: Error) -> StoreError {
    let message = format!("{doing} in {store} failed: {}{}", one_line(&error), advice(&error));
    StoreError::failed(class_of(&error), message).caused_by(error)
}

const CHECK_TLS: &str = "; check the certificates, or sslmode in the URL";

/// What to do next about an error, to be written behind it.
pub(crate) fn advice(error: &Error) -> &'static str {
    match state(error) {
        Some("28P01" | "28000") => "; check user and password",
        Some("3D000") => "; create the database, or name another one",
        Some("53300") => "; too many connections: raise max_connections, or use fewer",
        Some("53100") => "; free some space on the server's disk",
        Some("42501") => "; give the role the privileges that docs/postgres.md names",
        Some("42P01") => "; were the tables removed? start again",
        Some("57P03") => "; the server is starting, or ending",
        Some("25006") => "; the server or the transaction is read-only",
        Some("55P03") => "; another transaction holds it",
        Some("26000") => "; behind a pooler in transaction mode use transaction_pooling(true)",
        None => match error {
            // Rustls tells of a certificate by an error of the stream.
            Error::Io(io) if io.to_string().contains("certificate") => CHECK_TLS,
            Error::Io(_) => "; check that the server runs and can be reached",
            Error::Tls(_) => CHECK_TLS,
            _ => "",
        },
        Some(_) => "",
    }
}

/// The words of the server or the driver on one line, with the SQLSTATE.
pub(crate) fn one_line(error: &Error) -> String {
    let text = match database_error(error) {
        Some(error) => format!("{} ({})", error.message(), error.code()),
        None => error.to_string(),
    };
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
