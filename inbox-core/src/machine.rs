//! The state machine of one delivery, as types: `received → claimed → applied → committed`.
//!
//! Each state owns the delivery's receipt. A [`Settlement`] that acknowledges comes out of
//! [`Unit::commit`], of a committed claim that was found, or of a commit that was resolved, and
//! carries the receipt of that very delivery. There is no other way to make one: programs that settle a
//! claim before its commit, settle twice, commit what was not applied or make a settlement by hand do not
//! compile (`tests/wrong` holds them, with the compiler's words).

use crate::{
    Claim, ClaimKey, ClaimRequest, CommitError, Conflict, Disposition, FaultClass, Fingerprint, Group,
    InboxStore, Letter, LetterReason, Letters, Message, Resolution, StoreError, StoredInbox, Tx, TxLimits,
    mutant::{self, Mutant},
    runner::{Place, Suspicion},
    tx::Home,
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// What a settlement says became of its delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// Its effect is committed.
    Applied,
    /// It is kept in its inbox row, and will be handled out of it.
    Stored,
    /// A committed claim says that it was dealt with before.
    Found,
    /// A letter or a conflict record of it is committed.
    Discarded,
    /// A lossy strategy or an ignored type: acknowledged without a commit.
    Waived,
    /// Given back; it has to be delivered again, after this time where the broker can delay.
    Released {
        /// How long to wait; at once when absent.
        after: Option<Duration>,
    },
}

impl Verdict {
    /// Whether the broker may forget the delivery.
    pub const fn is_acknowledgement(self) -> bool {
        !matches!(self, Self::Released { .. })
    }
}

/// What a broker is told about one delivery. Made by the state machine alone.
#[derive(Debug)]
#[must_use = "an unsent settlement leads to redelivery"]
pub struct Settlement<R> {
    receipt: R,
    verdict: Verdict,
    tag: usize,
}

impl<R> Settlement<R> {
    /// What became of the delivery.
    pub fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// What names the delivery.
    pub fn receipt(&self) -> &R {
        &self.receipt
    }

    /// Takes it apart.
    pub fn into_parts(self) -> (R, Verdict) {
        (self.receipt, self.verdict)
    }

    pub(crate) fn tag(&self) -> usize {
        self.tag
    }
}

/// A delivery with its identity, of which nothing is known yet.
#[derive(Debug)]
pub struct Received<R> {
    pub(crate) message: Message,
    pub(crate) receipt: R,
    /// Set when it is to become a letter instead of being handled.
    pub(crate) bury: Option<(LetterReason, String)>,
    /// Attempts that were charged so far.
    pub(crate) attempts: u32,
    /// How often its claim was found to be held by somebody else.
    pub(crate) found_busy: u32,
    /// Whether it may take the process or the database down.
    pub(crate) suspicion: Suspicion,
    /// Its number in the order of arrival.
    pub(crate) number: u64,
    /// Under which the runner keeps what it knows about the delivery.
    pub(crate) tag: usize,
    /// Its place in the watermark of its partition.
    pub(crate) place: Option<Place>,
}

impl<R> Received<R> {
    /// The number of the attempt that is next, from 1.
    pub(crate) fn next_attempt(&self) -> u32 {
        self.attempts + 1
    }

    /// Enters the machine.
    pub fn new(message: Message, receipt: R) -> Self {
        Self {
            message,
            receipt,
            bury: None,
            attempts: 0,
            found_busy: 0,
            suspicion: Suspicion::default(),
            number: 0,
            tag: 0,
            place: None,
        }
    }

    /// The message.
    pub fn message(&self) -> &Message {
        &self.message
    }

    /// Gives the delivery back to the broker.
    pub fn release(self, after: Option<Duration>) -> Settlement<R> {
        Settlement { receipt: self.receipt, verdict: Verdict::Released { after }, tag: self.tag }
    }

    fn settle(self, verdict: Verdict) -> Settlement<R> {
        Settlement { receipt: self.receipt, verdict, tag: self.tag }
    }

    /// A settlement without any proof: for planted bugs alone.
    pub(crate) fn forge(self, verdict: Verdict) -> Settlement<R> {
        self.settle(verdict)
    }

    /// Acknowledged without a commit: only for ignored types and the lossy strategy, so not public.
    pub(crate) fn waive(self) -> Settlement<R> {
        self.settle(Verdict::Waived)
    }
}

