//! The consumer process.

use crate::work;
use async_trait::async_trait;
use inbox_core::{Message, Probe, ProbePoint};
use inbox_postgres::PostgresStore;
use serde::{Deserialize, Serialize};
use std::{
    process::{Command, Stdio},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

const VARIABLE: &str = "INBOX_TEST_CONSUMER";

/// What the process has to do.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Life {
    pub(crate) url: String,
    pub(crate) file: String,
    pub(crate) batch: usize,
    pub(crate) lanes: usize,
    /// The name of the source: the next life under it goes on where this one ended.
    pub(crate) source: String,
    /// The point, by its name, and the passage at which it ends with SIGKILL.
    pub(crate) kill_at: Option<(String, u64)>,
}

/// What the process says at its end.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Told {
    pub(crate) applied: u64,
    pub(crate) duplicates: u64,
    pub(crate) busy: u64,
}

/// Said once, when the first unit of work was rolled back.
pub(crate) const ROLLED_BACK: &str = "rolled back";

impl Life {
    /// This program as a consumer.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.env(VARIABLE, serde_json::to_string(self).unwrap());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        command
    }
}

pub(crate) fn is_wanted() -> bool {
    std::env::var_os(VARIABLE).is_some()
}

struct Probes {
    kill_at: Option<ProbePoint>,
    passages_left: AtomicU64,
    rollbacks: AtomicU64,
}

#[async_trait]
impl Probe for Probes {
    async fn reached(&self, point: ProbePoint, _: Option<&Message>) {
        if point == ProbePoint::RolledBack && self.rollbacks.fetch_add(1, Relaxed) == 0 {
            println!("{ROLLED_BACK}");
        }
        if self.kill_at == Some(point) && self.passages_left.fetch_sub(1, Relaxed) == 1 {
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).unwrap();
            std::future::pending::<()>().await;
        }
    }
}

/// Consumes the file to its end.
pub(crate) fn live() {
    let life: Life = serde_json::from_str(&std::env::var(VARIABLE).unwrap()).unwrap();
    let (name, passage) = life.kill_at.unwrap_or_default();
    let probes = Probes {
        kill_at: ProbePoint::ALL.into_iter().find(|point| point.name() == name),
        passages_left: AtomicU64::new(passage),
        rollbacks: AtomicU64::new(0),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let summary = runtime.block_on(async {
        let store = PostgresStore::connect(&life.url).await.unwrap();
        let consumer = work::consumer(&life.file, &life.source, store);
        consumer.probe(probes).batch_max(life.batch).lanes(life.lanes).build().unwrap().run().await.unwrap()
    });
    let told = Told { applied: summary.applied, duplicates: summary.duplicates, busy: summary.busy };
    println!("{}", serde_json::to_string(&told).unwrap());
}
