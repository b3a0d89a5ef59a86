//! The PostgreSQL store of [inbox](inbox_core): claims and effects in one transaction of a database server.
//!
//! | | |
//! |---|---|
//! | database | PostgreSQL 13 or newer, by `sqlx` 0.9; a primary that does not forget commits, which is checked |
//! | transaction | `READ COMMITTED` by default ([`Isolation`]); several writers at a time, one connection each |
//! | busy claims | yes: waited for up to `lock_timeout`, then [`Busy`](inbox_core::StoreError::Busy) |
//! | durability | the server's: `fsync` and `synchronous_commit` must be on |
//! | statement time-out | enforced by the server |
//! | idle time-out | enforced by the server |
//! | in doubt | when the reply to a commit is lost; resolved on a new connection, which waits for whoever could still commit |
//! | handlers that end the transaction | `COMMIT` is refused by a constraint, writes after `ROLLBACK` by the session; a failed attempt |
//! | lanes | as many as there are connections |
//! | round trips | begin, claim, commit: one each, whatever the size of the batch; one more for what was found |
//! | letters, conflicts, checkpoints, attempt log | yes |
//! | stored messages | yes; due times go by the clock of the server |
//! | bytes per message | at most 130 with its index when the id is a UUID |
//! | handlers | get a [`PgConnection`](sqlx::PgConnection) |
//!
//! ```no_run
//! use inbox_core::{Claim, ClaimKey, ClaimRequest, Fingerprint, Group, InboxStore, MessageId, Scope, TxLimits};
//! use inbox_postgres::{PostgresStore, sqlx::query};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = PostgresStore::connect("postgres://billing@localhost/shop").await?;
//! store.apply_init("CREATE TABLE IF NOT EXISTS invoices (order_id text, cents bigint)").await?;
//!
//! let key = ClaimKey { scope: Scope::default(), id: MessageId::new("order-17")? };
//! let request = ClaimRequest { key, fingerprint: Fingerprint::of_payload(Some(b"7000")) };
//! let mut tx = store.begin(&TxLimits::default()).await?;
//! if store.claim(&mut tx, &Group::new("billing")?, &[request]).await? == [Claim::Fresh] {
//!     query("INSERT INTO invoices VALUES ('order-17', 7000)").execute(&mut *tx).await?;
//! }
//! store.commit(tx).await?;
//! # Ok(())
//! # }
//! ```
//!
//! With a runner, a handler takes the transaction last:
//!
//! ```
//! use inbox_core::{Failure, Json};
//! use inbox_postgres::{Tx, sqlx::query};
//!
//! #[derive(serde::Deserialize)]
//! struct Order { order_id: String, cents: i64 }
//!
//! async fn create_invoice(Json(order): Json<Order>, mut tx: Tx) -> Result<(), Failure> {
//!     query("INSERT INTO invoices VALUES ($1, $2)")
//!         .bind(order.order_id)
//!         .bind(order.cents)
//!         .execute(&mut *tx)
//!         .await?;
//!     Ok(())
//! }
//! ```
//!
//! The parts: [`PostgresStore`] is the store and implements
//! [`InboxStore`](inbox_core::InboxStore), [`Letters`](inbox_core::Letters),
//! [`Inspect`](inbox_core::Inspect), [`Checkpoints`](inbox_core::Checkpoints),
//! [`StoredInbox`](inbox_core::StoredInbox) and [`AttemptLog`](inbox_core::AttemptLog);
//! [`PostgresOptions`] are its settings, [`OpenError`] what can be wrong with the server, [`StatementError`] what
//! went wrong with a statement, and [`PostgresTx`] an open transaction. [`PostgresStore::claim_in`] is for transactions of your own.
//!
//! `docs/postgres.md` tells what the store needs from the server: privileges, poolers, tables.

mod attempts;
mod checkpoints;
mod claims;
mod commit;
mod convert;
mod error;
mod init;
mod letters;
mod options;
mod pool;
mod schema;
mod statements;
mod store;
mod stored;
mod tx;
mod url;

pub use error::{OpenError, StatementError};
pub use options::{Isolation, PostgresOptions};
pub use sqlx;
pub use store::PostgresStore;
pub use tx::PostgresTx;

/// The transaction as it is lent to a handler over PostgreSQL.
pub type Tx = inbox_core::Tx<PostgresStore>;
