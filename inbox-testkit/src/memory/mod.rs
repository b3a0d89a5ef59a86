//! The reference store: in memory, with real transactions.

mod attempts;
mod checkpoints;
mod connection;
mod database;
mod effects;
mod inspect;
mod letters;
mod state;
mod store;
mod stored;
mod waiting;

pub use connection::{MemoryConnection, MemoryError, MemoryTx};
pub use database::MemoryDatabase;
pub use effects::{COUNTER, EFFECTS, EffectRow, apply_effect};
pub use state::ClaimRow;
pub use store::MemoryStore;
