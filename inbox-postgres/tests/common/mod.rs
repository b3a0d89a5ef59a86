//! What the tests share: a database of their own on the program's server.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

pub mod realtime;

use inbox_postgres::{
    PostgresStore,
    sqlx::{AssertSqlSafe, Connection as _, PgConnection, Row as _, raw_sql},
};
use inbox_testkit::servers::{PostgresServer, TestDatabase};

/// What handlers write into: without keys, so that a second effect is seen.
pub const TABLES: &str = "
    CREATE TABLE effects (seq bigint GENERATED ALWAYS AS IDENTITY, what text NOT NULL);
    CREATE TABLE parents (id integer PRIMARY KEY);
    CREATE TABLE children (parent integer REFERENCES parents (id) DEFERRABLE INITIALLY DEFERRED);
";

/// A fresh database with the tables of the tests.
pub struct Database {
    pub test: TestDatabase,
}

impl Database {
    pub async fn new() -> Self {
        Self::on(&PostgresServer::shared()).await
    }

    pub async fn on(server: &PostgresServer) -> Self {
        let database = Self { test: server.database() };
        let mut look = database.look().await;
        raw_sql(TABLES).execute(&mut look).await.unwrap();
        database
    }

    pub async fn open(&self) -> PostgresStore {
        PostgresStore::connect(self.test.url()).await.unwrap()
    }

    /// A connection of its own, beside every store.
    pub async fn look(&self) -> PgConnection {
        PgConnection::connect(self.test.url()).await.unwrap()
    }

    /// The committed effects, oldest first.
    pub async fn effects(&self) -> Vec<String> {
        self.texts("SELECT what FROM effects ORDER BY seq").await
    }

    /// The first column of some rows, as text.
    pub async fn texts(&self, sql: &str) -> Vec<String> {
        let rows = raw_sql(AssertSqlSafe(sql.to_owned())).fetch_all(&mut self.look().await).await.unwrap();
        rows.iter().map(|row| row.try_get::<String, _>(0).unwrap()).collect()
    }
}
