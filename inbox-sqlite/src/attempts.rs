//! Marks of what was started.

use crate::{
    SqliteStore, SqliteTx,
    convert::{now_ms, read_number},
};
use async_trait::async_trait;
use inbox_core::{AttemptLog, ClaimKey, Group, StoreError};
use rusqlite::OptionalExtension;

#[async_trait]
impl AttemptLog for SqliteStore {
    async fn open_run(
        &self,
        group: &Group,
        instance: &str,
        open_max: u64,
    ) -> Result<Option<u64>, StoreError> {
        let doing = "opening a run";
        self.transact(doing, |tx| {
            let sql = &self.inner.sql;
            let group_id = self.group_id(tx, group).map_err(|e| self.failed(doing, e))?;
            // A bound that no column can hold is as good as the largest that one can.
            let open_max = i64::try_from(open_max).unwrap_or(i64::MAX);
            let before = tx
                .prepare_cached(&sql.find_run)
                .and_then(|mut find| {
                    find.query_row((group_id, instance), |row| read_number(row, 0)).optional()
                })
                .map_err(|e| self.failed(doing, e))?;
            tx.prepare_cached(&sql.put_run)
                .and_then(|mut put| put.execute((group_id, instance, open_max, now_ms())))
                .map_err(|e| self.failed(doing, e))?;
            Ok(before)
        })
        .await
    }

    async fn close_run(&self, group: &Group, instance: &str) -> Result<(), StoreError> {
        let doing = "closing a run";
        self.transact(doing, |tx| {
            let Some(group_id) = self.find_group(tx, group).map_err(|e| self.failed(doing, e))? else {
                return Ok(());
            };
            tx.prepare_cached(&self.inner.sql.remove_run)
                .and_then(|mut remove| remove.execute((group_id, instance)))
                .map_err(|e| self.failed(doing, e))?;
            Ok(())
        })
        .await
    }

    async fn marks(&self, group: &Group, key: &ClaimKey) -> Result<u32, StoreError> {
        self.read("reading marks of starts", |connection| {
            let Some(group_id) = self.find_group(connection, group)? else { return Ok(0) };
            let mut find = connection.prepare_cached(&self.inner.sql.find_marks)?;
            let found = find.query_row((group_id, key.scope.as_str(), key.id.as_str()), |row| row.get(0));
            Ok(found.optional()?.unwrap_or(0))
        })
        .await
    }

    async fn mark_start(&self, group: &Group, key: &ClaimKey, marks: u32) -> Result<(), StoreError> {
        let doing = "marking a start";
        self.transact(doing, |tx| {
            let group_id = self.group_id(tx, group).map_err(|e| self.failed(doing, e))?;
            let values = (group_id, key.scope.as_str(), key.id.as_str(), marks, now_ms());
            tx.prepare_cached(&self.inner.sql.put_marks)
                .and_then(|mut put| put.execute(values))
                .map_err(|e| self.failed(doing, e))?;
            Ok(())
        })
        .await
    }

    async fn clear_marks(
        &self,
        tx: &mut SqliteTx,
        group: &Group,
        keys: &[ClaimKey],
    ) -> Result<(), StoreError> {
        self.check_open(tx)?;
        let doing = "clearing marks of starts";
        let failed = |e| self.failed(doing, e);
        let Some(group_id) = self.find_group(tx, group).map_err(failed)? else { return Ok(()) };
        let mut remove = tx.prepare_cached(&self.inner.sql.remove_marks).map_err(failed)?;
        for key in keys {
            remove.execute((group_id, key.scope.as_str(), key.id.as_str())).map_err(failed)?;
        }
        Ok(())
    }
}
