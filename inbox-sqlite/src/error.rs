//! What SQLite's errors mean, and how they are told.

use inbox_core::{FaultClass, StoreError};
use rusqlite::{ErrorCode, ffi};
use std::{io, path::PathBuf};

/// A database that could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The prefix of the table names is not usable.
    #[error(
        "the table prefix {prefix:?} is not usable: it needs 1 to 31 of a-z, 0-9 and _, not beginning with a digit or with sqlite_"
    )]
    Prefix {
        /// What was asked for.
        prefix: String,
    },
    /// The path does not name a file of its own.
    #[error("{path:?} does not name a database file: give a plain path, or use SqliteStore::in_memory()")]
    NotAFile {
        /// What was asked for.
        path: PathBuf,
    },
    /// The directory of the file does not exist.
    #[error("cannot open the SQLite database {path:?}: its directory does not exist; create it first")]
    NoDirectory {
        /// The file.
        path: PathBuf,
    },
    /// The file is something else.
    #[error("{path:?} is not a SQLite database: give another path, or restore the file from a backup")]
    NotADatabase {
        /// The file.
        path: PathBuf,
    },
    /// The file can only be read.
    #[error("the SQLite database {path:?} is read-only: make the file and its directory writable")]
    ReadOnly {
        /// The file.
        path: PathBuf,
    },
    /// Another process held the file all the time.
    #[error(
        "the SQLite database {path:?} stayed locked by another process for {waited_s} s: end it, or try again"
    )]
    Locked {
        /// The file.
        path: PathBuf,
        /// How long it was waited for, in seconds.
        waited_s: u64,
        /// SQLite's error.
        #[source]
        source: Box<rusqlite::Error>,
    },
    /// The file system cannot do write-ahead logging.
    #[error(
        "the SQLite database {path:?} stays in journal mode {mode:?} instead of WAL: put it on a local file system"
    )]
    NoWal {
        /// The file.
        path: PathBuf,
        /// The mode it stayed in.
        mode: String,
    },
    /// The tables were made by a newer version of this crate.
    #[error(
        "the tables {prefix}* in {path:?} have schema version {found}, this program knows up to {known}: use a newer program"
    )]
    NewerSchema {
        /// The file.
        path: PathBuf,
        /// The prefix of the tables.
        prefix: String,
        /// The version that was found.
        found: i64,
        /// The newest version that this crate knows.
        known: i64,
    },
    /// The tables could not be made.
    #[error("cannot create the tables {prefix}* in {path:?}: {reason}")]
    Migrate {
        /// The file.
        path: PathBuf,
        /// The prefix of the tables.
        prefix: String,
        /// SQLite's words on one line.
        reason: String,
        /// SQLite's error.
        #[source]
        source: Box<rusqlite::Error>,
    },
    /// The writer thread could not be started.
    #[error("cannot start the writer thread of a SQLite store: {source}")]
    Thread {
        /// The system's error.
        source: io::Error,
    },
    /// Anything else that SQLite said.
    #[error("cannot open the SQLite database {path:?}: {reason}{advice}")]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// SQLite's words on one line.
        reason: String,
        /// What to do next.
        advice: &'static str,
        /// SQLite's error.
        #[source]
        source: Box<rusqlite::Error>,
    },
}

impl OpenError {
    /// Names the file, and picks the error that says most.
    pub(crate) fn of(path: PathBuf, source: rusqlite::Error) -> Self {
        match source.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => Self::NotADatabase { path },
            Some(ErrorCode::ReadOnly) => Self::ReadOnly { path },
            _ => Self::Sqlite {
                path,
                reason: one_line(&source),
                advice: advice(&source),
                source: source.into(),
            },
        }
    }

    /// What it means for a run that has to open its database again.
    pub(crate) fn class(&self) -> FaultClass {
        match self {
            Self::Locked { .. } => FaultClass::Contention,
            Self::NoDirectory { .. } | Self::Thread { .. } => FaultClass::Outage,
            Self::Sqlite { source, .. } | Self::Migrate { source, .. } => class_of_call(source),
            _ => FaultClass::Permanent,
        }
    }
}

/// What an error of a handler's statement means.
///
/// A file that is damaged or has become read-only is no message's fault: it counts as an outage here, and
/// the store's own calls then say `Permanent`, which ends the run.
pub(crate) fn class_of(error: &rusqlite::Error) -> FaultClass {
    use rusqlite::Error as E;
    let code = match error {
        E::SqliteFailure(code, _) | E::SqlInputError { error: code, .. } => code,
        E::FromSqlConversionFailure(..)
        | E::IntegralValueOutOfRange(..)
        | E::Utf8Error(..)
        | E::NulError(_)
        | E::InvalidParameterName(_)
        | E::ExecuteReturnedResults
        | E::InvalidColumnIndex(_)
        | E::InvalidColumnName(_)
        | E::InvalidColumnType(..)
        | E::ToSqlConversionFailure(_)
        | E::InvalidQuery
        | E::MultipleStatement
        | E::InvalidParameterCount(..) => return FaultClass::Permanent,
        _ => return FaultClass::HandlerFault,
    };
    match code.code {
        // The transaction was ended before, perhaps by the handler of another message of the batch.
        ErrorCode::ConstraintViolation if code.extended_code == ffi::SQLITE_CONSTRAINT_COMMITHOOK => {
            FaultClass::Aborted
        }
        ErrorCode::ConstraintViolation
        | ErrorCode::TypeMismatch
        | ErrorCode::ParameterOutOfRange
        | ErrorCode::TooBig => FaultClass::Permanent,
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed => {
            FaultClass::Contention
        }
        ErrorCode::DiskFull
        | ErrorCode::SystemIoFailure
        | ErrorCode::CannotOpen
        | ErrorCode::OutOfMemory
        | ErrorCode::ReadOnly
        | ErrorCode::DatabaseCorrupt
        | ErrorCode::NotADatabase => FaultClass::Outage,
        _ if code.extended_code & 0xff == ffi::SQLITE_ERROR => FaultClass::Permanent,
        _ => FaultClass::HandlerFault,
    }
}

/// What an error of the store's own statement means.
pub(crate) fn class_of_call(error: &rusqlite::Error) -> FaultClass {
    match error.sqlite_error_code() {
        Some(ErrorCode::ReadOnly | ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            FaultClass::Permanent
        }
        _ => class_of(error),
    }
}

/// A store call that failed at a statement of its own.
pub(crate) fn failed(doing: &str, store: &str, error: rusqlite::Error) -> StoreError {
    let message = format!("{doing} in {store} failed: {}{}", one_line(&error), advice(&error));
    StoreError::failed(class_of_call(&error), message).caused_by(error)
}

/// What to do next about an error, to be written behind it.
pub(crate) fn advice(error: &rusqlite::Error) -> &'static str {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => "; another connection is writing",
        Some(ErrorCode::DiskFull) => "; free some space on its disk",
        Some(ErrorCode::SystemIoFailure) => "; check its disk",
        Some(ErrorCode::CannotOpen) => "; check that the path is a file you may read and write",
        Some(ErrorCode::ReadOnly) => "; make the file and its directory writable",
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            "; the file is damaged, restore it from a backup"
        }
        _ => "",
    }
}

/// SQLite's words without the statement's text, on one line.
pub(crate) fn one_line(error: &rusqlite::Error) -> String {
    let text = match error {
        rusqlite::Error::SqlInputError { msg, .. } => msg.clone(),
        other => other.to_string(),
    };
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
