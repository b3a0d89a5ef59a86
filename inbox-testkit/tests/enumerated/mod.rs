//! The reference database as the world of an enumeration.

use inbox_core::{AttemptLog, Checkpoints, Failure, Group, Message, StoredInbox};
use inbox_testkit::*;

/// The reference database, behind a store that may be spoilt.
pub(crate) struct Memory<S> {
    pub(crate) database: MemoryDatabase,
    pub(crate) spoil: fn(MemoryStore) -> S,
}

impl<S: StoredInbox<Tx = MemoryTx> + Checkpoints + AttemptLog> World for Memory<S> {
    type Store = S;

    fn open(&self) -> S {
        (self.spoil)(self.database.store())
    }

    fn witness(&self, group: &Group) -> Witness {
        self.database.witness(group)
    }

    fn state(&self, group: &Group) -> FinalState {
        assert_eq!(self.database.open_transactions(), 0);
        FinalState::of(&self.database, group)
    }

    fn apply(connection: &mut MemoryConnection, message: &Message) -> Result<(), Failure> {
        Ok(apply_effect(connection, message)?)
    }
}

pub(crate) fn sound() -> Memory<MemoryStore> {
    Memory { database: MemoryDatabase::new(), spoil: |store| store }
}
