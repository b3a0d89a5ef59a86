//! Scripts that make a program's own tables, run once per database.

use crate::{SqliteStore, convert::now_ms, error::one_line};
use inbox_core::{FaultClass, StoreError};
use rusqlite::{Connection, OptionalExtension};
use sha2::{Digest, Sha256};

impl SqliteStore {
    /// Runs a script of SQL statements unless it was run on this database before, and tells whether it was
    /// run now. The script is known by its SHA-256, which is recorded in the transaction of the script;
    /// a script that was changed is another one, so write `CREATE TABLE IF NOT EXISTS` where that matters.
    ///
    /// Statements that cannot run inside a transaction (`BEGIN`, `COMMIT`, `VACUUM`) make it fail.
    ///
    /// # Errors
    /// [`StoreError`] with SQLite's words; nothing of the script is stored then.
    pub async fn apply_init(&self, script: &str) -> Result<bool, StoreError> {
        let doing = "running the init script";
        let digest = Sha256::digest(script.as_bytes());
        let digest: &[u8] = digest.as_slice();
        // Whoever starts again finds the script applied, without waiting for the write lock.
        let find_init = &self.inner.sql.find_init;
        let find = |connection: &Connection| {
            connection.prepare_cached(find_init)?.query_row([digest], |_| Ok(())).optional()
        };
        if self.read(doing, find).await?.is_some() {
            return Ok(false);
        }
        self.transact(doing, |tx| {
            if find(tx).map_err(|e| self.failed(doing, e))?.is_some() {
                return Ok(false);
            }
            let ran = tx.execute_batch(script);
            // A script that ended its transaction gets an error that says little, or none.
            self.check_open(tx)?;
            ran.map_err(|e| script_failed(script, e))?;
            tx.prepare_cached(&self.inner.sql.add_init)
                .and_then(|mut add| add.execute((digest, now_ms())))
                .map_err(|e| self.failed(doing, e))?;
            Ok(true)
        })
        .await
    }
}

fn script_failed(script: &str, error: rusqlite::Error) -> StoreError {
    // For syntax errors, SQLite gives the rest of the script from the statement on, and a place in it.
    let line = match &error {
        rusqlite::Error::SqlInputError { sql, offset, .. } => script.find(sql.as_str()).map(|start| {
            let end = start + usize::try_from(*offset).unwrap_or(0);
            script.bytes().take(end).filter(|byte| *byte == b'\n').count() + 1
        }),
        _ => None,
    };
    let place = line.map(|line| format!(" at line {line}")).unwrap_or_default();
    let message = format!("the init script failed{place}: {}; nothing of it is stored", one_line(&error));
    StoreError::failed(FaultClass::Permanent, message).caused_by(error)
}
