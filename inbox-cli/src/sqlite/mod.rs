//! SQLite: the command's own connection to a database, on which the SQL is checked before a run.

mod open;
mod sink;
mod value;

pub(crate) use open::open;
#[cfg(test)]
pub(crate) use value::Value;

use crate::{args::RunArgs, database::Missing, error::CliError, schema};
use inbox_sqlite::SqliteStore;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use sink::SqliteSink;
use std::{path::Path, time::Duration};

/// How long another process may hold the database before we give up.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// Opens the database, makes the tables, and checks the SQL against them.
pub(crate) async fn prepare(path: &Path, args: &RunArgs) -> Result<(SqliteStore, SqliteSink), CliError> {
    let store = open(path.to_path_buf(), Missing::Create).await?;
    if let Some(file) = &args.init {
        schema::apply(&store, file).await?;
    }
    let sink = SqliteSink::prepare(&mut connect(path)?, &args.sql, &args.params, args.handler_timeout_s)?;
    Ok((store, sink))
}

/// Opens a database that is there.
fn connect(path: &Path) -> Result<Connection, CliError> {
    let doing = || format!("opening --into sqlite:{}", path.display());
    // Not as a URI: `?` and `%` in a path mean themselves.
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let open = || {
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(LOCK_TIMEOUT)?;
        Ok(connection)
    };
    open().map_err(|error| failure(doing(), &error))
}

/// Whether the tables of inbox are in a database that is there. It does not write: a store would make
/// them. A file that is no database passes: opening the store tells that better.
fn has_inbox_tables(path: &Path) -> Result<bool, CliError> {
    let look = || {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(LOCK_TIMEOUT)?;
        let sql = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'inbox_schema'";
        connection.query_row(sql, [], |row| row.get::<_, i64>(0))
    };
    match look() {
        Ok(found) => Ok(found > 0),
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::NotADatabase) => Ok(true),
        Err(error) => Err(failure(format!("looking into --into sqlite:{}", path.display()), &error)),
    }
}

/// The error for a call of SQLite's: called wrongly, unless the database or the disk is what is wrong.
fn failure(doing: impl Into<String>, error: &rusqlite::Error) -> CliError {
    let hint = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            Some("another process is writing to it: try again when it has ended")
        }
        Some(ErrorCode::DiskFull) => Some("make room and run it again"),
        Some(ErrorCode::DatabaseCorrupt) => Some("restore it from a backup"),
        Some(ErrorCode::SystemIoFailure | ErrorCode::OutOfMemory) => None,
        _ => {
            return CliError::usage(format!("{}: {}", doing.into(), text(error)));
        }
    };
    let error = CliError::failed(format!("{}: {}", doing.into(), text(error)));
    hint.into_iter().fold(error, CliError::hint)
}

/// SQLite's own words, without the SQL, which the reader has just typed.
fn text(error: &rusqlite::Error) -> String {
    match error {
        rusqlite::Error::SqlInputError { msg, .. } => msg.clone(),
        other => other.to_string(),
    }
}
