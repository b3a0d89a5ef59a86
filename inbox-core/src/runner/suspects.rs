//! Messages that may take the process or the database down: their starts are marked before.

use super::{builder::Mode, counters::Counters, transaction::commit_alone, unit::Shared};
use crate::{AttemptLog, ClaimKey, InboxStore, LetterReason, Received, StoreError, Unit};
use std::sync::Arc;

/// What is known of a delivery that is handled alone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Suspicion {
    /// It was open when a connection was lost, or may have been when a run died.
    pub(crate) is_suspect: bool,
    /// Its marks in the attempt log, once they are known.
    marks: Option<u32>,
    /// The last mark stands for a start that has not been made yet.
    is_unused: bool,
}

impl Suspicion {
    /// A delivery that may have been started by a run that died.
    pub(crate) const FIRST: Self = Self { is_suspect: true, marks: None, is_unused: false };

    /// The connection was lost after it may have been started.
    pub(crate) fn deepen(&mut self) {
        self.is_suspect = true;
        self.is_unused = false;
    }

    /// Whether marks of it are on record.
    pub(crate) fn has_marks(self) -> bool {
        self.marks.is_some_and(|marks| marks > 0)
    }
}

/// The log, where it has to be asked about this unit: a suspect that is about to be handled.
fn log_for<'a, S: InboxStore, R>(
    shared: &'a Shared<S>,
    mode: Mode,
    batch: &[Received<R>],
) -> Option<&'a Arc<dyn AttemptLog<Tx = S::Tx>>> {
    let [single] = batch else { return None };
    let is_handled = single.suspicion.is_suspect && single.bury.is_none() && mode != Mode::Persist;
    shared.attempt_log.as_ref().filter(|_| is_handled)
}

/// Marks the start of a suspect before it is made. One that was started too often is to become a letter.
///
/// Every start that counts followed a mark that the store has confirmed: while the store is in trouble of
/// its own, nothing is held against the message.
pub(crate) async fn mark<S: InboxStore, R>(
    shared: &Shared<S>,
    mode: Mode,
    batch: &mut [Received<R>],
) -> Result<(), StoreError> {
    let Some(log) = log_for(shared, mode, batch) else { return Ok(()) };
    let [suspect] = batch else { return Ok(()) };
    if suspect.suspicion.is_unused {
        return Ok(());
    }
    let (group, key) = (&shared.group, suspect.message.claim_key().clone());
    let marks = match suspect.suspicion.marks {
        Some(marks) => marks,
        None => log.marks(group, &key).await?,
    };
    suspect.suspicion.marks = Some(marks);
    if marks >= shared.config.retry.starts_max {
        let error = format!(
            "{marks} time(s) in a row the process ended, or the connection to the store was lost, while it was handled"
        );
        tracing::warn!(target: "inbox", %group, id = %key, starts = marks, "suspect given up");
        suspect.attempts = suspect.attempts.max(marks);
        suspect.bury = Some((LetterReason::Suspect, error));
        return Ok(());
    }
    log.mark_start(group, &key, marks + 1).await?;
    tracing::debug!(target: "inbox", %group, id = %key, starts = marks + 1, "suspect handled alone");
    suspect.suspicion.marks = Some(marks + 1);
    suspect.suspicion.is_unused = true;
    Counters::add(&shared.counters.suspects, 1);
    Ok(())
}

/// Those of the deliveries whose marks have to go with the transaction that decides about them.
pub(crate) fn marked<'a, R: 'a>(deliveries: impl IntoIterator<Item = &'a Received<R>>) -> Vec<ClaimKey> {
    let marked = deliveries.into_iter().filter(|received| received.suspicion.has_marks());
    marked.map(|received| received.message.claim_key().clone()).collect()
}

/// The process has outlived them: they are suspects no more, and their marks go. Where that fails they stay,
/// and a later start counts on from them.
pub(crate) async fn acquit<'a, S: InboxStore, R: 'a>(
    shared: &Shared<S>,
    deliveries: impl IntoIterator<Item = &'a mut Received<R>>,
) {
    let mut keys = Vec::new();
    for received in deliveries {
        if received.suspicion.has_marks() {
            keys.push(received.message.claim_key().clone());
        }
        received.suspicion = Suspicion::default();
    }
    let Some(log) = shared.attempt_log.as_deref().filter(|_| !keys.is_empty()) else { return };
    if let Err(error) = clear(shared, log, &keys).await {
        tracing::warn!(target: "inbox", group = %shared.group, %error, "clearing marks of starts failed");
    }
}

async fn clear<S: InboxStore>(
    shared: &Shared<S>,
    log: &dyn AttemptLog<Tx = S::Tx>,
    keys: &[ClaimKey],
) -> Result<(), StoreError> {
    let mut unit = Unit::begin(&*shared.store, &shared.config.tx_limits).await?;
    if let Some(tx) = unit.tx_mut() {
        if let Err(error) = log.clear_marks(tx, &shared.group, keys).await {
            // The transaction is gone either way; the first error is the one to tell.
            let _gone = unit.rollback().await;
            return Err(error);
        }
    }
    commit_alone(unit).await
}
