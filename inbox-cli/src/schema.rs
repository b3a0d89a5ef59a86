//! `--init`: the SQL that makes the tables, run before the messages are.

use crate::{database::Database, error::CliError};
use inbox_core::{FaultClass, StoreError};
use std::path::Path;

/// Runs the file in one transaction, unless it was run on this database before: the same command is run
/// again and again.
pub(crate) async fn apply(store: &impl Database, file: &Path) -> Result<(), CliError> {
    let doing = || CliError::usage(format!("reading --init {}", file.display()));
    let hint = "name a file of SQL statements";
    // Reading a pipe could wait for ever, and the file is needed again by the next run.
    if file.exists() && !file.is_file() {
        return Err(doing().because(&"it is not a regular file").hint(hint));
    }
    let script = std::fs::read_to_string(file).map_err(|error| doing().caused_by(&error).hint(hint))?;
    store.apply_init(&script).await.map(drop).map_err(|error| failure(file, &error))
}

fn failure(file: &Path, error: &StoreError) -> CliError {
    let doing = format!("running --init {}", file.display());
    let error = match error.class() {
        // The script is wrong. Everything else can be well the next time.
        Some(FaultClass::Permanent | FaultClass::HandlerFault) => CliError::usage(doing),
        _ => CliError::failed(doing),
    }
    .because(error);
    let text = error.to_string();
    if text.contains("already exists") {
        error.hint("a file that was changed is run again: write CREATE TABLE IF NOT EXISTS")
    } else if ["within a transaction", "no transaction is active", "must not commit"]
        .iter()
        .any(|words| text.contains(words))
    {
        error.hint("it is run in one transaction: remove its own BEGIN and COMMIT")
    } else {
        error
    }
}
