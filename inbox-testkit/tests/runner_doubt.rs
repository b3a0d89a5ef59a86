//! Commits whose reply was lost while another consumer is at the same messages. Found by random schedules.

use async_trait::async_trait;
use inbox_core::*;
use inbox_testkit::*;
use std::{
    error::Error,
    sync::{Arc, Mutex},
};

/// Messages with their contents and how another consumer ends them.
type Other = Vec<(&'static str, &'static str, Disposition)>;

/// Its first commit is not done and is in doubt; before anybody asks, another consumer commits its own.
struct Overtaken {
    inner: MemoryStore,
    other: Arc<Mutex<Option<Other>>>,
}

impl Overtaken {
    async fn commit_other(&self, (id, content, disposition): (&str, &str, Disposition)) {
        let partition = Partition { source: Source::new("fake"), number: 0 };
        let mut inbound = Inbound::new(partition, Some(content.to_owned().into()));
        inbound.native_id = Some(id.into());
        let (message, _) = Identity::default().identify(inbound);
        let request = ClaimRequest { key: message.claim_key().clone(), fingerprint: message.fingerprint() };
        let mut tx = self.inner.begin(&TxLimits::default()).await.unwrap();
        assert_eq!(self.inner.claim(&mut tx, &group(), &[request]).await.unwrap(), [Claim::Fresh]);
        if disposition == Disposition::Dead {
            let letter = Letter::new(message, LetterReason::Failed, "elsewhere", 1);
            self.inner.bury(&mut tx, &group(), &[letter]).await.unwrap();
        } else {
            apply_effect(&mut tx, &message).unwrap();
        }
        self.inner.commit(tx).await.unwrap();
    }
}

#[async_trait]
impl InboxStore for Overtaken {
    type Tx = MemoryTx;

    async fn begin(&self, limits: &TxLimits) -> Result<MemoryTx, StoreError> {
        self.inner.begin(limits).await
    }

    async fn claim(
        &self,
        tx: &mut MemoryTx,
        group: &Group,
        requests: &[ClaimRequest],
    ) -> Result<Vec<Claim>, StoreError> {
        self.inner.claim(tx, group, requests).await
    }

    async fn commit(&self, tx: MemoryTx) -> Result<(), CommitError> {
        let other = self.other.lock().unwrap().take();
        let Some(other) = other else { return self.inner.commit(tx).await };
        drop(tx);
        for message in other {
            self.commit_other(message).await;
        }
        Err(CommitError::InDoubt { message: "the request was lost".to_owned() })
    }

    async fn rollback(&self, tx: MemoryTx) -> Result<(), StoreError> {
        self.inner.rollback(tx).await
    }

    async fn resolve(&self, group: &Group, keys: &[ClaimKey]) -> Result<Vec<Resolution>, StoreError> {
        self.inner.resolve(group, keys).await
    }

    fn classify(&self, error: &(dyn Error + 'static)) -> FaultClass {
        self.inner.classify(error)
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}

#[async_trait]
impl Letters for Overtaken {
    async fn bury(&self, tx: &mut MemoryTx, group: &Group, letters: &[Letter]) -> Result<(), StoreError> {
        self.inner.bury(tx, group, letters).await
    }

    async fn record_conflicts(
        &self,
        tx: &mut MemoryTx,
        group: &Group,
        conflicts: &[Conflict],
    ) -> Result<(), StoreError> {
        self.inner.record_conflicts(tx, group, conflicts).await
    }
}

fn group() -> Group {
    Group::new("billing").unwrap()
}

/// Runs a1 and b1 in one transaction, which is overtaken; the database, and what the oracle says.
async fn overtaken(other: Other, expected: Expected) -> (MemoryDatabase, Summary) {
    let (queue, database) = (FakeQueue::new(FakeOptions::queue()), MemoryDatabase::new());
    ["a1", "b1"].iter().for_each(|id| queue.publish(Publish::new(*id)));
    let history = History::new(database.witness(&group()));
    let store = Overtaken { inner: database.store(), other: Arc::new(Mutex::new(Some(other))) };
    let handler = |message: Message, mut tx: Tx<Overtaken>| async move { apply_effect(&mut tx, &message) };
    let broker = RecordingBroker::fake(queue.connect(), &history);
    let runner = Runner::builder("billing").broker(broker).store(store).handler(handler).build().unwrap();
    let summary = runner.run().await.unwrap();
    let state = FinalState::of(&database, &group()).and_queue(&queue);
    assert_eq!(Oracle::violations(&history.entries(), &expected, &state), []);
    assert_eq!(summary.doubts, 1);
    (database, summary)
}

#[tokio::test(start_paused = true)]
async fn when_another_has_applied_one_of_two_the_other_one_is_applied() {
    let expected = Expected::new().applied("a1", None).applied("b1", None);
    let (_, summary) = overtaken(vec![("a1", "a1", Disposition::Applied)], expected).await;
    assert_eq!((summary.applied, summary.duplicates), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn when_another_has_applied_other_content_there_is_a_conflict() {
    let refused = Fingerprint::of_payload(Some(b"a1"));
    let expected = Expected::new().applied("a1", None).applied("b1", None).conflict("a1", refused);
    let other = vec![("a1", "other", Disposition::Applied), ("b1", "b1", Disposition::Applied)];
    let (database, summary) = overtaken(other, expected).await;
    assert_eq!((summary.conflicts, summary.duplicates), (1, 1));
    assert_eq!(database.conflicts(&group())[0].seen, 1);
}

#[tokio::test(start_paused = true)]
async fn when_another_has_buried_it_it_is_not_applied() {
    let expected = Expected::new().dead("a1", None).applied("b1", None);
    let other = vec![("a1", "a1", Disposition::Dead), ("b1", "b1", Disposition::Applied)];
    let (_, summary) = overtaken(other, expected).await;
    assert_eq!((summary.dead_letters, summary.duplicates), (1, 1));
}
