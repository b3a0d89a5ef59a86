//! What every message does to a SQLite database.

use super::{failure, value::Value};
use crate::{
    database::{Database, Refusal, Sink, StatementFailed, is_name, is_own_table, number_of},
    error::CliError,
    params::{ParamPlan, Undecodable},
    source::ParamMapping,
};
use inbox_core::{Group, Message, StoreError, Tx};
use inbox_sqlite::SqliteStore;
use rusqlite::{
    Batch, Connection, ErrorCode,
    fallible_iterator::FallibleIterator as _,
    hooks::{AuthAction, AuthContext, Authorization},
};
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// Checked statements and what is bound to their parameters.
#[derive(Debug)]
pub(crate) struct SqliteSink {
    statements: Vec<Statement>,
    plan: ParamPlan,
    /// How long the SQL of one message may take; for error texts, the store sees to it.
    handler_timeout_s: u64,
}

#[derive(Debug)]
struct Statement {
    sql: String,
    /// For each parameter, in the order of the statement, the number of its value in the plan.
    values: Vec<usize>,
}

impl SqliteSink {
    /// Checks the statements against the database as it is now, without running them.
    pub(crate) fn prepare(
        connection: &mut Connection,
        sql: &[String],
        mappings: &[ParamMapping],
        handler_timeout_s: u64,
    ) -> Result<Self, CliError> {
        let mut names = Vec::new();
        let mut statements = Vec::with_capacity(sql.len());
        for (number, sql) in (1..).zip(sql) {
            let parameters = check(connection, sql).map_err(|refused| refused.of_statement(number))?;
            let values = parameters.into_iter().map(|name| number_of(&mut names, name)).collect();
            statements.push(Statement { sql: sql.clone(), values });
        }
        let plan = ParamPlan::build(&names, mappings).map_err(|error| CliError::usage(error.to_string()))?;
        Ok(Self { statements, plan, handler_timeout_s })
    }

    /// Runs every statement, in order, in the transaction that is open on `connection`.
    fn run(&self, connection: &Connection, values: &[Value]) -> Result<(), StatementFailed> {
        for (number, statement) in (1..).zip(&self.statements) {
            statement.run(connection, values).map_err(|source| match source.sqlite_error_code() {
                Some(ErrorCode::OperationInterrupted) => {
                    StatementFailed::TooLong { number, limit_s: self.handler_timeout_s }
                }
                _ => StatementFailed::Driver { number, source: source.into() },
            })?;
        }
        Ok(())
    }
}

impl Sink for SqliteSink {
    type Store = SqliteStore;
    type Value = Value;

    // The driver blocks: the runner cannot drop a handler while its SQL runs.
    const GRACE: Duration = Duration::ZERO;

    fn values(&self, message: &Message, group: &Group) -> Result<Vec<Value>, Undecodable> {
        self.plan.bind(message, group, |_, found| Value::from_found(found))
    }

    async fn apply(&self, values: &[Value], tx: Tx<SqliteStore>) -> Result<(), StatementFailed> {
        self.run(&tx, values)
    }
}

impl Database for SqliteStore {
    async fn apply_init(&self, script: &str) -> Result<bool, StoreError> {
        Self::apply_init(self, script).await
    }
}

impl Statement {
    fn run(&self, connection: &Connection, values: &[Value]) -> rusqlite::Result<()> {
        let mut statement = connection.prepare_cached(&self.sql)?;
        for (parameter, value) in (1_usize..).zip(&self.values) {
            statement.raw_bind_parameter(parameter, values.get(*value).unwrap_or(&Value::Null))?;
        }
        // Rows are allowed (RETURNING), and have to be fetched for the statement to do its work.
        let mut rows = statement.raw_query();
        while rows.next()?.is_some() {}
        Ok(())
    }
}

/// Why a statement is refused.
enum Refused {
    Sqlite(rusqlite::Error),
    Here(Refusal),
}

impl Refused {
    fn of_statement(self, number: usize) -> CliError {
        match self {
            Self::Sqlite(error) => failure(format!("--sql {number}"), &error),
            Self::Here(refusal) => refusal.of_statement(number),
        }
    }
}

