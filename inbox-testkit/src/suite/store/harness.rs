//! What a store has to bring to be tested.

use async_trait::async_trait;
use inbox_core::{Checkpoints, InboxStore, Inspect};
use std::error::Error;

/// The transaction of a harness's store.
pub type TxOf<H> = <<H as StoreHarness>::Store as InboxStore>::Tx;

/// A driver's error.
pub type EffectError = Box<dyn Error + Send + Sync>;

/// An empty database of its own, its store, and a look at it from outside.
///
/// The hooks do to a transaction what handlers and networks do. A backend on which one of them cannot be
/// done says so in its [`StoreTraits`], and its hook does nothing.
#[async_trait]
pub trait StoreHarness: Send + Sync + 'static {
    /// The store under test.
    type Store: Inspect + Checkpoints;

    /// How the store behaves where the contract leaves a choice.
    fn traits(&self) -> StoreTraits;

    /// A new handle with connections of its own, on the same database: what another process would have.
    async fn open(&self) -> Self::Store;

    /// Appends a text to a table without a key, as a handler would: through the transaction.
    async fn effect(&self, tx: &mut <Self::Store as InboxStore>::Tx, text: &str) -> Result<(), EffectError>;

    /// The texts that are committed, oldest first, read outside of the store.
    async fn effects(&self) -> Vec<String>;

    /// Lets a statement fail, and hides its error.
    async fn fail_statement(&self, tx: &mut <Self::Store as InboxStore>::Tx);

    /// Ends the transaction by a statement that rolls it back, and hides the answer.
    async fn rollback_by_hand(&self, tx: &mut <Self::Store as InboxStore>::Tx);

    /// Ends the transaction by a statement that commits it, and hides the answer.
    async fn commit_by_hand(&self, tx: &mut <Self::Store as InboxStore>::Tx);

    /// Violates a constraint that is checked at the commit only.
    async fn violate_at_commit(&self, tx: &mut <Self::Store as InboxStore>::Tx);

    /// Ends all connections from the database's side.
    async fn cut_connections(&self);
}

/// How many transactions can write at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writers {
    /// Several. A claim that another one holds undecided is [`Busy`](inbox_core::StoreError::Busy).
    Concurrent,
    /// One. Whoever begins beside it is told so by
    /// [`Contention`](inbox_core::FaultClass::Contention).
    OneAtATime,
}

/// How a store behaves where the contract leaves a choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreTraits {
    /// How many transactions can write at a time.
    pub writers: Writers,
    /// Whether a failed statement aborts its transaction. Where it does not, the rest of it stands.
    pub failed_statement_aborts: bool,
    /// Whether a handler can send statements that end the transaction.
    pub ended_by_hand: bool,
    /// Whether constraints can be checked at the commit only.
    pub deferred_constraints: bool,
    /// Whether a connection can be ended by the database's side.
    pub connections_cut: bool,
}

impl StoreTraits {
    /// A database server: several writers, aborted by a failed statement, ended by hand, with deferred
    /// constraints and connections that can be cut.
    pub const fn server() -> Self {
        Self {
            writers: Writers::Concurrent,
            failed_statement_aborts: true,
            ended_by_hand: true,
            deferred_constraints: true,
            connections_cut: true,
        }
    }

    /// Sets how many transactions can write at a time.
    #[must_use]
    pub const fn writers(self, writers: Writers) -> Self {
        Self { writers, ..self }
    }

    /// Sets whether a failed statement aborts its transaction.
    #[must_use]
    pub const fn failed_statement_aborts(self, failed_statement_aborts: bool) -> Self {
        Self { failed_statement_aborts, ..self }
    }

    /// Sets whether a handler can end the transaction.
    #[must_use]
    pub const fn ended_by_hand(self, ended_by_hand: bool) -> Self {
        Self { ended_by_hand, ..self }
    }

    /// Sets whether constraints can be checked at the commit only.
    #[must_use]
    pub const fn deferred_constraints(self, deferred_constraints: bool) -> Self {
        Self { deferred_constraints, ..self }
    }

    /// Sets whether connections can be cut.
    #[must_use]
    pub const fn connections_cut(self, connections_cut: bool) -> Self {
        Self { connections_cut, ..self }
    }
}
