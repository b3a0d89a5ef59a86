//! Files that are not what a checkpoint remembers, and files that change while they are read.

#![allow(missing_docs, clippy::unwrap_used)] // Tests.

mod common;

use common::{Record, Sample, assign, next_batch, plenty, read_all, read_on, sample};
use inbox_core::{Broker, Checkpoint, Credit, Fingerprint, RecordMark};
use inbox_file::FileBroker;
use std::fs::{self, OpenOptions};

/// What comes behind `checkpoint`: the payloads, or the error (which is fatal, and stays).
async fn resumed(sample: &Sample, checkpoint: Checkpoint) -> Result<Vec<String>, String> {
    let mut broker = FileBroker::open(&sample.path).unwrap();
    match read_on(&mut broker, Some(checkpoint)).await {
        Ok(records) => {
            Ok(records.into_iter().map(|record| String::from_utf8(record.payload).unwrap()).collect())
        }
        Err(error) => {
            assert!(!error.is_transient());
            let again = broker.next(&plenty()).await.unwrap_err();
            assert_eq!(again.to_string(), error.to_string());
            assert_eq!(error.to_string().lines().count(), 1);
            assert!(error.to_string().contains("sample.jsonl"), "{error}");
            assert!(error.to_string().contains("`inbox checkpoint reset`"), "{error}");
            Err(error.to_string())
        }
    }
}

/// Reads `before` to its end, makes it `after`, and goes on.
async fn rewritten(before: &str, after: &str) -> Result<Vec<String>, String> {
    let sample = sample(before);
    let last = read_all(&sample).await.pop().unwrap();
    fs::write(&sample.path, after).unwrap();
    resumed(&sample, last.checkpoint()).await
}

#[tokio::test]
async fn a_file_that_grew_is_read_on() {
    let table: &[(&str, &str, &[&str])] = &[
        ("1\n", "1\n", &[]),
        ("1\n", "1\n2\n", &["2"]),
        ("1\n", "1\n\n\n2", &["2"]),
        ("1\r\n", "1\r\n2\n", &["2"]),
        ("\n\n1\n", "\n\n1\n2\n", &["2"]),
        // The last line had no newline when it was taken.
        ("1", "1", &[]),
        ("1", "1\n", &[]),
        ("1", "1\r\n2\n", &["2"]),
        ("1", "1\n2\n", &["2"]),
        ("1\r", "1\r\n2\n", &["2"]),
        // Looks as if a last line `1` and CR had been taken and got its LF since; the record is the same.
        ("1\n", "1\r\n2\n", &["2"]),
        ("\u{feff}1", "\u{feff}1\n2\n", &["2"]),
    ];
    for (before, after, rest) in table {
        assert_eq!(rewritten(before, after).await.unwrap(), *rest, "{before:?} to {after:?}");
    }
}

#[tokio::test]
async fn a_file_that_was_changed_is_refused() {
    let table = [
        ("1\n2\n", "1\n3\n"),
        ("1\n2\n", "1\n22\n3\n"),
        ("1\n2\n", "1\n\n2\n"),
        ("1\n2\n", "12345\n"),
        ("1\n2\n", "\n\n\n\n\n\n"),
        ("1\n2\n", "1\n2 \n"),
        ("1\n2\n", "1\n2{{\n"),
        // More than a terminator came to the last line that was taken.
        ("1", "12\n"),
        ("1", "12"),
        ("{}", "{} {}\n"),
        ("{}", "{}{\n"),
        ("1\n", "\u{feff}1\n"),
    ];
    for (before, after) in table {
        let error = rewritten(before, after).await.unwrap_err();
        assert!(error.contains("replaced or changed"), "{before:?} to {after:?}: {error}");
    }
}

#[tokio::test]
async fn a_file_that_was_truncated_is_refused() {
    for (before, after) in [("1\n2\n", "1\n"), ("1\n2\n", ""), ("1\n2\n", "1\n2")] {
        let error = rewritten(before, after).await.unwrap_err();
        assert!(error.contains("was truncated to"), "{before:?} to {after:?}: {error}");
    }
    let without_mark = resumed(&sample("1\n"), Checkpoint::new(3, 1, None)).await.unwrap_err();
    assert!(without_mark.contains("byte 3") && without_mark.contains("2 bytes"), "{without_mark}");
}