/// SQLite takes `::` for part of a name.
fn misnamed(parameter: &str) -> Refusal {
    let name = parameter.get(1..).and_then(|name| name.split(':').next());
    let name = name.filter(|name| is_name(name)).unwrap_or("name");
    let advice = format!("; for another type write CAST(:{name} AS INTEGER)");
    Refusal::Misnamed { parameter: parameter.to_owned(), advice }
}

/// Prepares a statement and gives the names of its parameters, without their first character.
fn check(connection: &mut Connection, sql: &str) -> Result<Vec<String>, Refused> {
    let forbidden = Arc::new(Mutex::new(None));
    let seen = Arc::clone(&forbidden);
    let guard = move |context: AuthContext<'_>| match forbidden_action(context.action) {
        Some(what) => {
            *seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(what);
            Authorization::Deny
        }
        None => Authorization::Allow,
    };
    connection.authorizer(Some(guard)).map_err(Refused::Sqlite)?;
    let names = parameter_names(connection, sql);
    connection.authorizer(None::<fn(AuthContext<'_>) -> Authorization>).map_err(Refused::Sqlite)?;
    let forbidden = forbidden.lock().unwrap_or_else(PoisonError::into_inner).take();
    match forbidden {
        Some(what) => Err(Refused::Here(what)),
        None => names,
    }
}

fn forbidden_action(action: AuthAction<'_>) -> Option<Refusal> {
    let own = |table: &str| is_own_table(table).then(|| Refusal::OwnTable(table.to_owned()));
    match action {
        AuthAction::Transaction { .. } => Some(Refusal::Transaction("BEGIN, COMMIT or ROLLBACK")),
        AuthAction::Savepoint { .. } => Some(Refusal::Transaction("SAVEPOINT or RELEASE")),
        AuthAction::Attach { .. } | AuthAction::Detach { .. } => {
            Some(Refusal::Transaction("ATTACH or DETACH"))
        }
        AuthAction::Pragma { .. } => Some(Refusal::Transaction("PRAGMA")),
        AuthAction::Function { function_name } if function_name.eq_ignore_ascii_case("load_extension") => {
            Some(Refusal::Extension)
        }
        AuthAction::Insert { table_name }
        | AuthAction::Update { table_name, .. }
        | AuthAction::Delete { table_name }
        | AuthAction::AlterTable { table_name, .. }
        | AuthAction::DropTable { table_name }
        | AuthAction::CreateIndex { table_name, .. }
        | AuthAction::DropIndex { table_name, .. }
        | AuthAction::CreateTrigger { table_name, .. }
        | AuthAction::CreateTempTrigger { table_name, .. } => own(table_name),
        _ => None,
    }
}

/// The authorizer is not asked about it until it runs.
fn is_vacuum(sql: &str) -> bool {
    let mut rest = sql;
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, ';' | '\u{feff}'));
        if let Some(comment) = rest.strip_prefix("--") {
            rest = comment.split_once('\n').map_or("", |(_, behind)| behind);
        } else if let Some(comment) = rest.strip_prefix("/*") {
            rest = comment.split_once("*/").map_or("", |(_, behind)| behind);
        } else {
            let word = rest.split(|c: char| !c.is_ascii_alphanumeric()).next();
            return word.is_some_and(|word| word.eq_ignore_ascii_case("VACUUM"));
        }
    }
}

fn parameter_names(connection: &Connection, sql: &str) -> Result<Vec<String>, Refused> {
    let mut batch = Batch::new(connection, sql);
    let statement = batch.next().map_err(Refused::Sqlite)?.ok_or(Refused::Here(Refusal::Empty))?;
    // What follows may depend on the first statement having run, and fail to prepare for that.
    if !matches!(batch.next(), Ok(None)) {
        return Err(Refused::Here(Refusal::Several));
    }
    if is_vacuum(sql) {
        return Err(Refused::Here(Refusal::Vacuum));
    }
    (1..=statement.parameter_count())
        .map(|index| match statement.parameter_name(index) {
            Some(name) if name.starts_with('?') => Err(Refused::Here(Refusal::Unnamed(name.to_owned()))),
            Some(name) => match name.get(1..).filter(|name| is_name(name)) {
                Some(bare) => Ok(bare.to_owned()),
                None => Err(Refused::Here(misnamed(name))),
            },
            None => Err(Refused::Here(Refusal::Unnamed("?".to_owned()))),
        })
        .collect()
}

#[cfg(test)]
#[path = "sink_tests.rs"]
mod tests;
