//! Identity through the real runner: where ids come from, what stands in for a missing one, and what is
//! compared when an id comes again.

use crate::common::group;
use inbox_core::{
    BuildError, Defect, Failure, FingerprintOf, IdFrom, Identity, Inbound, Message, MissingId, Partition,
    RunError, Runner, RunnerBuilder, Source, Summary, Tx,
};
use inbox_testkit::*;

async fn effect(message: Message, mut tx: Tx<MemoryStore>) -> Result<(), Failure> {
    Ok(apply_effect(&mut tx, &message)?)
}

struct Ran {
    result: Result<Summary, RunError>,
    queue: FakeQueue,
    database: MemoryDatabase,
}

impl Ran {
    fn effects(&self) -> Vec<String> {
        let rows = self.database.rows(EFFECTS);
        rows.into_iter().map(|row| format!("{row:?}")).collect()
    }
}

/// Runs over these messages; `options` sets the rules.
async fn run(
    mode: FakeOptions,
    messages: Vec<Publish>,
    options: impl FnOnce(RunnerBuilder) -> RunnerBuilder,
) -> Ran {
    let (queue, database) = (FakeQueue::new(mode), MemoryDatabase::new());
    messages.into_iter().for_each(|message| queue.publish(message));
    let builder = options(Runner::builder("billing")).broker(queue.connect()).store(database.store());
    let result = builder.handler(effect).build().unwrap().run().await;
    Ran { result, queue, database }
}

#[tokio::test(start_paused = true)]
async fn the_run_halts_at_a_record_without_an_id_and_says_where_it_stands() {
    let messages = vec![Publish::new("1"), Publish::anonymous().payload("x"), Publish::new("3")];
    let ran = run(FakeOptions::log(), messages, |b| b.missing_id(MissingId::Halt)).await;
    let error = ran.result.as_ref().unwrap_err();
    let RunError::Unidentified { partition, position: Some(position), why: Defect::IdMissing { .. }, .. } =
        error
    else {
        panic!("{error}")
    };
    assert_eq!(
        error.to_string(),
        format!(
            "{partition} at {} has no usable id and the policy is to halt: \
             no message id: the broker's message id is missing or empty",
            position.at
        )
    );
    assert!(!ran.queue.is_settled());
    assert!(ran.database.letters(&group()).is_empty());
    // Neither it nor anything behind it was started.
    assert!(ran.effects().len() <= 1);
}

#[tokio::test(start_paused = true)]
async fn the_run_halts_from_a_queue_too_and_gives_the_record_back() {
    let messages = vec![Publish::anonymous().payload("x"), Publish::new("2")];
    let ran = run(FakeOptions::queue(), messages, |b| b.missing_id(MissingId::Halt)).await;
    assert!(matches!(ran.result, Err(RunError::Unidentified { position: None, .. })));
    assert!(!ran.queue.is_settled());
}

#[tokio::test(start_paused = true)]
async fn a_missing_id_is_a_letter_unless_another_policy_is_named() {
    let messages = || vec![Publish::anonymous().payload("x"), Publish::anonymous().payload("x")];
    let ran = run(FakeOptions::log(), messages(), |b| b).await;
    let summary = ran.result.as_ref().unwrap();
    assert_eq!((summary.dead_letters, summary.applied), (2, 0));
    let partition = Partition { source: Source::new("fake"), number: 0 };
    let mut inbound = Inbound::new(partition, Some("x".into()));
    inbound.position = Some(inbox_core::Position { at: 0, next: 1 });
    let first = ran.database.letters(&group()).into_iter().map(|letter| letter.claim).min().unwrap();
    assert_eq!(first, Identity::unidentified_key(&inbound));

    let by_position = |b: RunnerBuilder| b.missing_id(MissingId::Position { tag: "a".into() });
    assert_eq!(run(FakeOptions::log(), messages(), by_position).await.result.unwrap().applied, 2);

    let by_content = run(FakeOptions::log(), messages(), |b| b.missing_id(MissingId::Content)).await;
    let summary = by_content.result.unwrap();
    assert_eq!((summary.applied, summary.duplicates), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn the_fingerprint_decides_between_duplicate_and_conflict() {
    let messages = || {
        vec![
            Publish::new("1").payload(r#"{"sum":7000,"sent":1}"#),
            Publish::new("1").payload(r#"{ "sent":1, "sum":7.000e3 }"#),
            Publish::new("1").payload(r#"{"sum":7000,"sent":2}"#),
            Publish::new("1").payload(r#"{"sum":7001,"sent":3}"#),
        ]
    };
    let sum = || FingerprintOf::Fields(vec![inbox_core::JsonPointer::field("sum")]);
    for (rule, duplicates, conflicts) in [
        (FingerprintOf::Payload, 0, 3),
        (FingerprintOf::CanonicalJson, 1, 2),
        (sum(), 2, 1),
        (FingerprintOf::Off, 3, 0),
    ] {
        let told = format!("{rule:?}");
        let ran = run(FakeOptions::queue(), messages(), |b| b.fingerprint(rule)).await;
        let summary = ran.result.as_ref().unwrap();
        assert_eq!(
            (summary.applied, summary.duplicates, summary.conflicts),
            (1, duplicates, conflicts),
            "{told}"
        );
    }
}

#[test]
fn rules_that_cannot_be_kept_are_refused() {
    let build = |options: fn(RunnerBuilder) -> RunnerBuilder| {
        let queue = FakeQueue::new(FakeOptions::queue());
        let builder = options(Runner::builder("billing")).broker(queue.connect());
        builder.store(MemoryDatabase::new().store()).handler(effect).build().unwrap_err()
    };
    fn position() -> IdFrom {
        IdFrom::Position { tag: "a".into() }
    }
    assert_eq!(build(|b| b.id_from(position())), BuildError::NotPositional { option: "id_from" });
    assert_eq!(
        build(|b| b.id_from(IdFrom::FirstOf(vec![IdFrom::Native, position()]))),
        BuildError::NotPositional { option: "id_from" }
    );
    let error = build(|b| b.missing_id(MissingId::Position { tag: "a".into() }));
    assert_eq!(error.to_string(), "option `missing_id`: this broker's deliveries have no lasting positions");
    let error = build(|b| b.id_from(IdFrom::FirstOf(Vec::new())));
    assert_eq!(error.to_string(), "option `id_from` is an empty list; it has to be at least one place");
    let error = build(|b| b.fingerprint(FingerprintOf::Fields(Vec::new())));
    assert_eq!(error.to_string(), "option `fingerprint` is an empty list; it has to be at least one place");
}
