//! Opening a PostgreSQL store.

use super::state;
use crate::{database::Missing, endpoint::PostgresUrl, error::CliError};
use inbox_postgres::{OpenError, PostgresOptions, PostgresStore};

/// Connections beside those of the lanes: for what is done beside units of work, such as recording a failure or
/// resolving a doubt.
const RESERVE: u32 = 2;

/// Opens the database for a run, and makes the tables of inbox when they are missing.
pub(crate) async fn open_to_run(url: &PostgresUrl, lanes: u32) -> Result<PostgresStore, CliError> {
    open(options(url)?.connections_max(lanes.saturating_add(RESERVE)), Missing::Create).await
}

/// Opens a database that a run has written to. Nothing of any value is written, so that it does not matter
/// whether the server keeps it.
pub(crate) async fn open_to_look(url: &PostgresUrl) -> Result<PostgresStore, CliError> {
    let options = options(url)?.connections_max(RESERVE).migrate(false).accept_lost_commits(true);
    open(options, Missing::Refuse).await
}

fn options(url: &PostgresUrl) -> Result<PostgresOptions, CliError> {
    PostgresStore::options(url.as_str()).map_err(|error| failure(&error, Missing::Refuse))
}

async fn open(options: PostgresOptions, missing: Missing) -> Result<PostgresStore, CliError> {
    options.connect().await.map_err(|error| failure(&error, missing))
}

/// The server, the network, an operator: these can be well the next time. The rest was called wrongly.
fn failure(error: &OpenError, missing: Missing) -> CliError {
    let doing = "--into";
    match error {
        OpenError::OldSchema { place, found: 0, .. } if missing == Missing::Refuse => {
            CliError::usage(format!("{doing} {place} has no inbox tables: run `inbox run` into it first"))
        }
        OpenError::OldSchema { place, .. } if missing == Missing::Refuse => CliError::usage(format!(
            "{doing} {place} has the tables of an older version: run `inbox run` of this version into it first"
        )),
        OpenError::Connect { source, .. } => match state(source) {
            // Who may connect, and to what.
            Some(state) if state.starts_with("28") || state == "3D000" => {
                CliError::usage(doing).because(error)
            }
            _ => CliError::failed(doing).because(error),
        },
        OpenError::NoAnswer { .. } | OpenError::Migrate { .. } | OpenError::Unsafe { passing: true, .. } => {
            CliError::failed(doing).because(error)
        }
        _ => CliError::usage(doing).because(error),
    }
}