/// A delivery whose claim the open transaction holds.
#[derive(Debug)]
pub struct Claimed<R> {
    received: Received<R>,
    unit: u64,
    /// Whether there is a row by which a lost reply can be resolved.
    has_row: bool,
}

impl<R> Claimed<R> {
    /// The message.
    pub fn message(&self) -> &Message {
        &self.received.message
    }

    pub(crate) fn received(&self) -> &Received<R> {
        &self.received
    }

    /// The handler ended well.
    pub fn applied(self) -> Finished<R> {
        self.finish(Verdict::Applied)
    }

    fn finish(self, verdict: Verdict) -> Finished<R> {
        Finished { received: self.received, unit: self.unit, has_row: self.has_row, verdict }
    }

    /// Back to the start; what the transaction did for it is about to be rolled back.
    pub fn undo(self) -> Received<R> {
        self.received
    }
}

/// A delivery for which a committed claim was found.
#[derive(Debug)]
pub struct Found<R> {
    received: Received<R>,
    claim: Claim,
}

impl<R> Found<R> {
    /// The message.
    pub fn message(&self) -> &Message {
        &self.received.message
    }

    pub(crate) fn received(&self) -> &Received<R> {
        &self.received
    }

    /// What was found.
    pub fn claim(&self) -> Claim {
        self.claim
    }

    /// It was dealt with before: acknowledge.
    pub fn settle(self) -> Settlement<R> {
        self.received.settle(Verdict::Found)
    }
}

/// A delivery whose id was claimed for other content.
#[derive(Debug)]
pub struct Conflicting<R> {
    received: Received<R>,
    stored: Fingerprint,
    unit: u64,
}

impl<R> Conflicting<R> {
    /// The message.
    pub fn message(&self) -> &Message {
        &self.received.message
    }

    /// Back to the start; the transaction is about to be rolled back.
    pub fn undo(self) -> Received<R> {
        self.received
    }

    /// What is to be recorded.
    pub fn conflict(&self) -> Conflict {
        Conflict::new(self.received.message.clone(), self.stored)
    }
}

/// A delivery that is dealt with inside the open transaction: it needs only the commit.
#[derive(Debug)]
pub struct Finished<R> {
    received: Received<R>,
    unit: u64,
    has_row: bool,
    verdict: Verdict,
}

impl<R> Finished<R> {
    pub(crate) fn received(&self) -> &Received<R> {
        &self.received
    }

    /// Whether it is dealt with by writing down a conflict.
    pub(crate) fn is_conflict(&self) -> bool {
        self.verdict == Verdict::Discarded && !self.has_row
    }

    /// Whether it is kept in its row.
    pub(crate) fn is_stored(&self) -> bool {
        self.verdict == Verdict::Stored
    }

    /// Whether it is dealt with by a letter.
    pub(crate) fn is_letter(&self) -> bool {
        self.verdict == Verdict::Discarded && self.has_row
    }

    /// Back to the start; the transaction is about to be rolled back.
    pub fn undo(self) -> Received<R> {
        self.received
    }

    /// Whether a row says that what the transaction did for it is committed: with this content, and with
    /// the disposition that the transaction wrote. Any other row is of before, or somebody else's.
    fn is_told_by(&self, resolution: &Resolution) -> bool {
        let Resolution::Committed { disposition, fingerprint } = resolution else { return false };
        let written = match self.verdict {
            Verdict::Applied => Disposition::Applied,
            Verdict::Stored => Disposition::Stored,
            _ => Disposition::Dead,
        };
        let is_kept = *disposition == Disposition::Stored && mutant::is(Mutant::TrustsKeptRow);
        (*disposition == written || is_kept)
            && !fingerprint.conflicts_with(self.received.message.fingerprint())
    }

    fn settle(self) -> Settlement<R> {
        let verdict = self.verdict;
        self.received.settle(verdict)
    }
}

/// What a claim answered for one delivery.
#[derive(Debug)]
pub enum Answer<R> {
    /// The transaction holds its claim.
    Fresh(Claimed<R>),
    /// It was dealt with before.
    Found(Found<R>),
    /// Its id was claimed for other content.
    Conflict(Conflicting<R>),
}

/// A store call inside a unit of work that failed, with the deliveries it was about.
#[derive(Debug)]
pub struct StepFailed<R> {
    /// The deliveries, back at the start.
    pub received: Vec<Received<R>>,
    /// What happened. The unit must be rolled back.
    pub error: StoreError,
}

