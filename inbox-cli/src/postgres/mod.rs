//! PostgreSQL: every parameter gets the type that the server has for it.

mod encode;
mod json;
mod lexer;
mod numeric;
mod open;
mod plan;
mod sink;
mod statement;
mod time;
mod types;

pub(crate) use open::open_to_look;

use crate::{args::RunArgs, database::Database, endpoint::PostgresUrl, error::CliError, schema};
use inbox_core::StoreError;
use inbox_postgres::{
    PostgresStore,
    sqlx::{Error, postgres::PgDatabaseError},
};
use sink::PostgresSink;

/// Opens the database, makes the tables, and checks the SQL against them.
pub(crate) async fn prepare(
    url: &PostgresUrl,
    args: &RunArgs,
) -> Result<(PostgresStore, PostgresSink), CliError> {
    let store = open::open_to_run(url, args.lanes).await?;
    if let Some(file) = &args.init {
        schema::apply(&store, file).await?;
    }
    let sink = PostgresSink::prepare(&store, &args.sql, &args.params, args.handler_timeout_s).await?;
    Ok((store, sink))
}

impl Database for PostgresStore {
    async fn apply_init(&self, script: &str) -> Result<bool, StoreError> {
        Self::apply_init(self, script).await
    }
}

/// PostgreSQL's own error, if it is one.
fn database_error(error: &Error) -> Option<&PgDatabaseError> {
    match error {
        Error::Database(error) => error.try_downcast_ref(),
        _ => None,
    }
}

/// The SQLSTATE, if there is one.
fn state(error: &Error) -> Option<&str> {
    database_error(error).map(PgDatabaseError::code)
}
