//! The rules of the machine, over a store that answers as it is told.

use super::*;
use crate::{Inbound, MessageId, Partition, Scope, Source};
use async_trait::async_trait;
use std::{error::Error, sync::Mutex};

/// Keeps nothing: it notes what it is asked, and answers with what was put in, once.
#[derive(Default)]
struct Told {
    calls: Mutex<Vec<&'static str>>,
    claims: Mutex<Vec<Claim>>,
    resolutions: Mutex<Vec<Resolution>>,
    commit: Mutex<Option<CommitError>>,
    /// What every other call answers, while it is there.
    failure: Mutex<Option<FaultClass>>,
}

impl Told {
    fn call<T>(&self, name: &'static str, answer: T) -> Result<T, StoreError> {
        self.calls.lock().unwrap().push(name);
        let failure = *self.failure.lock().unwrap();
        failure.map_or(Ok(answer), |class| Err(StoreError::failed(class, "told to fail")))
    }

    fn answering(claims: &[Claim]) -> Self {
        Self { claims: Mutex::new(claims.to_vec()), ..Self::default() }
    }

    /// Its commit is in doubt, and this is what it says when it is asked.
    fn doubting(resolutions: &[Resolution]) -> Self {
        let store = Self { resolutions: Mutex::new(resolutions.to_vec()), ..Self::default() };
        *store.commit.lock().unwrap() = Some(CommitError::InDoubt { message: "the reply was lost".into() });
        store
    }

    fn fails(&self, class: FaultClass) {
        *self.failure.lock().unwrap() = Some(class);
    }

    fn calls(&self) -> Vec<&'static str> {
        std::mem::take(&mut *self.calls.lock().unwrap())
    }

    fn claims(&self) -> Vec<Claim> {
        std::mem::take(&mut *self.claims.lock().unwrap())
    }
}

#[async_trait]
impl InboxStore for Told {
    type Tx = Box<()>;

    async fn begin(&self, _: &TxLimits) -> Result<Box<()>, StoreError> {
        Ok(Box::new(()))
    }

    async fn claim(
        &self,
        _: &mut Box<()>,
        _: &Group,
        requests: &[ClaimRequest],
    ) -> Result<Vec<Claim>, StoreError> {
        assert!(requests.iter().all(|request| request.fingerprint == content(request.key.id.as_str())));
        self.call("claim", self.claims())
    }

    async fn commit(&self, _: Box<()>) -> Result<(), CommitError> {
        self.calls.lock().unwrap().push("commit");
        self.commit.lock().unwrap().take().map_or(Ok(()), Err)
    }

    async fn rollback(&self, _: Box<()>) -> Result<(), StoreError> {
        self.call("rollback", ())
    }

    async fn resolve(&self, _: &Group, _: &[ClaimKey]) -> Result<Vec<Resolution>, StoreError> {
        self.call("resolve", self.resolutions.lock().unwrap().clone())
    }

    fn classify(&self, _: &(dyn Error + 'static)) -> FaultClass {
        FaultClass::HandlerFault
    }

    fn describe(&self) -> String {
        "told".to_owned()
    }
}

#[async_trait]
impl Letters for Told {
    async fn bury(&self, _: &mut Box<()>, _: &Group, _: &[Letter]) -> Result<(), StoreError> {
        self.call("bury", ())
    }

    async fn record_conflicts(&self, _: &mut Box<()>, _: &Group, _: &[Conflict]) -> Result<(), StoreError> {
        self.call("record_conflicts", ())
    }
}

#[async_trait]
impl StoredInbox for Told {
    async fn keep(&self, _: &mut Box<()>, _: &Group, _: &[Message]) -> Result<(), StoreError> {
        self.call("keep", ())
    }

    async fn reclaim(
        &self,
        _: &mut Box<()>,
        _: &Group,
        requests: &[ClaimRequest],
    ) -> Result<Vec<Claim>, StoreError> {
        assert!(requests.iter().all(|request| request.fingerprint == content(request.key.id.as_str())));
        self.call("reclaim", self.claims())
    }

    async fn record_failure(
        &self,
        _: &Group,
        _: &ClaimKey,
        _: u32,
        _: &str,
        _: Duration,
    ) -> Result<(), StoreError> {
        unreachable!("the machine does not count attempts")
    }

    async fn due(&self, _: &Group, _: u32) -> Result<Vec<crate::StoredMessage>, StoreError> {
        unreachable!("the machine does not look for work")
    }

