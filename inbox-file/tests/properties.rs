//! Any bytes, any chunks and any credit give what a naive splitter of the whole file gives.

#![allow(missing_docs, clippy::unwrap_used)] // Tests.

mod common;

use common::{Record, assign, next_batch, read_on, sample};
use inbox_core::{Checkpoint, Credit};
use inbox_file::FileBroker;
use proptest::prelude::*;
use std::fs;

const LINE_BYTES_MAX: usize = 6;
const PREFIX_BYTES: usize = 2;

/// The rules once more, over the whole file at once.
fn reference(bytes: &[u8]) -> (Vec<Record>, Option<(u64, u64)>) {
    let mut at = if bytes.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
    let mut records = Vec::new();
    for line in bytes[at..].split_inclusive(|byte| *byte == b'\n') {
        let begin = at;
        at += line.len();
        let ended = line.ends_with(b"\n");
        let mut content = if ended { &line[..line.len() - 1] } else { line };
        content = content.strip_suffix(b"\r").unwrap_or(content);
        if content.iter().all(|byte| b" \t\r".contains(byte)) {
            continue;
        }
        let oversize = content.len() > LINE_BYTES_MAX;
        let whole = || serde_json::from_slice::<serde::de::IgnoredAny>(content).is_ok();
        if !ended && (oversize || !whole()) {
            return (records, Some((begin as u64, line.len() as u64)));
        }
        let kept = if oversize { &content[..PREFIX_BYTES] } else { content };
        let mut record = Record::new(begin as u64, at as u64, kept);
        record.oversize = oversize.then_some(content.len() as u64);
        records.push(record);
    }
    (records, None)
}

fn bytes(max: usize) -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![
        4 => Just(b'\n'),
        3 => prop::sample::select(&b"\r \t"[..]),
        4 => prop::sample::select(&b"12{}[]\""[..]),
        1 => any::<u8>(),
    ];
    let bom = prop::option::weighted(0.2, Just(b"\xef\xbb\xbf".to_vec()));
    (bom, prop::collection::vec(byte, 0..max)).prop_map(|(bom, rest)| {
        let mut all = bom.unwrap_or_default();
        all.extend(rest);
        all
    })
}

fn open(path: &std::path::Path, chunk: usize) -> FileBroker {
    let options = FileBroker::options().line_bytes_max(LINE_BYTES_MAX).prefix_bytes(PREFIX_BYTES);
    options.chunk_bytes(chunk).open(path).unwrap()
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

proptest! {
    #[test]
    fn records_are_those_of_the_naive_splitter(
        bytes in bytes(80),
        chunk in 1_usize..20,
        credits in prop::collection::vec((1_usize..5, 1_usize..12), 1..8),
    ) {
        let (expected, leftover) = reference(&bytes);
        let sample = sample(&bytes);
        let (records, left) = block_on(async {
            let mut broker = open(&sample.path, chunk);
            assign(&mut broker, None).await;
            let mut records = Vec::new();
            for (messages, bytes) in credits.iter().cycle() {
                let credit = Credit::new(*messages, *bytes);
                let Some(batch) = next_batch(&mut broker, &credit).await.unwrap() else { break };
                let sum: usize = batch.iter().map(|delivery| delivery.inbound.bytes()).sum();
                assert!(batch.len() <= *messages && (batch.len() == 1 || sum <= *bytes));
                records.extend(batch.iter().map(|delivery| Record::from(&delivery.inbound)));
            }
            (records, broker.leftover())
        });
        prop_assert_eq!(records, expected);
        prop_assert_eq!(left.map(|left| (left.at, left.bytes)), leftover);
    }

    #[test]
    fn from_every_record_reading_goes_on_with_the_rest(bytes in bytes(60), chunk in 1_usize..20) {
        let (expected, _) = reference(&bytes);
        let sample = sample(&bytes);
        for (n, record) in expected.iter().enumerate() {
            for checkpoint in [record.checkpoint(), Checkpoint::new(record.next, 1, None)] {
                let rest = block_on(read_on(&mut open(&sample.path, chunk), Some(checkpoint))).unwrap();
                prop_assert_eq!(&rest, &expected[n + 1..]);
            }
        }
    }

    /// Whatever is appended: the old records and what comes now are together the records of the file
    /// as it is now, or the file is refused. Nothing is passed over in silence.
    #[test]
    fn a_file_that_grew_is_read_whole_or_refused(
        before in bytes(40),
        appended in bytes(20),
        chunk in 1_usize..20,
    ) {
        let (old, _) = reference(&before);
        prop_assume!(!old.is_empty());
        let all = [before, appended].concat();
        let sample = sample("");
        fs::write(&sample.path, &all).unwrap();
        let checkpoint = old.last().unwrap().checkpoint();
        if let Ok(rest) = block_on(read_on(&mut open(&sample.path, chunk), Some(checkpoint))) {
            let payloads = |records: &[Record]| records.iter().map(|r| r.payload.clone()).collect::<Vec<_>>();
            prop_assert_eq!(payloads(&[old, rest].concat()), payloads(&reference(&all).0));
        }
    }
}
