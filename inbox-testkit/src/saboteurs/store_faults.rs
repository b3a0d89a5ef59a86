//! A store with one planted fault out of many.

use async_trait::async_trait;
use inbox_core::{
    Checkpoint, CheckpointMove, Checkpoints, Claim, ClaimKey, ClaimRequest, CommitError, Conflict,
    Disposition, FaultClass, Group, GroupStats, Headers, InboxStore, Inspect, Letter, Letters, MessageId,
    MoveRule, Moved, Page, Partition, Resolution, Scope, Source, StoreError, StoredConflict, StoredLetter,
    TxLimits,
};
use std::{error::Error, future::Future, pin::Pin};

/// What a [`SpoiltStore`] does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreFault {
    /// Answers claims in the order of their keys.
    AnswersSorted,
    /// Compares ids without case, as some collations do.
    IdsWithoutCase,
    /// Compares ids without trailing spaces, as some column types do.
    IdsTrimmed,
    /// Leaves the scope out of the key.
    ScopeIgnored,
    /// Leaves the group out of the key.
    GroupIgnored,
    /// Takes the locks of a batch in the order of the requests.
    LocksUnsorted,
    /// Takes an undecided claim for a committed one.
    BusyIsFound,
    /// Says that a key is absent while a transaction that could commit it is open.
    ResolveGuesses,
    /// Says that a commit went well when it was rolled back.
    RollbackIsOk,
    /// Writes letters without the disposition.
    BuriedIsApplied,
    /// Lists a letter once more for each time it was written.
    LettersTwice,
    /// Does not count conflicts that come again.
    ConflictsUncounted,
    /// Leaves headers without a value out of what it reads.
    AbsentHeadersLost,
    /// Begins every page at the start.
    PagesRepeat,
    /// Moves checkpoints back.
    ForwardGoesBack,
    /// Moves checkpoints from wherever they are.
    FenceIgnored,
    /// Takes partitions over without raising their epochs.
    EpochKept,
    /// Reads checkpoints instead of holding them.
    HoldOnlyReads,
    /// Keeps 32 bits of a position.
    PositionsCut,
    /// Drops units of work instead of running them.
    UnitsDropped,
    /// Takes errors it does not know for permanent ones.
    UnknownIsPermanent,
}

/// Does one thing wrong and passes everything else on.
#[derive(Debug, Clone)]
pub struct SpoiltStore<S> {
    inner: S,
    fault: StoreFault,
}

impl<S> SpoiltStore<S> {
    /// Spoils `inner`.
    pub fn new(inner: S, fault: StoreFault) -> Self {
        Self { inner, fault }
    }

    fn is(&self, fault: StoreFault) -> bool {
        self.fault == fault
    }

    fn group(&self, group: &Group) -> Group {
        // Only a name that cannot be would stay as it is.
        let one = Group::new("everybody").unwrap_or_else(|_| group.clone());
        if self.is(StoreFault::GroupIgnored) { one } else { group.clone() }
    }

    fn key(&self, key: &ClaimKey) -> ClaimKey {
        let id = key.id.as_str();
        let id = match self.fault {
            StoreFault::IdsWithoutCase => MessageId::new(id.to_lowercase()),
            StoreFault::IdsTrimmed => MessageId::new(id.trim_end_matches(' ')),
            _ => Ok(key.id.clone()),
        };
        let scope = if self.is(StoreFault::ScopeIgnored) { Scope::default() } else { key.scope.clone() };
        ClaimKey { scope, id: id.unwrap_or_else(|_| key.id.clone()) }
    }
}

impl<S: InboxStore> SpoiltStore<S> {
    /// Keys that have become one are claimed once and found then, as by a statement for each.
    async fn claim_each(
        &self,
        tx: &mut S::Tx,
        group: &Group,
        requests: &[ClaimRequest],
    ) -> Result<Vec<Claim>, StoreError> {
        let mut claims = Vec::new();
        let mut seen: Vec<&ClaimKey> = Vec::new();
        for request in requests {
            if seen.contains(&&request.key) {
                claims.push(Claim::Applied);
                continue;
            }
            claims.extend(self.inner.claim(tx, group, std::slice::from_ref(request)).await?);
            seen.push(&request.key);
        }
        Ok(claims)
    }
}

