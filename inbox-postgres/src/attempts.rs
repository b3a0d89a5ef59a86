//! Durable marks of what was started.

use crate::{PostgresStore, PostgresTx, convert::read_number, statements::query};
use async_trait::async_trait;
use inbox_core::{AttemptLog, ClaimKey, Group, StoreError};

#[async_trait]
impl AttemptLog for PostgresStore {
    async fn open_run(
        &self,
        group: &Group,
        instance: &str,
        open_max: u64,
    ) -> Result<Option<u64>, StoreError> {
        let doing = "opening a run";
        // A bound beyond all that can be open bounds nothing, whatever it is.
        let open_max = i64::try_from(open_max).unwrap_or(i64::MAX);
        let mut tx = self.begin_own().await?;
        let group_id = self.group_id(&mut tx, group).await?;
        let before = query(&self.sql().open_run)
            .bind(group_id)
            .bind(instance.to_owned())
            .bind(open_max)
            .fetch_optional(&mut *tx)
            .await
            .and_then(|row| row.map(|row| read_number(&row, 0)).transpose())
            .map_err(|e| self.failed(doing, e))?;
        self.commit_own(doing, tx).await?;
        Ok(before)
    }

    async fn close_run(&self, group: &Group, instance: &str) -> Result<(), StoreError> {
        let doing = "closing a run";
        let mut tx = self.begin_own().await?;
        if let Some(group_id) = self.find_group(&mut tx, group).await? {
            let close = query(&self.sql().close_run).bind(group_id).bind(instance.to_owned());
            close.execute(&mut *tx).await.map_err(|e| self.failed(doing, e))?;
        }
        self.commit_own(doing, tx).await
    }

    async fn marks(&self, group: &Group, key: &ClaimKey) -> Result<u32, StoreError> {
        let doing = "reading marks";
        let mut tx = self.begin_own().await?;
        let row = match self.find_group(&mut tx, group).await? {
            Some(group_id) => query(&self.sql().marks)
                .bind(group_id)
                .bind(key.scope.as_str().to_owned())
                .bind(key.id.as_str().to_owned())
                .fetch_optional(&mut *tx)
                .await
                .map_err(|e| self.failed(doing, e))?,
            None => None,
        };
        self.done_reading(tx).await;
        row.map_or(Ok(0), |row| read_number(&row, 0)).map_err(|e| self.failed(doing, e))
    }

    async fn mark_start(&self, group: &Group, key: &ClaimKey, marks: u32) -> Result<(), StoreError> {
        let doing = "marking a start";
        let mut tx = self.begin_own().await?;
        let group_id = self.group_id(&mut tx, group).await?;
        query(&self.sql().mark_start)
            .bind(group_id)
            .bind(key.scope.as_str().to_owned())
            .bind(key.id.as_str().to_owned())
            .bind(i64::from(marks))
            .execute(&mut *tx)
            .await
            .map_err(|e| self.failed(doing, e))?;
        self.commit_own(doing, tx).await
    }

    async fn clear_marks(
        &self,
        tx: &mut PostgresTx,
        group: &Group,
        keys: &[ClaimKey],
    ) -> Result<(), StoreError> {
        let doing = "clearing marks";
        let patience = tx.patience();
        let work = async {
            let Some(group_id) = self.find_group(tx, group).await? else { return Ok(()) };
            let mut keys: Vec<&ClaimKey> = keys.iter().collect();
            keys.sort_unstable();
            let scopes: Vec<&str> = keys.iter().map(|key| key.scope.as_str()).collect();
            let ids: Vec<&str> = keys.iter().map(|key| key.id.as_str()).collect();
            let clear = query(&self.sql().clear_marks).bind(group_id).bind(scopes).bind(ids);
            clear.execute(&mut **tx).await.map(drop).map_err(|e| self.failed(doing, e))
        };
        self.within(doing, patience, work).await
    }
}
