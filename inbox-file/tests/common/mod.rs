//! Files to read, and readers that show what came.

#![allow(dead_code, missing_docs, unreachable_pub, clippy::unwrap_used)] // Each test file uses a part of it.

use inbox_core::{
    Broker, BrokerError, Checkpoint, Credit, Delivery, Event, Fingerprint, Inbound, Position, RecordMark,
};
use inbox_file::{FileBroker, FileReceipt};
use std::{collections::HashMap, path::PathBuf};
use tempfile::TempDir;

/// A file in a folder of its own.
pub struct Sample {
    _folder: TempDir,
    pub path: PathBuf,
}

pub fn sample(content: impl AsRef<[u8]>) -> Sample {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sample.jsonl");
    std::fs::write(&path, content).unwrap();
    Sample { _folder: folder, path }
}

/// A record as far as tests compare it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    pub at: u64,
    pub next: u64,
    pub payload: Vec<u8>,
    pub oversize: Option<u64>,
}

impl Record {
    pub fn new(at: u64, next: u64, payload: impl AsRef<[u8]>) -> Self {
        Self { at, next, payload: payload.as_ref().to_vec(), oversize: None }
    }

    /// The checkpoint that stands behind it.
    pub fn checkpoint(&self) -> Checkpoint {
        let digest = Fingerprint::of_payload(Some(&self.payload));
        Checkpoint::new(self.next, 1, Some(RecordMark { at: self.at, digest, timestamp_ms: None }))
    }
}

impl From<&Inbound> for Record {
    fn from(inbound: &Inbound) -> Self {
        let Position { at, next } = inbound.position.unwrap();
        let payload = inbound.payload.as_ref().unwrap().to_vec();
        Self { at, next, payload, oversize: inbound.oversize_bytes }
    }
}

pub fn plenty() -> Credit {
    Credit::new(usize::MAX, usize::MAX)
}

/// Answers the assignment.
pub async fn assign(broker: &mut FileBroker, checkpoint: Option<Checkpoint>) {
    let Event::Assigned(assignment) = broker.next(&Credit::new(0, 0)).await.unwrap() else {
        panic!("the first event is not an assignment");
    };
    assert_eq!(assignment.partitions(), [broker.partition().clone()]);
    match checkpoint {
        Some(at) => assignment.start_at(HashMap::from([(broker.partition().clone(), at)])),
        None => drop(assignment),
    }
}

pub async fn next_batch(
    broker: &mut FileBroker,
    credit: &Credit,
) -> Result<Option<Vec<Delivery<FileReceipt>>>, BrokerError> {
    match broker.next(credit).await? {
        Event::Deliveries(deliveries) => {
            assert!(!deliveries.is_empty());
            Ok(Some(deliveries))
        }
        Event::Ended => Ok(None),
        other => panic!("unexpected {other:?}"),
    }
}

/// All records from `checkpoint` to the end.
pub async fn read_on(
    broker: &mut FileBroker,
    checkpoint: Option<Checkpoint>,
) -> Result<Vec<Record>, BrokerError> {
    assign(broker, checkpoint).await;
    let mut records = Vec::new();
    while let Some(batch) = next_batch(broker, &plenty()).await? {
        for delivery in &batch {
            assert_eq!(Some(delivery.receipt.position), delivery.inbound.position);
            records.push(Record::from(&delivery.inbound));
        }
    }
    Ok(records)
}

pub async fn read_all(sample: &Sample) -> Vec<Record> {
    read_on(&mut FileBroker::open(&sample.path).unwrap(), None).await.unwrap()
}
