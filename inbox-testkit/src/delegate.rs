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

pub(crate) use {checkpoints, inspect, letters};
