//! Letters and conflicts of a memory database.

use super::{MemoryStore, MemoryTx};
use async_trait::async_trait;
use inbox_core::{Conflict, Disposition, FaultClass, Group, Letter, Letters, StoreError};

#[async_trait]
impl Letters for MemoryStore {
    async fn bury(&self, tx: &mut MemoryTx, group: &Group, letters: &[Letter]) -> Result<(), StoreError> {
        tx.check()?;
        for letter in letters {
            let key = letter.message.claim_key();
            let Some(row) = tx.writes.claims.get_mut(&(group.clone(), key.clone())) else {
                let message = format!("burying {key}: this transaction does not hold its claim");
                return Err(StoreError::failed(FaultClass::Permanent, message));
            };
            row.disposition = Disposition::Dead;
            row.record = None;
            tx.writes.letters.push((group.clone(), letter.clone()));
        }
        Ok(())
    }

    async fn record_conflicts(
        &self,
        tx: &mut MemoryTx,
        group: &Group,
        conflicts: &[Conflict],
    ) -> Result<(), StoreError> {
        tx.check()?;
        tx.writes.conflicts.extend(conflicts.iter().map(|conflict| (group.clone(), conflict.clone())));
        Ok(())
    }
}
