//! Opening a SQLite store.

use super::has_inbox_tables;
use crate::{database::Missing, error::CliError};
use inbox_sqlite::{OpenError, SqliteStore};
use std::path::PathBuf;

/// Opens a SQLite database with the tables of inbox.
pub(crate) async fn open(path: PathBuf, missing: Missing) -> Result<SqliteStore, CliError> {
    let doing = format!("--into sqlite:{}", path.display());
    if path.is_dir() {
        return Err(CliError::usage(format!("{doing} is a folder")).hint("name a database file"));
    }
    // A device or a pipe keeps nothing; SQLite would even make files beside it.
    if path.exists() && !path.is_file() {
        return Err(CliError::usage(format!("{doing} is not a regular file")).hint("name a database file"));
    }
    if missing == Missing::Refuse && !path.exists() {
        return Err(CliError::usage(format!("{doing}: there is no such file"))
            .hint("name a database that inbox run has written to"));
    }
    let place = doing.clone();
    let open = move || {
        if missing == Missing::Refuse && !has_inbox_tables(&path)? {
            return Err(CliError::usage(format!(
                "{place} has no inbox tables: run `inbox run {place}` first"
            )));
        }
        let options = SqliteStore::options().create(missing == Missing::Create);
        options.open(path).map_err(|error| failure(&place, &error))
    };
    // It waits for the disk, and for other processes.
    tokio::task::spawn_blocking(open).await.map_err(|error| CliError::failed(doing).caused_by(&error))?
}

/// Another process, the disk: these can be well the next time. The rest is the wrong file.
fn failure(doing: &str, error: &OpenError) -> CliError {
    match error {
        OpenError::Locked { .. } | OpenError::Migrate { .. } | OpenError::Thread { .. } => {
            CliError::failed(doing)
        }
        _ => CliError::usage(doing),
    }
    .because(error)
}
