//! The PostgreSQL store of [inbox](inbox_core): claims and effects in one transaction of a database server.

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

pub use error::OpenError;
pub use options::{Isolation, PostgresOptions};
pub use sqlx;
pub use store::PostgresStore;
pub use tx::PostgresTx;

/// The transaction as it is lent to a handler over PostgreSQL.
pub type Tx = inbox_core::Tx<PostgresStore>;
