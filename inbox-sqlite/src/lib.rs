//! The SQLite store of [inbox](inbox_core): claims and effects in one transaction of an embedded
//! database.
//!
//! | | |
//! |---|---|
//! | database | SQLite, bundled by `rusqlite` (0.39 to 0.43); a local file, several processes on one host |
//! | transaction | `BEGIN IMMEDIATE`: one writer at a time in the whole database |
//! | busy claims | never: whoever claims holds the write lock, so every other row is decided |
//! | durability | WAL with `synchronous = FULL`; [`Synchronous::Normal`] on request |
//! | foreign lock | waited for up to `lock_timeout`, then contention, which charges nobody |
//! | statement time-out | enforced, also against endless queries |
//! | idle time-out | not enforced: there is no server that could |
//! | in doubt | only after a handler replaced the connection's hooks; resolved under the write lock |
//! | lanes | one transaction at a time; two lanes keep the writer thread busy, more do not help |
//! | letters, conflicts, checkpoints | yes |
//! | stored messages | yes; due times go by the clock of the host |
//! | attempt log | yes |
//! | handlers | get a [`rusqlite::Connection`]; they run on the store's own thread |
//!
//! ```
//! use inbox_core::{Claim, ClaimKey, ClaimRequest, Fingerprint, Group, InboxStore, MessageId, Scope, TxLimits};
//! use inbox_sqlite::SqliteStore;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("orders.db");
//! let store = SqliteStore::open(&path)?;
//! store.apply_init("CREATE TABLE invoices (order_id TEXT, cents INTEGER) STRICT").await?;
//!
//! let key = ClaimKey { scope: Scope::default(), id: MessageId::new("order-17")? };
//! let request = ClaimRequest { key, fingerprint: Fingerprint::of_payload(Some(b"7000")) };
//! let mut tx = store.begin(&TxLimits::default()).await?;
//! if store.claim(&mut tx, &Group::new("billing")?, &[request]).await? == [Claim::Fresh] {
//!     tx.execute("INSERT INTO invoices VALUES ('order-17', 7000)", [])?;
//! }
//! store.commit(tx).await?;
//! # Ok(())
//! # }
//! ```
//!
//! The parts: [`SqliteStore`] is the store and implements
//! [`InboxStore`](inbox_core::InboxStore), [`Letters`](inbox_core::Letters),
//! [`Inspect`](inbox_core::Inspect), [`Checkpoints`](inbox_core::Checkpoints) and
//! [`StoredInbox`](inbox_core::StoredInbox); [`SqliteOptions`] are its settings, [`OpenError`] what can be
//! wrong with the file, and [`SqliteTx`] an open transaction.
//!
//! The file must be on a local file system, and a process must not fork after it has opened a store.

mod attempts;
mod checkpoints;
mod claims;
mod connection;
mod convert;
mod error;
mod guard;
mod handler;
mod init;
mod letters;
mod options;
mod schema;
mod statements;
mod store;
mod stored;
mod tx;
mod writer;

pub use error::OpenError;
pub use handler::{Blocking, blocking};
pub use options::{SqliteOptions, Synchronous};
pub use rusqlite;
pub use store::SqliteStore;
pub use tx::SqliteTx;

/// The transaction as it is lent to a handler over SQLite.
pub type Tx = inbox_core::Tx<SqliteStore>;
