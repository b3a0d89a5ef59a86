//! The store suite that every store passes, on a real server.

#![allow(clippy::unwrap_used)]

mod common;

use async_trait::async_trait;
use common::Database;
use inbox_postgres::{
    PostgresStore, PostgresTx,
    sqlx::{query, raw_sql},
};
use inbox_testkit::{
    attempt_log_suite, store_suite,
    suite::store::{EffectError, StoreHarness, StoreTraits},
};

#[async_trait]
impl StoreHarness for Database {
    type Store = PostgresStore;

    fn traits(&self) -> StoreTraits {
        StoreTraits::server()
    }

    async fn open(&self) -> PostgresStore {
        Database::open(self).await
    }

    async fn effect(&self, tx: &mut PostgresTx, text: &str) -> Result<(), EffectError> {
        query("INSERT INTO effects (what) VALUES ($1)").bind(text).execute(&mut **tx).await?;
        Ok(())
    }

    async fn effects(&self) -> Vec<String> {
        Database::effects(self).await
    }

    async fn fail_statement(&self, tx: &mut PostgresTx) {
        assert!(query("INSERT INTO effects (what) VALUES (NULL)").execute(&mut **tx).await.is_err());
    }

    async fn rollback_by_hand(&self, tx: &mut PostgresTx) {
        let _hidden = raw_sql("ROLLBACK").execute(&mut **tx).await;
    }

    async fn commit_by_hand(&self, tx: &mut PostgresTx) {
        let _hidden = raw_sql("COMMIT").execute(&mut **tx).await;
    }

    async fn violate_at_commit(&self, tx: &mut PostgresTx) {
        query("INSERT INTO children VALUES (7)").execute(&mut **tx).await.unwrap();
    }

    async fn cut_connections(&self) {
        self.test.cut_connections();
    }
}

store_suite!(Database::new().await);

mod attempt_log {
    use super::*;
    attempt_log_suite!(Database::new().await);
}
