//! The broker suite that every broker passes, on a JSON Lines file.

#![allow(clippy::unwrap_used)]

use async_trait::async_trait;
use inbox_file::{FileBroker, FileReceipt};
use inbox_testkit::{
    broker_suite,
    suite::broker::{BrokerHarness, BrokerTraits, Payloads, Record},
};
use std::{fs::OpenOptions, io::Write, path::PathBuf, time::Duration};
use tempfile::TempDir;

struct Lines {
    path: PathBuf,
    _folder: TempDir,
}

impl Lines {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("suite.jsonl");
        std::fs::write(&path, "").unwrap();
        Self { path, _folder: folder }
    }
}

#[async_trait]
impl BrokerHarness for Lines {
    type Broker = FileBroker;

    /// A record is a line and nothing else; it ends with the file, and is told nothing about a release.
    fn traits(&self) -> BrokerTraits {
        BrokerTraits::everything()
            .payloads(Payloads::Lines)
            .tombstones(false)
            .keys(false)
            .headers(false)
            .released_again(false)
            .ends(true)
            .quiet(Duration::from_millis(100))
    }

    async fn publish(&self, records: Vec<Record>) {
        let mut file = OpenOptions::new().append(true).open(&self.path).unwrap();
        for record in records {
            file.write_all(&record.payload.unwrap_or_default()).unwrap();
            file.write_all(b"\n").unwrap();
        }
    }

    async fn connect(&self) -> FileBroker {
        FileBroker::open(&self.path).unwrap()
    }

    fn copy_receipt(&self, receipt: &FileReceipt) -> FileReceipt {
        *receipt
    }
}

broker_suite!(Lines::new());
