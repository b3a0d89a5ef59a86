//! The store suite that every store passes, on database files.

#![allow(clippy::unwrap_used)]

use async_trait::async_trait;
use inbox_sqlite::{SqliteStore, SqliteTx};
use inbox_testkit::{
    attempt_log_suite, store_suite,
    suite::store::{EffectError, StoreHarness, StoreTraits, Writers},
};
use std::path::PathBuf;
use tempfile::TempDir;

struct File {
    path: PathBuf,
    _directory: TempDir,
}

impl File {
    async fn new() -> Self {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("test.db");
        let store = SqliteStore::open(&path).unwrap();
        store
            .apply_init(
                "CREATE TABLE effects (what TEXT NOT NULL) STRICT;
                 CREATE TABLE parents (id INTEGER PRIMARY KEY);
                 CREATE TABLE children
                     (parent INTEGER REFERENCES parents (id) DEFERRABLE INITIALLY DEFERRED);",
            )
            .await
            .unwrap();
        Self { path, _directory: directory }
    }
}

#[async_trait]
impl StoreHarness for File {
    type Store = SqliteStore;

    /// One writer at a time; a failed statement takes back only what it did itself; and there is no
    /// server that could end a connection.
    fn traits(&self) -> StoreTraits {
        StoreTraits::server()
            .writers(Writers::OneAtATime)
            .failed_statement_aborts(false)
            .connections_cut(false)
    }

    async fn open(&self) -> SqliteStore {
        SqliteStore::open(&self.path).unwrap()
    }

    async fn effect(&self, tx: &mut SqliteTx, text: &str) -> Result<(), EffectError> {
        tx.execute("INSERT INTO effects VALUES (?1)", [text])?;
        Ok(())
    }

    async fn effects(&self) -> Vec<String> {
        let connection = rusqlite::Connection::open(&self.path).unwrap();
        let mut list = connection.prepare("SELECT what FROM effects ORDER BY rowid").unwrap();
        list.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }

    async fn fail_statement(&self, tx: &mut SqliteTx) {
        assert!(tx.execute("INSERT INTO effects VALUES (NULL)", []).is_err());
    }

    async fn rollback_by_hand(&self, tx: &mut SqliteTx) {
        let _hidden = tx.execute_batch("ROLLBACK");
    }

    async fn commit_by_hand(&self, tx: &mut SqliteTx) {
        let _hidden = tx.execute_batch("COMMIT");
    }

    async fn violate_at_commit(&self, tx: &mut SqliteTx) {
        tx.execute("INSERT INTO children VALUES (7)", []).unwrap();
    }

    async fn cut_connections(&self) {}
}

store_suite!(File::new().await);

mod attempt_log {
    use super::*;
    attempt_log_suite!(File::new().await);
}
