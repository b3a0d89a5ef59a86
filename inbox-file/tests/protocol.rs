//! The contract of brokers: assignment, credit, cancelled calls, settlements, the end.

#![allow(missing_docs, clippy::unwrap_used)] // Tests.

mod common;

use common::{Record, assign, next_batch, plenty, read_all, sample};
use futures_util::FutureExt;
use inbox_core::{
    Ack, AckStrength, Broker, ClaimKey, Credit, Event, Fingerprint, Message, MessageId, Order, Received,
    Scope, Settled, Source,
};
use inbox_file::{FileBroker, OpenError};
use std::{collections::HashMap, fs};
use tokio::time::Instant;

#[test]
fn the_table_of_characteristics_is_true() {
    let yes = |it: bool| if it { "yes" } else { "no" };
    let can = FileBroker::open(sample("").path).map(|broker| broker.capabilities());
    // The folder of the sample is gone by now; a broker that is open does not mind.
    let can = can.unwrap();
    let expected = [
        ("order", if can.order == Order::Partition { "partition" } else { "none" }),
        ("acknowledgement", if can.ack == AckStrength::Checkpoint { "checkpoint" } else { "other" }),
        ("delayed retry", yes(can.delayed_retry)),
        ("counts deliveries", yes(can.counts_deliveries)),
        ("positional", yes(can.positional)),
        ("rebalances", yes(can.rebalances)),
    ];
    let rows: Vec<(&str, &str)> = include_str!("../src/broker.rs")
        .lines()
        .filter_map(|line| line.strip_prefix("/// | ")?.strip_suffix(" |")?.split_once(" | "))
        .skip(1)
        .collect();
    assert_eq!(rows, expected);
}

#[test]
fn paths_that_cannot_be_read_are_told_apart() {
    let sample = sample("");
    let folder = sample.path.parent().unwrap();
    let error = FileBroker::open(folder.join("none.jsonl")).unwrap_err();
    assert!(matches!(error, OpenError::Missing { .. }), "{error}");
    assert!(error.to_string().contains("none.jsonl"));
    let error = FileBroker::open(folder).unwrap_err();
    assert!(matches!(error, OpenError::Directory { .. }), "{error}");
    let error = FileBroker::open(sample.path.join("below.jsonl")).unwrap_err();
    assert!(matches!(error, OpenError::Unreadable { .. } | OpenError::Missing { .. }), "{error}");
    #[cfg(unix)]
    {
        use std::{ffi::OsStr, os::unix::ffi::OsStrExt};
        let error = FileBroker::open("/dev/null").unwrap_err();
        assert!(matches!(error, OpenError::NotRegular { .. }), "{error}");
        // Not every file system has such names.
        let path = folder.join(OsStr::from_bytes(b"\xff.jsonl"));
        if fs::write(&path, "1\n").is_ok() {
            let error = FileBroker::open(&path).unwrap_err();
            assert!(matches!(error, OpenError::PathNotUtf8 { .. }), "{error}");
            let named = FileBroker::options().source(Source::new("named")).open(&path).unwrap();
            assert_eq!(named.source().as_str(), "named");
        }
    }
}

#[test]
fn the_source_is_the_canonical_path() {
    let sample = sample("");
    let folder = fs::canonicalize(sample.path.parent().unwrap()).unwrap();
    let broker = FileBroker::open(folder.join(".").join("sample.jsonl")).unwrap();
    let expected = format!("file:{}", folder.join("sample.jsonl").display());
    assert_eq!(broker.source().as_str(), expected);
    assert_eq!(broker.partition().number, 0);
}

#[tokio::test]
async fn nothing_comes_before_the_assignment_is_answered() {
    let sample = sample("1\n2\n");
    let mut broker = FileBroker::open(&sample.path).unwrap();
    let Event::Assigned(assignment) = broker.next(&plenty()).await.unwrap() else { panic!() };
    for _ in 0..100 {
        assert!(broker.next(&plenty()).now_or_never().is_none());
    }
    // A reply that does not name the partition: from the start.
    assignment.start_at(HashMap::new());
    let batch = next_batch(&mut broker, &Credit::new(1, 1)).await.unwrap().unwrap();
    assert_eq!(Record::from(&batch[0].inbound), Record::new(0, 2, "1"));
}