#[async_trait]
impl<S: InboxStore> InboxStore for SpoiltStore<S> {
    type Tx = S::Tx;

    async fn begin(&self, limits: &TxLimits) -> Result<S::Tx, StoreError> {
        self.inner.begin(limits).await
    }

    async fn claim(
        &self,
        tx: &mut S::Tx,
        group: &Group,
        requests: &[ClaimRequest],
    ) -> Result<Vec<Claim>, StoreError> {
        let group = &self.group(group);
        let mut requests: Vec<ClaimRequest> = requests
            .iter()
            .map(|request| ClaimRequest { key: self.key(&request.key), fingerprint: request.fingerprint })
            .collect();
        let claims = match self.fault {
            StoreFault::IdsWithoutCase
            | StoreFault::IdsTrimmed
            | StoreFault::ScopeIgnored
            | StoreFault::LocksUnsorted => self.claim_each(tx, group, &requests).await,
            StoreFault::AnswersSorted => {
                requests.sort_by(|a, b| a.key.cmp(&b.key));
                self.inner.claim(tx, group, &requests).await
            }
            _ => self.inner.claim(tx, group, &requests).await,
        };
        match claims {
            Err(StoreError::Busy) if self.is(StoreFault::BusyIsFound) => {
                Ok(vec![Claim::Applied; requests.len()])
            }
            Ok(claims) if self.is(StoreFault::BuriedIsApplied) => {
                let alive = |claim| if claim == Claim::Dead { Claim::Applied } else { claim };
                Ok(claims.into_iter().map(alive).collect())
            }
            claims => claims,
        }
    }

    async fn commit(&self, tx: S::Tx) -> Result<(), CommitError> {
        match self.inner.commit(tx).await {
            Err(CommitError::RolledBack { .. }) if self.is(StoreFault::RollbackIsOk) => Ok(()),
            outcome => outcome,
        }
    }

    async fn rollback(&self, tx: S::Tx) -> Result<(), StoreError> {
        self.inner.rollback(tx).await
    }

    async fn resolve(&self, group: &Group, keys: &[ClaimKey]) -> Result<Vec<Resolution>, StoreError> {
        let own: Vec<ClaimKey> = keys.iter().map(|key| self.key(key)).collect();
        let group = self.group(group);
        let resolving = self.inner.resolve(&group, &own);
        if self.is(StoreFault::ResolveGuesses) {
            // Whoever does not look at the locks knows at once.
            let now = tokio::time::timeout(std::time::Duration::ZERO, resolving).await;
            return now.unwrap_or_else(|_waits| Ok(vec![Resolution::Absent; keys.len()]));
        }
        let mut resolved = resolving.await?;
        if self.is(StoreFault::BuriedIsApplied) {
            for resolution in &mut resolved {
                if let Resolution::Committed { disposition, .. } = resolution {
                    *disposition = Disposition::Applied;
                }
            }
        }
        Ok(resolved)
    }