#[tokio::test]
async fn marks_that_cannot_be_are_refused() {
    let sample = sample("1\n2\n3\n");
    let mark = |at, payload: &[u8]| {
        Some(RecordMark { at, digest: Fingerprint::of_payload(Some(payload)), timestamp_ms: None })
    };
    for checkpoint in [
        Checkpoint::new(4, 1, mark(0, b"1")),
        Checkpoint::new(2, 1, mark(2, b"2")),
        Checkpoint::new(2, 1, mark(4, b"3")),
        Checkpoint::new(4, 1, mark(u64::MAX, b"3")),
        Checkpoint::new(0, 1, mark(0, b"1")),
    ] {
        let error = resumed(&sample, checkpoint.clone()).await.unwrap_err();
        assert!(error.contains("replaced or changed"), "{checkpoint:?}: {error}");
    }
    // A digest that is never compared leaves the positions to be checked.
    let off = |at| Some(RecordMark { at, digest: Fingerprint::off(), timestamp_ms: None });
    assert_eq!(resumed(&sample, Checkpoint::new(4, 1, off(2))).await.unwrap(), ["3"]);
    assert!(resumed(&sample, Checkpoint::new(4, 1, off(0))).await.is_err());
}

#[tokio::test]
async fn without_a_mark_no_line_is_begun_inside() {
    type Row = (&'static str, u64, Option<&'static [&'static str]>);
    let table: &[Row] = &[
        ("\u{feff}1\n", 0, Some(&["1"])),
        ("11\n22\n", 3, Some(&["22"])),
        ("11\n22\n", 6, Some(&[])),
        ("11\n22", 5, Some(&[])),
        ("11\r\n22\n", 2, Some(&["22"])),
        ("11\n22\n", 1, None),
        ("11\n22", 4, None),
        ("11\n{\"a\":", 5, None),
    ];
    for (content, next, expected) in table {
        match (resumed(&sample(content), Checkpoint::new(*next, 1, None)).await, expected) {
            (Ok(found), Some(expected)) => assert_eq!(found, *expected, "{content:?} at {next}"),
            (Err(error), None) => assert!(error.contains("inside a line"), "{content:?} at {next}: {error}"),
            (other, _) => panic!("{content:?} at {next}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_file_that_shrinks_while_it_is_read_is_an_error() {
    let sample = sample("{\"n\":1}\n".repeat(100_000));
    let mut broker = FileBroker::options().chunk_bytes(4096).open(&sample.path).unwrap();
    assign(&mut broker, None).await;
    next_batch(&mut broker, &Credit::new(1, 100)).await.unwrap().unwrap();
    // The hand-over is bounded: the reader cannot have come to the end yet.
    OpenOptions::new().write(true).open(&sample.path).unwrap().set_len(8).unwrap();
    let mut records = 1;
    let error = loop {
        match next_batch(&mut broker, &plenty()).await {
            Ok(batch) => records += batch.unwrap().len(),
            Err(error) => break error,
        }
    };
    // What was read before is delivered.
    assert!((1..=3 * 4096 / 8).contains(&records), "{records}");
    assert!(!error.is_transient());
    assert!(error.to_string().contains("truncated to 8 bytes while it was read"), "{error}");
    assert!(next_batch(&mut broker, &plenty()).await.is_err());
}

#[tokio::test]
async fn what_is_appended_while_it_is_read_comes_too() {
    use std::io::Write;
    let sample = sample("{\"n\":1}\n".repeat(10_000));
    let mut broker = FileBroker::options().chunk_bytes(4096).open(&sample.path).unwrap();
    assign(&mut broker, None).await;
    let mut records = next_batch(&mut broker, &plenty()).await.unwrap().unwrap().len();
    OpenOptions::new().append(true).open(&sample.path).unwrap().write_all(b"2\n").unwrap();
    while let Some(batch) = next_batch(&mut broker, &plenty()).await.unwrap() {
        records += batch.len();
    }
    assert_eq!(records, 10_001);
}

#[cfg(unix)]
#[tokio::test]
async fn another_file_at_the_path_does_not_disturb() {
    let sample = sample("1\n".repeat(10_000));
    let mut broker = FileBroker::options().chunk_bytes(64).open(&sample.path).unwrap();
    assign(&mut broker, None).await;
    let first = next_batch(&mut broker, &Credit::new(1, 1)).await.unwrap().unwrap();
    assert_eq!(Record::from(&first[0].inbound), Record::new(0, 2, "1"));
    let other = sample.path.with_extension("new");
    fs::write(&other, "2\n").unwrap();
    fs::rename(&other, &sample.path).unwrap();
    let mut records = 1;
    while let Some(batch) = next_batch(&mut broker, &plenty()).await.unwrap() {
        records += batch.len();
        assert!(batch.iter().all(|delivery| delivery.inbound.payload.as_deref() == Some(&b"1"[..])));
    }
    assert_eq!(records, 10_000);
}