/// One transaction: claims, effects, commit.
pub struct Unit<'s, S: InboxStore> {
    store: &'s S,
    serial: u64,
    tx: Option<S::Tx>,
    home: Option<Arc<Home<S::Tx>>>,
}

static NEXT_UNIT: AtomicU64 = AtomicU64::new(1);

impl<'s, S: InboxStore> Unit<'s, S> {
    /// Opens a transaction. Must not be cancelled, see [`InboxStore::begin`].
    ///
    /// # Errors
    /// The store's.
    pub async fn begin(store: &'s S, limits: &TxLimits) -> Result<Self, StoreError> {
        let tx = store.begin(limits).await?;
        Ok(Self { store, serial: NEXT_UNIT.fetch_add(1, Ordering::Relaxed), tx: Some(tx), home: None })
    }

    fn tx(&mut self) -> Result<&mut S::Tx, StoreError> {
        self.tx.as_mut().ok_or_else(lost)
    }

    /// Claims deliveries, which must have different keys.
    ///
    /// # Errors
    /// [`StepFailed`] when the store failed, or answered fewer or more than was asked.
    pub async fn claim<R>(
        &mut self,
        group: &Group,
        deliveries: Vec<Received<R>>,
    ) -> Result<Vec<Answer<R>>, StepFailed<R>> {
        let requests = requests(&deliveries);
        let store = self.store;
        let answers = match self.tx() {
            Ok(tx) => store.claim(tx, group, &requests).await,
            Err(error) => Err(error),
        };
        self.answered(deliveries, answers)
    }

    fn answered<R>(
        &self,
        deliveries: Vec<Received<R>>,
        answers: Result<Vec<Claim>, StoreError>,
    ) -> Result<Vec<Answer<R>>, StepFailed<R>> {
        let answers = match answers {
            Ok(answers) if answers.len() == deliveries.len() => answers,
            Ok(answers) => {
                let message = format!("{} claims were answered with {}", deliveries.len(), answers.len());
                let error = StoreError::failed(FaultClass::Permanent, message);
                return Err(StepFailed { received: deliveries, error });
            }
            Err(error) => return Err(StepFailed { received: deliveries, error }),
        };
        let unit = self.serial;
        Ok(deliveries
            .into_iter()
            .zip(answers)
            .map(|(received, claim)| match claim {
                Claim::Fresh => Answer::Fresh(Claimed { received, unit, has_row: true }),
                Claim::Applied if mutant::is(Mutant::RunsDuplicates) => {
                    Answer::Fresh(Claimed { received, unit, has_row: true })
                }
                Claim::Conflict { .. } if mutant::is(Mutant::HidesConflicts) => {
                    Answer::Found(Found { received, claim: Claim::Applied })
                }
                Claim::Conflict { stored } => Answer::Conflict(Conflicting { received, stored, unit }),
                claim => Answer::Found(Found { received, claim }),
            })
            .collect())
    }

    /// Takes stored messages back, to handle them in this transaction.
    ///
    /// # Errors
    /// [`StepFailed`] when the store failed, or answered fewer or more than was asked.
    pub async fn reclaim<R, I: StoredInbox<Tx = S::Tx> + ?Sized>(
        &mut self,
        stored: &I,
        group: &Group,
        deliveries: Vec<Received<R>>,
    ) -> Result<Vec<Answer<R>>, StepFailed<R>> {
        let requests = requests(&deliveries);
        let answers = match self.tx() {
            Ok(tx) => stored.reclaim(tx, group, &requests).await,
            Err(error) => Err(error),
        };
        self.answered(deliveries, answers)
    }

    /// Keeps claimed deliveries in their rows.
    ///
    /// # Errors
    /// [`StepFailed`] when the store failed.
    pub async fn keep<R, I: StoredInbox<Tx = S::Tx> + ?Sized>(
        &mut self,
        stored: &I,
        group: &Group,
        claimed: Vec<Claimed<R>>,
    ) -> Result<Vec<Finished<R>>, StepFailed<R>> {
        let messages: Vec<Message> = claimed.iter().map(|c| c.message().clone()).collect();
        let written = match self.tx() {
            Ok(tx) => stored.keep(tx, group, &messages).await,
            Err(error) => Err(error),
        };
        match written {
            Ok(()) => Ok(claimed.into_iter().map(|c| c.finish(Verdict::Stored)).collect()),
            Err(error) => {
                Err(StepFailed { received: claimed.into_iter().map(Claimed::undo).collect(), error })
            }
        }
    }

