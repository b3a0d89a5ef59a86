//! Files as they are: which records come, with which positions.

#![allow(missing_docs, clippy::unwrap_used)] // Tests.

mod common;

use common::{Record, assign, next_batch, plenty, read_all, read_on, sample};
use inbox_core::{Credit, JsonPointer};
use inbox_file::FileBroker;
use std::{fs, fs::OpenOptions, io::Write};

const ORDERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/orders.jsonl");

#[tokio::test]
async fn the_orders_are_36_records_at_their_places() {
    let bytes = fs::read(ORDERS).unwrap();
    let mut broker = FileBroker::open(ORDERS).unwrap();
    let records = read_on(&mut broker, None).await.unwrap();
    assert_eq!(records.len(), 36);
    assert_eq!(records[0].at, 0);
    for pair in records.windows(2) {
        // One blank line, the 35th, is all that lies between two records.
        let blank = u64::from(pair[1].payload.starts_with(br#"{"id": "o-030""#));
        assert_eq!(pair[1].at, pair[0].next + blank);
    }
    for record in &records {
        let text = &bytes[record.at as usize..record.next as usize];
        let content = text.strip_suffix(b"\n").unwrap_or(text);
        assert_eq!(record.payload, content.strip_suffix(b"\r").unwrap_or(content));
    }
    assert!(bytes[records[34].at as usize..].windows(2).any(|pair| pair == b"\r\n"));
    assert_eq!(records[24].payload, br#"{"id":"o-021","order_id":21,"amount":"#);
    assert_eq!(records[25].payload, b"not json at all");
    assert_eq!(records[35].next, bytes.len() as u64);
    assert!(!records[35].payload.ends_with(b"\n"));
    assert_eq!(broker.leftover(), None);
    assert_eq!(broker.progress().delivered_to(), broker.progress().total());
}

#[tokio::test]
async fn files_without_records_end_at_once() {
    for content in ["", "\n", "\n \t\r\n\r\n  ", "\u{feff}", "\u{feff}\n", "\u{feff} \r\n\n"] {
        let sample = sample(content);
        let mut broker = FileBroker::open(&sample.path).unwrap();
        assert_eq!(read_on(&mut broker, None).await.unwrap(), [], "{content:?}");
        assert_eq!(broker.leftover(), None, "{content:?}");
        // The end stays the end, with and without credit.
        assert!(next_batch(&mut broker, &plenty()).await.unwrap().is_none());
        assert!(next_batch(&mut broker, &Credit::new(0, 0)).await.unwrap().is_none());
    }
}

#[tokio::test]
async fn a_byte_order_mark_is_passed_over_at_the_start_only() {
    let sample = sample("\u{feff}1\n\u{feff}2\n");
    let second = Record::new(5, 10, "\u{feff}2");
    assert_eq!(read_all(&sample).await, [Record::new(3, 5, "1"), second.clone()]);
    let mut again = FileBroker::open(&sample.path).unwrap();
    assert_eq!(read_on(&mut again, Some(Record::new(3, 5, "1").checkpoint())).await.unwrap(), [second]);
}

#[tokio::test]
async fn bytes_that_are_not_text_are_delivered_as_they_are() {
    let sample = sample(b"\xff\xfe\0\n");
    assert_eq!(read_all(&sample).await, [Record::new(0, 4, b"\xff\xfe\0")]);
}

#[tokio::test]
async fn a_last_line_is_taken_or_left_alone() {
    type Row = (&'static str, usize, Option<(u64, u64)>);
    let table: &[Row] = &[
        ("1\n{\"a\":1}", 2, None),
        ("1\n\"a\"", 2, None),
        ("1\n{\"a\":1", 1, Some((2, 6))),
        ("1\n{} {}", 1, Some((2, 5))),
        ("1\nnot json", 1, Some((2, 8))),
        ("1\n   ", 1, None),
        // Longer than a line may be: nobody looks whether it is JSON.
        ("1\n\"123456789\"", 1, Some((2, 11))),
    ];
    for (content, records, leftover) in table {
        let sample = sample(content);
        let mut broker = FileBroker::options().line_bytes_max(8).open(&sample.path).unwrap();
        assert_eq!(read_on(&mut broker, None).await.unwrap().len(), *records, "{content:?}");
        assert_eq!(broker.leftover().map(|left| (left.at, left.bytes)), *leftover, "{content:?}");
    }
}

#[tokio::test]
async fn a_leftover_is_delivered_once_it_has_its_newline() {
    let sample = sample("1\n{\"a\":");
    let first = read_all(&sample).await;
    assert_eq!(first, [Record::new(0, 2, "1")]);
    OpenOptions::new().append(true).open(&sample.path).unwrap().write_all(b"2}\n3").unwrap();
    let mut broker = FileBroker::open(&sample.path).unwrap();
    let rest = read_on(&mut broker, Some(first[0].checkpoint())).await.unwrap();
    assert_eq!(rest, [Record::new(2, 10, "{\"a\":2}"), Record::new(10, 11, "3")]);
}

#[tokio::test]
async fn a_huge_line_is_cut_and_the_next_one_comes() {
    let sample = sample("{\"id\":1}\n");
    let mut file = OpenOptions::new().append(true).open(&sample.path).unwrap();
    file.set_len(64 << 20).unwrap(); // A hole: NUL bytes that take no room.
    file.write_all(b"\n{\"id\":2}\n").unwrap();
    let mut broker = FileBroker::options().key(JsonPointer::field("id")).open(&sample.path).unwrap();
    let records = read_on(&mut broker, None).await.unwrap();
    let end = 64 << 20;
    assert_eq!(records.len(), 3);
    assert_eq!((records[1].at, records[1].next, records[1].oversize), (9, end + 1, Some(end - 9)));
    assert_eq!(records[1].payload, vec![0; 4096]);
    assert_eq!(records[2], Record::new(end + 1, end + 10, "{\"id\":2}"));
    // The huge line is recognised as any other.
    let mut again = FileBroker::open(&sample.path).unwrap();
    assert_eq!(read_on(&mut again, Some(records[1].checkpoint())).await.unwrap(), records[2..]);
}

#[tokio::test]
async fn keys_come_from_the_payload() {
    let sample = sample("{\"c\":\"ann\"}\n{\"c\":7.0}\n{}\nnot json\n{\"c\":\"an oversize line\"}\n");
    let options = FileBroker::options().key(JsonPointer::field("c")).line_bytes_max(16).prefix_bytes(100);
    let mut broker = options.open(&sample.path).unwrap();
    assign(&mut broker, None).await;
    let mut keys = Vec::new();
    while let Some(batch) = next_batch(&mut broker, &plenty()).await.unwrap() {
        keys.extend(batch.into_iter().map(|delivery| delivery.inbound.key));
    }
    let text = |text: &'static str| Some(bytes::Bytes::from_static(text.as_bytes()));
    assert_eq!(keys, [text("ann"), text("7.0"), None, None, None]);
}

#[tokio::test]
async fn a_line_that_is_left_alone_is_told() {
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);
    impl Write for Log {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let sample = sample("1\n{\"a\":");
    read_all(&sample).await;
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}");
    for part in ["WARN", "sample.jsonl", "from byte 2 on", "newline"] {
        assert!(text.contains(part), "{part:?} is missing in {text}");
    }
}