    async fn next_due(&self, _: &Group) -> Result<Option<Duration>, StoreError> {
        unreachable!("the machine does not look for work")
    }
}

type Receipt = &'static str;

const FRESH: Claim = Claim::Fresh;

fn group() -> Group {
    Group::new("billing").unwrap()
}

fn content(text: &str) -> Fingerprint {
    Fingerprint::of_payload(Some(text.as_bytes()))
}

/// A delivery whose id, content and receipt are the same text.
fn received(id: Receipt) -> Received<Receipt> {
    let partition = Partition { source: Source::new("test"), number: 0 };
    let key = ClaimKey { scope: Scope::default(), id: MessageId::new(id).unwrap() };
    Received::new(Message::new(key, content(id), Inbound::new(partition, Some(id.into()))), id)
}

fn all(ids: &[Receipt]) -> Vec<Received<Receipt>> {
    ids.iter().map(|id| received(id)).collect()
}

fn ids(received: &[Received<Receipt>]) -> Vec<Receipt> {
    received.iter().map(|r| r.receipt).collect()
}

fn row(disposition: Disposition, text: &str) -> Resolution {
    Resolution::Committed { disposition, fingerprint: content(text) }
}

async fn begin(store: &Told) -> Unit<'_, Told> {
    Unit::begin(store, &TxLimits::default()).await.unwrap()
}

async fn claimed(unit: &mut Unit<'_, Told>, ids: &[Receipt]) -> Vec<Claimed<Receipt>> {
    *unit.store.claims.lock().unwrap() = vec![FRESH; ids.len()];
    let answers = unit.claim(&group(), all(ids)).await.unwrap();
    let fresh = |answer| match answer {
        Answer::Fresh(claimed) => claimed,
        other => panic!("{other:?}"),
    };
    answers.into_iter().map(fresh).collect()
}

async fn conflicting(unit: &mut Unit<'_, Told>, id: Receipt) -> Conflicting<Receipt> {
    *unit.store.claims.lock().unwrap() = vec![Claim::Conflict { stored: content("other") }];
    match unit.claim(&group(), all(&[id])).await.unwrap().remove(0) {
        Answer::Conflict(conflicting) => conflicting,
        other => panic!("{other:?}"),
    }
}

fn letter(claimed: Claimed<Receipt>) -> (Claimed<Receipt>, Letter) {
    let letter = Letter::new(claimed.message().clone(), LetterReason::Failed, "no", 1);
    (claimed, letter)
}

/// One delivery for each way to deal with it: applied, kept, buried, written down as a conflict, entered.
async fn one_of_each(unit: &mut Unit<'_, Told>) -> Vec<Finished<Receipt>> {
    let (store, group) = (unit.store, group());
    let mut finished = Vec::new();
    finished.extend(claimed(unit, &["applied"]).await.into_iter().map(Claimed::applied));
    let kept = claimed(unit, &["kept"]).await;
    finished.extend(unit.keep(store, &group, kept).await.unwrap());
    let dead = claimed(unit, &["buried"]).await.into_iter().map(letter).collect();
    finished.extend(unit.bury(store, &group, dead).await.unwrap());
    let refused = conflicting(unit, "conflict").await;
    finished.extend(unit.record_conflicts(store, &group, vec![refused]).await.unwrap());
    finished.push(unit.enter(received("entered")).applied());
    store.calls();
    finished
}

async fn doubt_of(unit: Unit<'_, Told>, finished: Vec<Finished<Receipt>>) -> Doubt<Receipt> {
    match unit.commit(finished).await {
        Err(CommitFailed::InDoubt(doubt)) => doubt,
        other => panic!("{other:?}"),
    }
}

#[test]
fn only_what_is_given_back_is_no_acknowledgement() {
    use Verdict::*;
    assert!([Applied, Stored, Found, Discarded, Waived].into_iter().all(Verdict::is_acknowledgement));
    let second = Some(Duration::from_secs(1));
    assert!(![None, second].into_iter().any(|after| Released { after }.is_acknowledgement()));
    assert_eq!(received("a").waive().verdict(), Waived);
    assert_eq!(received("a").release(second).into_parts(), ("a", Released { after: second }));
}

#[tokio::test]
async fn a_settlement_is_of_its_delivery_and_says_how_it_was_dealt_with() {
    let store = Told::default();
    let mut unit = begin(&store).await;
    let mut finished = one_of_each(&mut unit).await;
    for (tag, finished) in finished.iter_mut().enumerate() {
        finished.received.tag = tag + 5;
    }
    let settlements = unit.commit(finished).await.unwrap();
    let told: Vec<_> = settlements.iter().map(|s| (*s.receipt(), s.tag(), s.verdict())).collect();
    let expected = [
        ("applied", 5, Verdict::Applied),
        ("kept", 6, Verdict::Stored),
        ("buried", 7, Verdict::Discarded),
        ("conflict", 8, Verdict::Discarded),
        ("entered", 9, Verdict::Applied),
    ];
    assert_eq!(told, expected);
    assert_eq!(store.calls(), ["commit"]);
}

