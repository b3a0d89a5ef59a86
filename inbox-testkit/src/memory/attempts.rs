//! Marks of starts in a memory database.

use super::{MemoryError, MemoryStore, MemoryTx};
use crate::lock::lock;
use async_trait::async_trait;
use inbox_core::{AttemptLog, ClaimKey, Group, StoreError};

#[async_trait]
impl AttemptLog for MemoryStore {
    async fn open_run(
        &self,
        group: &Group,
        instance: &str,
        open_max: u64,
    ) -> Result<Option<u64>, StoreError> {
        let mut state = lock(&self.database.0.state);
        if state.unavailable {
            return Err(MemoryError::Disconnected.into());
        }
        let place = (group.clone(), instance.to_owned());
        let before = state.runs.get(&place).copied();
        state.runs.insert(place, before.map_or(open_max, |before| before.max(open_max)));
        Ok(before)
    }

    async fn close_run(&self, group: &Group, instance: &str) -> Result<(), StoreError> {
        let mut state = lock(&self.database.0.state);
        if state.unavailable {
            return Err(MemoryError::Disconnected.into());
        }
        state.runs.remove(&(group.clone(), instance.to_owned()));
        Ok(())
    }

    async fn marks(&self, group: &Group, key: &ClaimKey) -> Result<u32, StoreError> {
        let state = lock(&self.database.0.state);
        if state.unavailable {
            return Err(MemoryError::Disconnected.into());
        }
        Ok(state.marks.get(&(group.clone(), key.clone())).copied().unwrap_or(0))
    }

    async fn mark_start(&self, group: &Group, key: &ClaimKey, marks: u32) -> Result<(), StoreError> {
        let mut state = lock(&self.database.0.state);
        if state.unavailable {
            return Err(MemoryError::Disconnected.into());
        }
        state.marks.insert((group.clone(), key.clone()), marks);
        Ok(())
    }

    async fn clear_marks(
        &self,
        tx: &mut MemoryTx,
        group: &Group,
        keys: &[ClaimKey],
    ) -> Result<(), StoreError> {
        tx.check()?;
        tx.writes.cleared.extend(keys.iter().map(|key| (group.clone(), key.clone())));
        Ok(())
    }
}
