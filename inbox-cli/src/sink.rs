//! The sink: what every message does to the database, as the `--sql` options say.

use crate::{
    error::CliError,
    params::{ParamPlan, Undecodable},
    source::ParamMapping,
    sqlite,
    value::Value,
};
use inbox_core::{Group, Message};
use rusqlite::{
    Batch, Connection, ErrorCode,
    fallible_iterator::FallibleIterator as _,
    hooks::{AuthAction, AuthContext, Authorization},
};
use std::sync::{Arc, Mutex, PoisonError};

/// Checked statements and what is bound to their parameters.
#[derive(Debug)]
pub(crate) struct Sink {
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

/// A statement that failed for a message.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StatementFailed {
    /// The source is the driver's error, which tells what kind it is.
    #[error("--sql {number}")]
    Sqlite {
        /// Which of the `--sql` options, counted from 1.
        number: usize,
        #[source]
        source: rusqlite::Error,
    },
    /// The database stopped it. What the driver says of that ("interrupted") tells nothing more.
    #[error(
        "--sql {number}: stopped: the SQL of the message ran longer than --handler-timeout ({limit_s} s)"
    )]
    TooLong {
        /// Which of the `--sql` options, counted from 1.
        number: usize,
        /// The limit.
        limit_s: u64,
    },
}

impl Sink {
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
            let values = parameters
                .into_iter()
                .map(|name| match names.iter().position(|known| *known == name) {
                    Some(known) => known,
                    None => {
                        names.push(name);
                        names.len() - 1
                    }
                })
                .collect();
            statements.push(Statement { sql: sql.clone(), values });
        }
        let plan = ParamPlan::build(&names, mappings).map_err(|error| CliError::usage(error.to_string()))?;
        Ok(Self { statements, plan, handler_timeout_s })
    }

    /// Reads what is to be bound from a message.
    pub(crate) fn values(&self, message: &Message, group: &Group) -> Result<Vec<Value>, Undecodable> {
        self.plan.bind(message, group)
    }

    /// Runs every statement, in order, in the transaction that is open on `connection`.
    pub(crate) fn apply(&self, connection: &Connection, values: &[Value]) -> Result<(), StatementFailed> {
        for (number, statement) in (1..).zip(&self.statements) {
            statement.run(connection, values).map_err(|source| match source.sqlite_error_code() {
                Some(ErrorCode::OperationInterrupted) => {
                    StatementFailed::TooLong { number, limit_s: self.handler_timeout_s }
                }
                _ => StatementFailed::Sqlite { number, source },
            })?;
        }
        Ok(())
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

/// What a statement must not do.
#[derive(Debug, thiserror::Error)]
enum Forbidden {
    /// What would end the transaction that holds the claim, or change what a commit is worth.
    #[error("{0} is not allowed: inbox opens and commits the transaction itself")]
    Transaction(&'static str),
    #[error(
        "VACUUM is not allowed: it cannot run in a transaction; run it between runs, with another program"
    )]
    Vacuum,
    #[error("load_extension is not allowed: extensions cannot be loaded here")]
    Extension,
    #[error("it changes {0}: tables whose names begin with inbox_ are inbox's own and can only be read")]
    OwnTable(String),
}

/// Why a statement is refused.
enum Refused {
    Sqlite(rusqlite::Error),
    Forbidden(Forbidden),
    Empty,
    Several,
    Unnamed(String),
    Misnamed(String),
}

impl Refused {
    fn of_statement(self, number: usize) -> CliError {
        let why = match self {
            Self::Sqlite(error) => return sqlite::failure(format!("--sql {number}"), &error),
            Self::Forbidden(what) => format!("{what}"),
            Self::Empty => "it is empty; write one statement, such as INSERT".to_owned(),
            Self::Several => "it has more than one statement; give each its own --sql".to_owned(),
            Self::Unnamed(parameter) => {
                format!("the parameter {parameter} has no name; write :name, the name of a payload field")
            }
            // SQLite takes `::` for part of a name.
            Self::Misnamed(parameter) => {
                let name = parameter.get(1..).and_then(|name| name.split(':').next());
                let name = name.filter(|name| is_name(name)).unwrap_or("name");
                format!(
                    "the parameter {parameter} is no name of letters, digits and _; for another type write \
                     CAST(:{name} AS INTEGER)"
                )
            }
        };
        CliError::usage(format!("--sql {number}: {why}"))
    }
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
        Some(what) => Err(Refused::Forbidden(what)),
        None => names,
    }
}

fn forbidden_action(action: AuthAction<'_>) -> Option<Forbidden> {
    let own = |table: &str| is_own_table(table).then(|| Forbidden::OwnTable(table.to_owned()));
    match action {
        AuthAction::Transaction { .. } => Some(Forbidden::Transaction("BEGIN, COMMIT or ROLLBACK")),
        AuthAction::Savepoint { .. } => Some(Forbidden::Transaction("SAVEPOINT or RELEASE")),
        AuthAction::Attach { .. } | AuthAction::Detach { .. } => {
            Some(Forbidden::Transaction("ATTACH or DETACH"))
        }
        AuthAction::Pragma { .. } => Some(Forbidden::Transaction("PRAGMA")),
        AuthAction::Function { function_name } if function_name.eq_ignore_ascii_case("load_extension") => {
            Some(Forbidden::Extension)
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

/// The tables that the store makes.
fn is_own_table(name: &str) -> bool {
    name.get(..6).is_some_and(|start| start.eq_ignore_ascii_case("inbox_"))
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

/// `[A-Za-z_][A-Za-z0-9_]*`: SQLite itself also takes `:a::int` and `$a(b)` for names.
fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn parameter_names(connection: &Connection, sql: &str) -> Result<Vec<String>, Refused> {
    let mut batch = Batch::new(connection, sql);
    let statement = batch.next().map_err(Refused::Sqlite)?.ok_or(Refused::Empty)?;
    // What follows may depend on the first statement having run, and fail to prepare for that.
    if !matches!(batch.next(), Ok(None)) {
        return Err(Refused::Several);
    }
    if is_vacuum(sql) {
        return Err(Refused::Forbidden(Forbidden::Vacuum));
    }
    (1..=statement.parameter_count())
        .map(|index| match statement.parameter_name(index) {
            Some(name) if name.starts_with('?') => Err(Refused::Unnamed(name.to_owned())),
            Some(name) => match name.get(1..).filter(|name| is_name(name)) {
                Some(bare) => Ok(bare.to_owned()),
                None => Err(Refused::Misnamed(name.to_owned())),
            },
            None => Err(Refused::Unnamed("?".to_owned())),
        })
        .collect()
}

#[cfg(test)]
#[path = "sink_tests.rs"]
mod tests;