    fn classify(&self, error: &(dyn Error + 'static)) -> FaultClass {
        if self.is(StoreFault::UnknownIsPermanent) {
            return FaultClass::Permanent;
        }
        self.inner.classify(error)
    }

    fn run_unit(&self, unit: Pin<Box<dyn Future<Output = ()> + Send>>) {
        if !self.is(StoreFault::UnitsDropped) {
            self.inner.run_unit(unit);
        }
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}

#[async_trait]
impl<S: Letters> Letters for SpoiltStore<S> {
    async fn bury(&self, tx: &mut S::Tx, group: &Group, letters: &[Letter]) -> Result<(), StoreError> {
        self.inner.bury(tx, &self.group(group), letters).await
    }

    async fn record_conflicts(
        &self,
        tx: &mut S::Tx,
        group: &Group,
        conflicts: &[Conflict],
    ) -> Result<(), StoreError> {
        self.inner.record_conflicts(tx, &self.group(group), conflicts).await
    }
}

impl<S> SpoiltStore<S> {
    fn page(&self, page: &Page) -> Page {
        let mut page = page.clone();
        if self.is(StoreFault::PagesRepeat) {
            page.after = 0;
        }
        page
    }

    fn letter(&self, mut letter: StoredLetter) -> StoredLetter {
        if self.is(StoreFault::AbsentHeadersLost) {
            let mut kept = Headers::new();
            for (name, value) in letter.inbound.headers.iter().filter(|(_, value)| value.is_some()) {
                kept.push(name, value.cloned());
            }
            letter.inbound.headers = kept;
        }
        letter
    }
}

#[async_trait]
impl<S: Inspect> Inspect for SpoiltStore<S> {
    async fn letters(&self, page: &Page) -> Result<Vec<StoredLetter>, StoreError> {
        let letters = self.inner.letters(&self.page(page)).await?;
        let times = if self.is(StoreFault::LettersTwice) { 2 } else { 1 };
        Ok(letters.into_iter().flat_map(|letter| std::iter::repeat_n(self.letter(letter), times)).collect())
    }

    async fn letter(&self, letter_id: i64) -> Result<Option<StoredLetter>, StoreError> {
        self.inner.letter(letter_id).await
    }

    async fn conflicts(&self, page: &Page) -> Result<Vec<StoredConflict>, StoreError> {
        let mut conflicts = self.inner.conflicts(&self.page(page)).await?;
        if self.is(StoreFault::ConflictsUncounted) {
            conflicts.iter_mut().for_each(|conflict| conflict.seen = 1);
        }
        Ok(conflicts)
    }

    async fn group_stats(&self) -> Result<Vec<GroupStats>, StoreError> {
        self.inner.group_stats().await
    }
}

#[async_trait]
impl<S: Checkpoints> Checkpoints for SpoiltStore<S> {
    async fn checkpoints(
        &self,
        group: &Group,
        partitions: &[Partition],
    ) -> Result<Vec<Option<Checkpoint>>, StoreError> {
        self.inner.checkpoints(group, partitions).await
    }

    async fn take_over(
        &self,
        group: &Group,
        partitions: &[Partition],
    ) -> Result<Vec<Checkpoint>, StoreError> {
        if self.is(StoreFault::EpochKept) {
            let found = self.inner.checkpoints(group, partitions).await?;
            if found.iter().all(Option::is_some) {
                return Ok(found.into_iter().flatten().collect());
            }
        }
        self.inner.take_over(group, partitions).await
    }

    async fn hold(
        &self,
        tx: &mut S::Tx,
        group: &Group,
        partitions: &[Partition],
    ) -> Result<Vec<Option<Checkpoint>>, StoreError> {
        if self.is(StoreFault::HoldOnlyReads) {
            return self.inner.checkpoints(group, partitions).await;
        }
        self.inner.hold(tx, group, partitions).await
    }

    async fn advance(
        &self,
        tx: &mut S::Tx,
        group: &Group,
        moves: &[CheckpointMove],
    ) -> Result<Vec<Moved>, StoreError> {
        let mut moved = Vec::new();
        for step in moves {
            let mut step = step.clone();
            let is_blind = match step.rule {
                MoveRule::Forward => self.is(StoreFault::ForwardGoesBack),
                _ => self.is(StoreFault::FenceIgnored),
            };
            if is_blind {
                let here = self.inner.hold(tx, group, std::slice::from_ref(&step.partition)).await?;
                let here = here.into_iter().next().flatten();
                let epoch = here.as_ref().map_or(step.to.epoch, |here| here.epoch);
                step.rule = MoveRule::From { expected_next: here.map(|here| here.next), epoch };
                step.to.epoch = epoch;
            }
            if self.is(StoreFault::PositionsCut) {
                step.to.next &= u64::from(u32::MAX);
            }
            moved.extend(self.inner.advance(tx, group, &[step]).await?);
        }
        Ok(moved)
    }

    async fn forget(&self, group: &Group, source: &Source) -> Result<u64, StoreError> {
        self.inner.forget(group, source).await
    }

    async fn list_checkpoints(
        &self,
        group: &Group,
        source: &Source,
    ) -> Result<Vec<(Partition, Checkpoint)>, StoreError> {
        self.inner.list_checkpoints(group, source).await
    }
}
