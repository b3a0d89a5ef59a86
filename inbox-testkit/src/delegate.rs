//! Parts of wrappers that only pass on.

/// `Inspect`: looking is never counted, recorded or spoilt.
macro_rules! inspect {
    ($wrapper:ident) => {
        #[async_trait::async_trait]
        impl<S: inbox_core::Inspect> inbox_core::Inspect for $wrapper<S> {
            async fn letters(
                &self,
                page: &inbox_core::Page,
            ) -> Result<Vec<inbox_core::StoredLetter>, inbox_core::StoreError> {
                self.inner.letters(page).await
            }

            async fn letter(
                &self,
                letter_id: i64,
            ) -> Result<Option<inbox_core::StoredLetter>, inbox_core::StoreError> {
                self.inner.letter(letter_id).await
            }

            async fn conflicts(
                &self,
                page: &inbox_core::Page,
            ) -> Result<Vec<inbox_core::StoredConflict>, inbox_core::StoreError> {
                self.inner.conflicts(page).await
            }

            async fn group_stats(&self) -> Result<Vec<inbox_core::GroupStats>, inbox_core::StoreError> {
                self.inner.group_stats().await
            }
        }
    };
}

/// `Letters`, for wrappers that spoil something else.
macro_rules! letters {
    ($wrapper:ident) => {
        #[async_trait::async_trait]
        impl<S: inbox_core::Letters> inbox_core::Letters for $wrapper<S> {
            async fn bury(
                &self,
                tx: &mut S::Tx,
                group: &inbox_core::Group,
                letters: &[inbox_core::Letter],
            ) -> Result<(), inbox_core::StoreError> {
                self.inner.bury(tx, group, letters).await
            }

            async fn record_conflicts(
                &self,
                tx: &mut S::Tx,
                group: &inbox_core::Group,
                conflicts: &[inbox_core::Conflict],
            ) -> Result<(), inbox_core::StoreError> {
                self.inner.record_conflicts(tx, group, conflicts).await
            }
        }
    };
}

/// `AttemptLog`, for wrappers that spoil something else.
macro_rules! attempt_log {
    ($wrapper:ident) => {
        #[async_trait::async_trait]
        impl<S: inbox_core::AttemptLog> inbox_core::AttemptLog for $wrapper<S> {
            async fn open_run(
                &self,
                group: &inbox_core::Group,
                instance: &str,
                open_max: u64,
            ) -> Result<Option<u64>, inbox_core::StoreError> {
                self.inner.open_run(group, instance, open_max).await
            }

            async fn close_run(
                &self,
                group: &inbox_core::Group,
                instance: &str,
            ) -> Result<(), inbox_core::StoreError> {
                self.inner.close_run(group, instance).await
            }

            async fn marks(
                &self,
                group: &inbox_core::Group,
                key: &inbox_core::ClaimKey,
            ) -> Result<u32, inbox_core::StoreError> {
                self.inner.marks(group, key).await
            }

            async fn mark_start(
                &self,
                group: &inbox_core::Group,
                key: &inbox_core::ClaimKey,
                marks: u32,
            ) -> Result<(), inbox_core::StoreError> {
                self.inner.mark_start(group, key, marks).await
            }

            async fn clear_marks(
                &self,
                tx: &mut S::Tx,
                group: &inbox_core::Group,
                keys: &[inbox_core::ClaimKey],
            ) -> Result<(), inbox_core::StoreError> {
                self.inner.clear_marks(tx, group, keys).await
            }
        }
    };
}

/// `Checkpoints`, for wrappers that spoil something else.
macro_rules! checkpoints {
    ($wrapper:ident) => {
        #[async_trait::async_trait]
        impl<S: inbox_core::Checkpoints> inbox_core::Checkpoints for $wrapper<S> {
            async fn checkpoints(
                &self,
                group: &inbox_core::Group,
                partitions: &[inbox_core::Partition],
            ) -> Result<Vec<Option<inbox_core::Checkpoint>>, inbox_core::StoreError> {
                self.inner.checkpoints(group, partitions).await
            }

            async fn take_over(
                &self,
                group: &inbox_core::Group,
                partitions: &[inbox_core::Partition],
            ) -> Result<Vec<inbox_core::Checkpoint>, inbox_core::StoreError> {
                self.inner.take_over(group, partitions).await
            }

            async fn hold(
                &self,
                tx: &mut S::Tx,
                group: &inbox_core::Group,
                partitions: &[inbox_core::Partition],
            ) -> Result<Vec<Option<inbox_core::Checkpoint>>, inbox_core::StoreError> {
                self.inner.hold(tx, group, partitions).await
            }

            async fn advance(
                &self,
                tx: &mut S::Tx,
                group: &inbox_core::Group,
                moves: &[inbox_core::CheckpointMove],
            ) -> Result<Vec<inbox_core::Moved>, inbox_core::StoreError> {
                self.inner.advance(tx, group, moves).await
            }

            async fn forget(
                &self,
                group: &inbox_core::Group,
                source: &inbox_core::Source,
            ) -> Result<u64, inbox_core::StoreError> {
                self.inner.forget(group, source).await
            }

            async fn list_checkpoints(
                &self,
                group: &inbox_core::Group,
                source: &inbox_core::Source,
            ) -> Result<Vec<(inbox_core::Partition, inbox_core::Checkpoint)>, inbox_core::StoreError> {
                self.inner.list_checkpoints(group, source).await
            }
        }
    };
}

/// `StoredInbox`, for wrappers that spoil something else.
macro_rules! stored {
    ($wrapper:ident) => {
        #[async_trait::async_trait]
        impl<S: inbox_core::StoredInbox> inbox_core::StoredInbox for $wrapper<S> {
            async fn keep(
                &self,
                tx: &mut S::Tx,
                group: &inbox_core::Group,
                messages: &[inbox_core::Message],
            ) -> Result<(), inbox_core::StoreError> {
                self.inner.keep(tx, group, messages).await
            }

            async fn reclaim(
                &self,
                tx: &mut S::Tx,
                group: &inbox_core::Group,
                requests: &[inbox_core::ClaimRequest],
            ) -> Result<Vec<inbox_core::Claim>, inbox_core::StoreError> {
                self.inner.reclaim(tx, group, requests).await
            }

            async fn record_failure(
                &self,
                group: &inbox_core::Group,
                key: &inbox_core::ClaimKey,
                attempts: u32,
                error: &str,
                retry_in: std::time::Duration,
            ) -> Result<(), inbox_core::StoreError> {
                self.inner.record_failure(group, key, attempts, error, retry_in).await
            }

            async fn due(
                &self,
                group: &inbox_core::Group,
                rows_max: u32,
            ) -> Result<Vec<inbox_core::StoredMessage>, inbox_core::StoreError> {
                self.inner.due(group, rows_max).await
            }

            async fn next_due(
                &self,
                group: &inbox_core::Group,
            ) -> Result<Option<std::time::Duration>, inbox_core::StoreError> {
                self.inner.next_due(group).await
            }
        }
    };
}

pub(crate) use {attempt_log, checkpoints, inspect, letters, stored};