#[tokio::test]
async fn kept_buried_and_conflicting_are_told_apart() {
    let store = Told::default();
    let mut unit = begin(&store).await;
    let finished = one_of_each(&mut unit).await;
    let of = |is: fn(&Finished<Receipt>) -> bool| -> Vec<Receipt> {
        finished.iter().filter(|f| is(f)).map(|f| f.received().receipt).collect()
    };
    assert_eq!(of(Finished::is_stored), ["kept"]);
    assert_eq!(of(Finished::is_letter), ["buried"]);
    assert_eq!(of(Finished::is_conflict), ["conflict"]);
}

#[tokio::test]
async fn every_row_that_is_found_is_a_duplicate_but_for_other_content() {
    let stored = content("other");
    let rows = [Claim::Applied, Claim::Dead, Claim::Parked, Claim::Stored, Claim::Conflict { stored }];
    let store = Told::answering(&rows);
    let mut unit = begin(&store).await;
    let mut answers = unit.claim(&group(), all(&["a", "b", "c", "d", "e"])).await.unwrap();
    match answers.pop() {
        Some(Answer::Conflict(conflicting)) => {
            assert_eq!(conflicting.message().id(), "e");
            assert_eq!(conflicting.conflict().stored, stored);
        }
        other => panic!("{other:?}"),
    }
    for ((answer, claim), id) in answers.into_iter().zip(rows).zip(["a", "b", "c", "d"]) {
        let Answer::Found(found) = answer else { panic!("{answer:?}") };
        assert_eq!((found.claim(), found.message().id(), found.received().receipt), (claim, id, id));
        assert_eq!(found.settle().into_parts(), (id, Verdict::Found));
    }
}

#[tokio::test]
async fn fewer_or_more_answers_than_asked_for_are_no_answers() {
    for answers in [1, 3] {
        let store = Told::default();
        let mut unit = begin(&store).await;
        *store.claims.lock().unwrap() = vec![FRESH; answers];
        let failed = unit.claim(&group(), all(&["a", "b"])).await.unwrap_err();
        assert_eq!(failed.error.class(), Some(FaultClass::Permanent));
        assert_eq!(failed.error.to_string(), format!("2 claims were answered with {answers}"));
        assert_eq!(ids(&failed.received), ["a", "b"]);
        *store.claims.lock().unwrap() = vec![FRESH; answers];
        let failed = unit.reclaim(&store, &group(), all(&["a", "b"])).await.unwrap_err();
        assert_eq!(ids(&failed.received), ["a", "b"]);
    }
}

#[tokio::test]
async fn what_was_kept_is_taken_back_as_if_it_were_fresh() {
    let store = Told::answering(&[FRESH, Claim::Applied]);
    let mut unit = begin(&store).await;
    let answers = unit.reclaim(&store, &group(), all(&["kept", "handled"])).await.unwrap();
    let Ok([Answer::Fresh(kept), Answer::Found(handled)]) = <[_; 2]>::try_from(answers) else {
        panic!("one is to be handled, one was");
    };
    assert_eq!(handled.settle().into_parts(), ("handled", Verdict::Found));
    let settlements = unit.commit(vec![kept.applied()]).await.unwrap();
    assert_eq!(settlements[0].verdict(), Verdict::Applied);
    assert_eq!(store.calls(), ["reclaim", "commit"]);
}

/// Whatever is asked inside the unit: it fails with this class and gives the deliveries back.
async fn nothing_goes(
    unit: &mut Unit<'_, Told>,
    mut ready: Vec<Claimed<Receipt>>,
    refused: Conflicting<Receipt>,
    class: FaultClass,
) {
    let (store, group) = (unit.store, group());
    let dead = vec![letter(ready.pop().unwrap())];
    let steps = [
        unit.claim(&group, all(&["claim"])).await.map(drop),
        unit.reclaim(store, &group, all(&["reclaim"])).await.map(drop),
        unit.keep(store, &group, ready).await.map(drop),
        unit.bury(store, &group, dead).await.map(drop),
        unit.record_conflicts(store, &group, vec![refused]).await.map(drop),
    ];
    let steps = steps.map(Result::unwrap_err);
    assert!(steps.iter().all(|step| step.error.class() == Some(class)), "{steps:?}");
    let back: Vec<_> = steps.iter().flat_map(|step| ids(&step.received)).collect();
    assert_eq!(back, ["claim", "reclaim", "keep", "bury", "conflict"]);
}

