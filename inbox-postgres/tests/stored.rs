//! The clauses of `StoredInbox`.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::Database;
/// A store on a database that stays until the server ends.
async fn new_store() -> inbox_postgres::PostgresStore {
    let database = Database::new().await;
    let store = database.open().await;
    std::mem::forget(database);
    store
}

inbox_testkit::stored_inbox_tests!(new_store().await);