    /// Takes a delivery in without a claim, as the strategy *at least once* does: a duplicate runs again.
    pub fn enter<R>(&self, received: Received<R>) -> Claimed<R> {
        Claimed { received, unit: self.serial, has_row: false }
    }

    /// Lends the transaction to a handler. `None` when it is lost.
    pub fn lend(&mut self) -> Option<Tx<S>> {
        let tx = self.tx.take()?;
        let home = self.home.get_or_insert_with(Home::new);
        Some(Tx::lend(tx, home))
    }

    /// Takes a lent transaction back; `false` when the handler's handle is still somewhere: then the
    /// unit can only be rolled back.
    pub fn take_back(&mut self) -> bool {
        if self.tx.is_none() {
            self.tx = self.home.as_ref().and_then(|home| home.take_back());
        }
        self.tx.is_some()
    }

    /// Writes letters about claimed deliveries.
    ///
    /// # Errors
    /// [`StepFailed`] when the store failed.
    pub async fn bury<R, L: Letters<Tx = S::Tx> + ?Sized>(
        &mut self,
        letters_store: &L,
        group: &Group,
        dead: Vec<(Claimed<R>, Letter)>,
    ) -> Result<Vec<Finished<R>>, StepFailed<R>> {
        let (claimed, letters): (Vec<_>, Vec<_>) = dead.into_iter().unzip();
        let written = match self.tx() {
            Ok(_) if mutant::is(Mutant::ForgetsLetters) => Ok(()),
            Ok(tx) => letters_store.bury(tx, group, &letters).await,
            Err(error) => Err(error),
        };
        match written {
            Ok(()) => Ok(claimed.into_iter().map(|c| c.finish(Verdict::Discarded)).collect()),
            Err(error) => {
                Err(StepFailed { received: claimed.into_iter().map(Claimed::undo).collect(), error })
            }
        }
    }

    /// Records conflicts.
    ///
    /// # Errors
    /// [`StepFailed`] when the store failed.
    pub async fn record_conflicts<R, L: Letters<Tx = S::Tx> + ?Sized>(
        &mut self,
        letters_store: &L,
        group: &Group,
        conflicting: Vec<Conflicting<R>>,
    ) -> Result<Vec<Finished<R>>, StepFailed<R>> {
        let conflicts: Vec<Conflict> = conflicting.iter().map(Conflicting::conflict).collect();
        let written = match self.tx() {
            Ok(tx) => letters_store.record_conflicts(tx, group, &conflicts).await,
            Err(error) => Err(error),
        };
        match written {
            Ok(()) => Ok(conflicting
                .into_iter()
                .map(|c| Finished {
                    received: c.received,
                    unit: c.unit,
                    has_row: false,
                    verdict: Verdict::Discarded,
                })
                .collect()),
            Err(error) => {
                Err(StepFailed { received: conflicting.into_iter().map(Conflicting::undo).collect(), error })
            }
        }
    }

    /// The open transaction, for what the runner itself writes.
    pub(crate) fn tx_mut(&mut self) -> Option<&mut S::Tx> {
        self.tx.as_mut()
    }

    /// Commits. Only then, and only for what is handed in, there are settlements.
    ///
    /// # Errors
    /// [`CommitFailed`]: rolled back, or in doubt.
    pub async fn commit<R>(
        mut self,
        finished: Vec<Finished<R>>,
    ) -> Result<Vec<Settlement<R>>, CommitFailed<R>> {
        let rolled_back = |finished: Vec<Finished<R>>, class, error| CommitFailed::RolledBack {
            received: finished.into_iter().map(Finished::undo).collect(),
            class,
            error,
        };
        if finished.iter().any(|f| f.unit != self.serial) {
            let error =
                StoreError::failed(FaultClass::Permanent, "a delivery of another unit of work was committed");
            return Err(rolled_back(finished, FaultClass::Permanent, error));
        }
        let Some(tx) = self.tx.take() else {
            return Err(rolled_back(finished, FaultClass::HandlerFault, lost()));
        };
        match self.store.commit(tx).await {
            Ok(()) => Ok(finished.into_iter().map(Finished::settle).collect()),
            Err(CommitError::InDoubt { .. }) if mutant::is(Mutant::TrustsDoubt) => {
                Ok(finished.into_iter().map(Finished::settle).collect())
            }
            Err(CommitError::RolledBack { .. }) if mutant::is(Mutant::IgnoresRefusedCommit) => {
                Ok(finished.into_iter().map(Finished::settle).collect())
            }
            Err(CommitError::InDoubt { message }) => Err(CommitFailed::InDoubt(Doubt { finished, message })),
            Err(CommitError::RolledBack { class, message, source }) => {
                Err(rolled_back(finished, class, StoreError::Failed { class, message, source }))
            }
        }
    }