#[tokio::test]
async fn a_step_that_failed_gives_the_deliveries_back() {
    let store = Told::default();
    let mut unit = begin(&store).await;
    let ready = claimed(&mut unit, &["keep", "bury"]).await;
    let refused = conflicting(&mut unit, "conflict").await;
    store.calls();
    store.fails(FaultClass::Outage);
    nothing_goes(&mut unit, ready, refused, FaultClass::Outage).await;
    assert_eq!(store.calls(), ["claim", "reclaim", "keep", "bury", "record_conflicts"]);
}

#[tokio::test]
async fn without_its_transaction_a_unit_can_only_be_rolled_back() {
    let store = Told::default();
    let mut unit = begin(&store).await;
    let mut ready = claimed(&mut unit, &["keep", "bury", "commit"]).await;
    let refused = conflicting(&mut unit, "conflict").await;
    let last = ready.pop().unwrap();
    store.calls();
    let leaked = unit.lend().unwrap();
    assert!(unit.lend().is_none());
    assert!(!unit.take_back());
    assert!(unit.tx_mut().is_none());
    nothing_goes(&mut unit, ready, refused, FaultClass::HandlerFault).await;
    match unit.commit(vec![last.applied()]).await {
        Err(CommitFailed::RolledBack { received, class, error }) => {
            assert_eq!((ids(&received), class), (vec!["commit"], FaultClass::HandlerFault));
            assert!(error.to_string().starts_with("the handler kept its transaction"), "{error}");
        }
        other => panic!("{other:?}"),
    }
    drop(leaked);

    let mut unit = begin(&store).await;
    let _leaked = unit.lend().unwrap();
    unit.rollback().await.unwrap();
    assert!(store.calls().is_empty());
}

#[tokio::test]
async fn a_transaction_can_be_lent_again_when_it_has_come_back() {
    let store = Told::default();
    let mut unit = begin(&store).await;
    for _ in 0..2 {
        drop(unit.lend().unwrap());
        assert!(unit.take_back());
        assert!(unit.take_back(), "it is there already");
    }
    assert!(unit.tx_mut().is_some());
    unit.commit::<Receipt>(Vec::new()).await.unwrap();
    assert_eq!(store.calls(), ["commit"]);
}

#[tokio::test]
async fn a_rollback_is_asked_of_the_store_and_its_error_is_told() {
    let store = Told::default();
    begin(&store).await.rollback().await.unwrap();
    assert_eq!(store.calls(), ["rollback"]);
    store.fails(FaultClass::Outage);
    let error = begin(&store).await.rollback().await.unwrap_err();
    assert_eq!(error.class(), Some(FaultClass::Outage));
}

#[tokio::test]
async fn what_another_unit_finished_is_not_committed() {
    let store = Told::default();
    let (mut unit, mut other) = (begin(&store).await, begin(&store).await);
    let mut finished = one_of_each(&mut unit).await;
    let count = finished.len();
    // One stranger is enough, of whatever kind.
    for foreign in one_of_each(&mut other).await {
        finished.push(foreign);
        let received = match unit.commit(finished).await {
            Err(CommitFailed::RolledBack { received, class: FaultClass::Permanent, error }) => {
                assert_eq!(error.to_string(), "a delivery of another unit of work was committed");
                received
            }
            result => panic!("{result:?}"),
        };
        assert_eq!(received.len(), count + 1);
        assert!(store.calls().is_empty());
        unit = begin(&store).await;
        finished = one_of_each(&mut unit).await;
    }
}

#[tokio::test]
async fn a_refused_commit_gives_everything_back() {
    let store = Told::default();
    let mut unit = begin(&store).await;
    let finished = one_of_each(&mut unit).await;
    *store.commit.lock().unwrap() = Some(CommitError::rolled_back(FaultClass::Contention, "a deadlock"));
    match unit.commit(finished).await {
        Err(CommitFailed::RolledBack { received, class, error }) => {
            assert_eq!((class, error.class()), (FaultClass::Contention, Some(FaultClass::Contention)));
            assert_eq!(error.to_string(), "a deadlock");
            assert_eq!(ids(&received), ["applied", "kept", "buried", "conflict", "entered"]);
        }
        other => panic!("{other:?}"),
    }
}

