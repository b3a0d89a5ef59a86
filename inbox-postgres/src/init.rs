//! Scripts that make a program's own tables, run once per database.

use crate::{
    PostgresStore,
    error::{class_of, database_error, one_line},
    statements::query,
};
use inbox_core::{FaultClass, StoreError};
use sha2::{Digest as _, Sha256};
use sqlx::{AssertSqlSafe, Error, postgres::PgErrorPosition, raw_sql};

impl PostgresStore {
    /// Runs a script of SQL statements unless it was run on this database before, and tells whether it was
    /// run now. The script is known by its SHA-256, which is recorded in the transaction of the script;
    /// a script that was changed is another one, so write `CREATE TABLE IF NOT EXISTS` where that matters.
    ///
    /// Statements that cannot run inside a transaction (`VACUUM`) or that end it (`COMMIT`) make it fail.
    ///
    /// # Errors
    /// [`StoreError`] with the server's words; nothing of the script is stored then.
    pub async fn apply_init(&self, script: &str) -> Result<bool, StoreError> {
        let doing = "running the init script";
        let digest = Sha256::digest(script.as_bytes()).to_vec();
        let mut tx = self.begin_own().await?;
        // Whoever starts again finds the script applied, without waiting for anybody.
        let found = query(&self.sql().find_init).bind(digest.clone()).fetch_optional(&mut *tx).await;
        if found.map_err(|e| self.failed(doing, e))?.is_some() {
            self.done_reading(tx).await;
            return Ok(false);
        }
        // The row is also the lock: whoever runs the script at the same time waits here. And by its trigger the
        // script cannot commit.
        let added = query(&self.sql().add_init).bind(digest).execute(&mut *tx).await;
        if added.map_err(|e| self.failed(doing, e))?.rows_affected() == 0 {
            self.done_reading(tx).await;
            return Ok(false);
        }
        let ran = raw_sql(AssertSqlSafe(script.to_owned())).execute(&mut *tx).await;
        ran.map_err(|e| script_failed(script, e))?;
        self.commit_own(doing, tx).await?;
        Ok(true)
    }
}

fn script_failed(script: &str, error: Error) -> StoreError {
    // Counted in characters from 1.
    let place = database_error(&error).and_then(|error| match error.position() {
        Some(PgErrorPosition::Original(at)) => {
            let line = script.chars().take(at.saturating_sub(1)).filter(|c| *c == '\n').count() + 1;
            Some(format!(" at line {line}"))
        }
        _ => None,
    });
    let message = format!(
        "the init script failed{}: {}; nothing of it is stored",
        place.unwrap_or_default(),
        one_line(&error)
    );
    // The script is to blame, unless the server or another transaction is.
    let class = match class_of(&error) {
        class @ (FaultClass::Outage | FaultClass::Contention) => class,
        _ => FaultClass::Permanent,
    };
    StoreError::failed(class, message).caused_by(error)
}
