//! What every message does to a PostgreSQL database.

use super::{encode::Encoded, plan, state, statement::Numbered, types::ParamType};
use crate::{
    database::{Sink, StatementFailed, number_of},
    error::CliError,
    params::{ParamPlan, Undecodable},
    source::ParamMapping,
};
use inbox_core::{Group, InboxStore as _, Message, Tx, TxLimits};
use inbox_postgres::{
    PostgresStore, StatementError,
    sqlx::{AssertSqlSafe, Error, PgConnection, query},
};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::time::timeout;

/// Checked statements and what is bound to their parameters.
#[derive(Debug)]
pub(crate) struct PostgresSink {
    statements: Vec<Statement>,
    plan: ParamPlan,
    /// The types of the plan's values.
    types: Vec<ParamType>,
    handler_timeout_s: u64,
}

#[derive(Debug)]
struct Statement {
    sql: Arc<str>,
    /// For each parameter, in the order of the statement, the number of its value in the plan.
    values: Vec<usize>,
}

impl PostgresSink {
    /// Checks the statements against the database as it is now, without running them.
    pub(crate) async fn prepare(
        store: &PostgresStore,
        sql: &[String],
        mappings: &[ParamMapping],
        handler_timeout_s: u64,
    ) -> Result<Self, CliError> {
        let failed = |error| CliError::failed("checking --sql").because(&error);
        let mut tx = store.begin(&TxLimits::default()).await.map_err(failed)?;
        let mut params = Vec::new();
        let mut statements = Vec::with_capacity(sql.len());
        for (number, sql) in (1..).zip(sql) {
            let numbered = Numbered::parse(sql).map_err(|refusal| refusal.of_statement(number))?;
            let types = plan::check(&mut tx, number, &numbered).await?;
            // One value for each type that a name has in different statements.
            let values = numbered.names.into_iter().zip(types);
            let values = values.map(|param| number_of(&mut params, param)).collect();
            statements.push(Statement { sql: numbered.sql.into(), values });
        }
        store.rollback(tx).await.map_err(failed)?;
        let (names, types): (Vec<_>, Vec<_>) = params.into_iter().unzip();
        let plan = ParamPlan::build(&names, mappings).map_err(|error| CliError::usage(error.to_string()))?;
        Ok(Self { statements, plan, types, handler_timeout_s })
    }
}

impl Sink for PostgresSink {
    type Store = PostgresStore;
    type Value = Encoded;

    const GRACE: Duration = Duration::from_secs(1);

    fn values(&self, message: &Message, group: &Group) -> Result<Vec<Encoded>, Undecodable> {
        self.plan.bind(message, group, |number, found| match self.types.get(number) {
            Some(of) => Encoded::new(of, found).map_err(|unfit| unfit.to_string()),
            None => Err("it has no type".to_owned()),
        })
    }

    async fn apply(&self, values: &[Encoded], mut tx: Tx<PostgresStore>) -> Result<(), StatementFailed> {
        let limit_s = self.handler_timeout_s;
        let (limit, begun) = (Duration::from_secs(limit_s), Instant::now());
        for (number, statement) in (1..).zip(&self.statements) {
            // The server has the same limit for each of them, so that what is left behind here ends there.
            match timeout(limit.saturating_sub(begun.elapsed()), statement.run(&mut tx, values)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) if state(&error) != Some("57014") || begun.elapsed() < limit => {
                    let source = StatementError::from(error).into();
                    return Err(StatementFailed::Driver { number, source });
                }
                Ok(Err(_)) | Err(_) => return Err(StatementFailed::TooLong { number, limit_s }),
            }
        }
        Ok(())
    }
}

impl Statement {
    async fn run(&self, connection: &mut PgConnection, values: &[Encoded]) -> Result<(), Error> {
        let mut run = query(AssertSqlSafe(Arc::clone(&self.sql)));
        for value in self.values.iter().filter_map(|number| values.get(*number)) {
            run = run.bind(value);
        }
        // Rows are allowed (RETURNING), and are passed over.
        run.execute(connection).await.map(drop)
    }
}