#[tokio::test]
async fn credit_is_kept() {
    let sample = sample("11\n22\n33333\n4\n");
    let mut broker = FileBroker::open(&sample.path).unwrap();
    assign(&mut broker, None).await;
    let mut held = plenty();
    held.held.push(broker.partition().clone());
    let none = [Credit::new(0, 10), Credit::new(10, 0), held];
    // (messages, bytes) and how many come; the third line alone is larger than its credit.
    let table = [((9, 4), 2), ((9, 3), 1), ((9, 1), 1)];
    for ((messages, bytes), expected) in table {
        for credit in &none {
            assert!(broker.next(credit).now_or_never().is_none(), "{credit:?}");
        }
        let batch = next_batch(&mut broker, &Credit::new(messages, bytes)).await.unwrap().unwrap();
        assert_eq!(batch.len(), expected);
    }
    // With nothing left the end is told, whatever the credit.
    assert!(next_batch(&mut broker, &Credit::new(0, 0)).await.unwrap().is_none());
}

/// Calls `next` again and again and drops the future whenever it is not ready at once.
async fn next_impatiently(broker: &mut FileBroker, credit: &Credit) -> Event<inbox_file::FileReceipt> {
    loop {
        if let Some(event) = broker.next(credit).now_or_never() {
            return event.unwrap();
        }
        // To the runtime too: it lets a task that never yields receive nothing more.
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn dropped_calls_lose_and_double_nothing() {
    let text: String = (0..5000).map(|n| format!("{{\"n\":{n}}}\r\n")).collect();
    let sample = sample(text);
    let expected = read_all(&sample).await;
    assert_eq!(expected.len(), 5000);
    let mut broker = FileBroker::options().chunk_bytes(64).open(&sample.path).unwrap();
    let Event::Assigned(assignment) = next_impatiently(&mut broker, &plenty()).await else { panic!() };
    drop(assignment);
    let mut records = Vec::new();
    for messages in (1..).map(|n| n % 7) {
        if messages == 0 && records.len() < expected.len() {
            assert!(broker.next(&Credit::new(0, 0)).now_or_never().is_none());
            continue;
        }
        match next_impatiently(&mut broker, &Credit::new(messages, usize::MAX)).await {
            Event::Deliveries(batch) => records.extend(batch.iter().map(|d| Record::from(&d.inbound))),
            Event::Ended => break,
            other => panic!("unexpected {other:?}"),
        }
    }
    assert_eq!(records, expected);
}

#[tokio::test]
async fn settlements_are_deferred() {
    let sample = sample("1\n2\n");
    let mut broker = FileBroker::open(&sample.path).unwrap();
    assign(&mut broker, None).await;
    let batch = next_batch(&mut broker, &plenty()).await.unwrap().unwrap();
    let settlements = batch.into_iter().map(|delivery| {
        let fingerprint = Fingerprint::of_payload(delivery.inbound.payload.as_deref());
        let claim = ClaimKey { scope: Scope::default(), id: MessageId::new("a").unwrap() };
        let message = Message::new(claim, fingerprint, delivery.inbound);
        Received::new(message, delivery.receipt).release(None)
    });
    let answers = broker.ack_handle().settle(settlements.collect()).await;
    assert_eq!(answers.len(), 2);
    assert!(answers.iter().all(|answer| matches!(answer, Ok(Settled::Deferred))));
}

#[tokio::test]
async fn it_closes_at_any_time() {
    let sample = sample("{\"n\":1}\n".repeat(100_000));
    let soon = || Instant::now() + std::time::Duration::from_secs(60);
    let open = || FileBroker::options().chunk_bytes(64).open(&sample.path).unwrap();
    open().close(soon()).await.unwrap();
    let mut assigned = open();
    assign(&mut assigned, None).await;
    assigned.close(soon()).await.unwrap();
    let mut reading = open();
    assign(&mut reading, None).await;
    next_batch(&mut reading, &Credit::new(1, 1)).await.unwrap().unwrap();
    reading.close(soon()).await.unwrap();
}
