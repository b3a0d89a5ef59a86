//! `--init`: the SQL that makes the tables, run before the messages are.

use crate::{error::CliError, sqlite};
use rusqlite::{Connection, TransactionBehavior};
use std::{fs, path::Path};

/// What became of the schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Schema {
    /// It was run.
    Applied,
    /// Nothing of it was run: what it makes is there already, as the text says.
    AlreadyThere(String),
}

/// Runs the file in one transaction: all of it or nothing.
///
/// The same command is run again and again, also with a plain `CREATE TABLE`. So a file that makes
/// something that is there already counts as run before, as a whole: statement by statement, the rows it
/// inserts would be inserted again.
pub(crate) fn apply(connection: &mut Connection, file: &Path) -> Result<Schema, CliError> {
    let sql = fs::read_to_string(file).map_err(|error| {
        CliError::usage(format!("reading --init {}", file.display()))
            .caused_by(&error)
            .hint("name a file of SQL statements")
    })?;
    let run = |connection: &mut Connection| {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction.execute_batch(&sql)?;
        transaction.commit()
    };
    match run(connection) {
        Ok(()) => Ok(Schema::Applied),
        Err(error) => {
            let text = sqlite::text(&error);
            if text.ends_with(" already exists") {
                return Ok(Schema::AlreadyThere(text));
            }
            let failed = sqlite::failure(format!("running --init {}", file.display()), &error);
            Err(if text.contains("within a transaction") || text.contains("no transaction is active") {
                failed.hint("it is run in one transaction: remove its own BEGIN and COMMIT")
            } else {
                failed
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(connection: &mut Connection, sql: &str) -> Result<Schema, String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("schema.sql");
        fs::write(&file, sql).unwrap();
        apply(connection, &file).map_err(|error| error.to_string().replace(file.to_str().unwrap(), "FILE"))
    }

    fn rows(connection: &Connection) -> i64 {
        connection.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn a_second_run_changes_nothing() {
        let mut connection = Connection::open_in_memory().unwrap();
        let sql = "CREATE TABLE IF NOT EXISTS u (a); INSERT INTO u VALUES (1); CREATE TABLE t (a); INSERT INTO t VALUES (1);";
        assert_eq!(run(&mut connection, sql), Ok(Schema::Applied));
        let again = run(&mut connection, sql).unwrap();
        assert_eq!(again, Schema::AlreadyThere("table t already exists".into()));
        assert_eq!(rows(&connection), 1);
        let seeds: i64 = connection.query_row("SELECT count(*) FROM u", [], |row| row.get(0)).unwrap();
        assert_eq!(seeds, 1);
    }

    #[test]
    fn a_failing_schema_leaves_nothing() {
        let mut connection = Connection::open_in_memory().unwrap();
        let error = run(&mut connection, "CREATE TABLE t (a); INSERT INTO nowhere VALUES (1);").unwrap_err();
        assert_eq!(error, "running --init FILE: no such table: nowhere");
        assert!(connection.prepare("SELECT * FROM t").is_err());
        let own = run(&mut connection, "BEGIN; CREATE TABLE t (a); COMMIT;").unwrap_err();
        assert!(own.ends_with("remove its own BEGIN and COMMIT"), "{own}");
    }
}