    /// Rolls back. A transaction that is lost is gone already.
    ///
    /// # Errors
    /// When the server could not be told; the transaction is gone all the same.
    pub async fn rollback(mut self) -> Result<(), StoreError> {
        match self.tx.take() {
            Some(tx) => self.store.rollback(tx).await,
            None => Ok(()),
        }
    }
}

fn requests<R>(deliveries: &[Received<R>]) -> Vec<ClaimRequest> {
    let request = |d: &Received<R>| ClaimRequest {
        key: d.message.claim_key().clone(),
        fingerprint: d.message.fingerprint(),
    };
    deliveries.iter().map(request).collect()
}

fn lost() -> StoreError {
    StoreError::failed(
        FaultClass::HandlerFault,
        "the handler kept its transaction after it ended: do not move `Tx` into a spawned task",
    )
}

impl<S: InboxStore> std::fmt::Debug for Unit<'_, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Unit({})", self.serial)
    }
}

/// A commit that gave no settlements.
#[derive(Debug)]
pub enum CommitFailed<R> {
    /// Nothing was stored.
    RolledBack {
        /// The deliveries, back at the start.
        received: Vec<Received<R>>,
        /// What it means for the run.
        class: FaultClass,
        /// What happened.
        error: StoreError,
    },
    /// The reply was lost.
    InDoubt(Doubt<R>),
}

/// Deliveries of which it is not known whether they are committed.
#[derive(Debug)]
pub struct Doubt<R> {
    finished: Vec<Finished<R>>,
    message: String,
}

/// What a doubt turned out to be.
#[derive(Debug)]
pub enum Resolved<R> {
    /// It was committed.
    Committed(Vec<Settlement<R>>),
    /// It was not, or that cannot be told: to be run again, which finds what is committed.
    RolledBack(Vec<Received<R>>),
}

impl<R> Doubt<R> {
    /// What happened.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Whether there is a row that can tell.
    pub(crate) fn can_be_resolved(&self) -> bool {
        self.finished.iter().any(|f| f.has_row)
    }

    /// Gives up on finding out: the deliveries, back at the start. Redelivery will tell.
    pub fn undo(self) -> Vec<Received<R>> {
        self.finished.into_iter().map(Finished::undo).collect()
    }

    /// Asks the store. It was committed when every delivery has its row, with its content and disposition.
    /// Otherwise nothing can be concluded from the rows that are there: another consumer may have written
    /// them since, for one delivery and not for another. The same goes for deliveries that have no row of
    /// their own.
    ///
    /// # Errors
    /// The doubt and the store's error while there is no definite answer.
    pub async fn resolve<S: InboxStore>(
        self,
        store: &S,
        group: &Group,
    ) -> Result<Resolved<R>, (Self, StoreError)> {
        let keys: Vec<ClaimKey> = self
            .finished
            .iter()
            .filter(|f| f.has_row)
            .map(|f| f.received.message.claim_key().clone())
            .collect();
        if keys.is_empty() {
            return Ok(Resolved::RolledBack(self.undo()));
        }
        let resolutions = match store.resolve(group, &keys).await {
            Ok(resolutions) if resolutions.len() == keys.len() => resolutions,
            Ok(_) => {
                let error =
                    StoreError::failed(FaultClass::Permanent, "resolve answered another number of keys");
                return Err((self, error));
            }
            Err(error) => return Err((self, error)),
        };
        let is_committed = keys.len() == self.finished.len()
            && self.finished.iter().zip(&resolutions).all(|(f, resolution)| f.is_told_by(resolution));
        Ok(if is_committed {
            Resolved::Committed(self.finished.into_iter().map(Finished::settle).collect())
        } else {
            Resolved::RolledBack(self.undo())
        })
    }
}

#[cfg(test)]
mod tests;
