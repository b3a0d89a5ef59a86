//! Checks a statement with the server, without running it: it is prepared, its parameters are looked up, and
//! it is planned.

use super::{
    database_error, state,
    statement::{Check, Numbered},
    types::{self, ParamType, SUPPORTED},
};
use crate::{
    database::{Refusal, is_own_table},
    error::CliError,
};
use inbox_postgres::sqlx::{
    AssertSqlSafe, Either, Error, Executor as _, PgConnection, Row as _, SqlSafeStr as _, Statement as _,
    raw_sql,
};
use serde_json::Value;

/// Prepares the statement and gives the types of its parameters. An open transaction is needed, which is
/// rolled back afterwards.
pub(crate) async fn check(
    connection: &mut PgConnection,
    number: usize,
    statement: &Numbered,
) -> Result<Vec<ParamType>, CliError> {
    let failed = |error: Error| failure(number, statement, &error);
    let sql = AssertSqlSafe(statement.sql.clone()).into_sql_str();
    let prepared = (&mut *connection).prepare(sql).await.map_err(failed)?;
    if statement.check == Check::Refuse {
        return Err(Refusal::NotForMessages(statement.first.clone()).of_statement(number));
    }
    let oids = match prepared.parameters() {
        Some(Either::Left(types)) => types.iter().map(|known| known.oid().map_or(0, |oid| oid.0)).collect(),
        _ => Vec::new(),
    };
    let mut types = Vec::with_capacity(oids.len());
    for (name, oid) in statement.names.iter().zip(oids) {
        match types::look_up(connection, oid).await.map_err(failed)? {
            Ok(known) => types.push(known),
            Err(unsupported) => return Err(unsupported_type(number, name, &unsupported.name)),
        }
    }
    if statement.check == Check::Plan {
        let plan = plan(connection, statement, &types).await.map_err(failed)?;
        if let Some(table) = changed_own_table(&plan) {
            return Err(Refusal::OwnTable(table.to_owned()).of_statement(number));
        }
    }
    Ok(types)
}

/// The plan, as JSON. The server also looks for the privileges then, and for what only planning finds. A plan
/// for any values, so that nothing is evaluated with those of this check.
async fn plan(
    connection: &mut PgConnection,
    statement: &Numbered,
    types: &[ParamType],
) -> Result<Value, Error> {
    // Of a domain its own type could refuse the NULL that stands for every value.
    let names: Vec<&str> = types.iter().map(|known| known.base_name.as_str()).collect();
    let (types, values) = match names.len() {
        0 => (String::new(), String::new()),
        count => (format!("({})", names.join(", ")), format!("({})", vec!["NULL"; count].join(", "))),
    };
    // One statement only: the server has prepared it already, and would have refused more.
    let prepare = format!("PREPARE inbox_check{types} AS {}", statement.sql);
    let explain = format!(
        "SET LOCAL plan_cache_mode = force_generic_plan; EXPLAIN (FORMAT JSON) EXECUTE inbox_check{values}"
    );
    raw_sql(AssertSqlSafe(prepare)).execute(&mut *connection).await?;
    let row = raw_sql(AssertSqlSafe(explain)).fetch_one(&mut *connection).await?;
    let text: String = row.try_get_unchecked(0)?;
    raw_sql("DEALLOCATE inbox_check").execute(connection).await?;
    serde_json::from_str(&text).map_err(|error| Error::Decode(error.into()))
}

/// A table of inbox that a plan changes.
fn changed_own_table(plan: &Value) -> Option<&str> {
    match plan {
        Value::Array(parts) => parts.iter().find_map(changed_own_table),
        Value::Object(parts) => {
            let changes = parts.get("Node Type").is_some_and(|kind| kind == "ModifyTable");
            let changed = parts.get("Relation Name").filter(|_| changes);
            let own = changed.and_then(Value::as_str).filter(|table| is_own_table(table));
            own.or_else(|| parts.values().find_map(changed_own_table))
        }
        _ => None,
    }
}

fn unsupported_type(number: usize, parameter: &str, type_name: &str) -> CliError {
    let text = format!(
        "--sql {number}: the parameter :{parameter} has the type {type_name}, and no value is made for that one \
         ({SUPPORTED})"
    );
    CliError::usage(text).hint(&format!("write CAST(CAST(:{parameter} AS text) AS {type_name}) in its place"))
}

/// The server's words about a statement: called wrongly, unless the server is what is wrong.
fn failure(number: usize, statement: &Numbered, error: &Error) -> CliError {
    let doing = format!("--sql {number}");
    let Some(told) = database_error(error) else { return CliError::failed(doing).caused_by(error) };
    let text = format!("{doing}: {}", statement.with_names(told.message()));
    match state(error) {
        Some(state) if ["08", "53", "55", "57", "58", "XX"].iter().any(|class| state.starts_with(class)) => {
            CliError::failed(text)
        }
        Some("42601") if statement.has_question_mark => {
            CliError::usage(text).hint("parameters are written :name, the name of a payload field")
        }
        Some("42P08" | "42P18") => CliError::usage(text)
            .hint("give the parameter one type wherever it stands, as in CAST(:name AS bigint)"),
        _ => match told.hint() {
            Some(hint) => CliError::usage(text).hint(&statement.with_names(hint)),
            None => CliError::usage(text),
        },
    }
}