/// What a doubt about these became: receipts and, when it was committed, verdicts.
async fn resolved(
    rows: &[Resolution],
    pick: impl Fn(&str) -> bool,
) -> (bool, Vec<(Receipt, Option<Verdict>)>, Vec<&'static str>) {
    let store = Told::doubting(rows);
    let mut unit = begin(&store).await;
    let mut finished = one_of_each(&mut unit).await;
    finished.retain(|f| pick(f.received.receipt));
    let doubt = doubt_of(unit, finished).await;
    assert_eq!(doubt.message(), "the reply was lost");
    store.calls();
    let (is_committed, told) = match doubt.resolve(&store, &group()).await.unwrap() {
        Resolved::Committed(settlements) => {
            (true, settlements.iter().map(|s| (*s.receipt(), Some(s.verdict()))).collect())
        }
        Resolved::RolledBack(received) => (false, received.iter().map(|r| (r.receipt, None)).collect()),
    };
    (is_committed, told, store.calls())
}

#[tokio::test]
async fn a_doubt_is_a_commit_only_by_rows_that_say_what_was_written() {
    use Disposition::*;
    let written = [("applied", Applied), ("kept", Stored), ("buried", Dead)];
    for (id, disposition) in written {
        for found in [Applied, Dead, Parked, Stored] {
            let (is_committed, told, _) = resolved(&[row(found, id)], |other| other == id).await;
            assert_eq!(is_committed, found == disposition, "{id} by a row that says {found:?}");
            assert_eq!(told[0].0, id);
        }
        let (is_committed, ..) = resolved(&[row(disposition, "other")], |other| other == id).await;
        assert!(!is_committed, "{id} by a row of other content");
        let (is_committed, ..) = resolved(&[Resolution::Absent], |other| other == id).await;
        assert!(!is_committed, "{id} without a row");
    }
    let rows = written.map(|(id, disposition)| row(disposition, id));
    let has_row = |id: &str| written.iter().any(|&(other, _)| other == id);
    let (is_committed, told, calls) = resolved(&rows, has_row).await;
    let verdicts = [
        ("applied", Some(Verdict::Applied)),
        ("kept", Some(Verdict::Stored)),
        ("buried", Some(Verdict::Discarded)),
    ];
    assert_eq!((is_committed, &told[..], &calls[..]), (true, &verdicts[..], &["resolve"][..]));
}

#[tokio::test]
async fn one_row_of_somebody_else_is_enough_to_run_all_again() {
    let rows = [row(Disposition::Applied, "applied"), row(Disposition::Dead, "other")];
    let (is_committed, told, _) = resolved(&rows, |id| id == "applied" || id == "buried").await;
    assert_eq!((is_committed, told), (false, vec![("applied", None), ("buried", None)]));
}

#[tokio::test]
async fn what_has_no_row_of_its_own_leaves_the_doubt_open() {
    for id in ["conflict", "entered"] {
        let (is_committed, told, calls) = resolved(&[], |other| other == id).await;
        assert_eq!((is_committed, told), (false, vec![(id, None)]));
        assert!(calls.is_empty(), "there is nothing to ask about {id}");

        // Nor does it help that the row of another delivery is there.
        let rows = [row(Disposition::Applied, "applied")];
        let (is_committed, told, _) = resolved(&rows, |other| other == id || other == "applied").await;
        assert_eq!((is_committed, told), (false, vec![("applied", None), (id, None)]));
    }
}

#[tokio::test]
async fn a_doubt_stays_while_there_is_no_definite_answer() {
    for rows in [0, 2] {
        let store = Told::doubting(&vec![row(Disposition::Applied, "a"); rows]);
        let mut unit = begin(&store).await;
        let finished = claimed(&mut unit, &["a"]).await.into_iter().map(Claimed::applied).collect();
        let doubt = doubt_of(unit, finished).await;
        assert!(doubt.can_be_resolved());
        let (doubt, error) = doubt.resolve(&store, &group()).await.unwrap_err();
        assert_eq!(error.class(), Some(FaultClass::Permanent));
        store.fails(FaultClass::Outage);
        let (doubt, error) = doubt.resolve(&store, &group()).await.unwrap_err();
        assert_eq!(error.class(), Some(FaultClass::Outage));
        assert_eq!(ids(&doubt.undo()), ["a"]);
    }
}

#[tokio::test]
async fn without_any_row_a_doubt_cannot_be_resolved() {
    let store = Told::doubting(&[]);
    let unit = begin(&store).await;
    let finished = vec![unit.enter(received("a")).applied()];
    assert!(!doubt_of(unit, finished).await.can_be_resolved());
}
