//! What the tests of the store share.
#![allow(dead_code, missing_docs, unreachable_pub, clippy::unwrap_used)]

use bytes::Bytes;
use inbox_core::{
    Claim, ClaimKey, ClaimRequest, CommitError, FaultClass, Fingerprint, Group, Inbound, InboxStore, Message,
    MessageId, Partition, Resolution, Scope, Source, StoreError, TxLimits,
};
use inbox_sqlite::{SqliteStore, SqliteTx};
use std::{path::PathBuf, time::Duration};
use tempfile::TempDir;

/// A database file with an append-only table of effects, and a store on it.
pub struct Database {
    pub store: SqliteStore,
    pub path: PathBuf,
    pub _directory: TempDir,
}

impl Database {
    pub async fn new() -> Self {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("test.db");
        let store = SqliteStore::open(&path).unwrap();
        store.apply_init("CREATE TABLE effects (what TEXT NOT NULL) STRICT").await.unwrap();
        Self { store, path, _directory: directory }
    }

    /// A second store on the same file, as another process would have it.
    pub fn other(&self) -> SqliteStore {
        SqliteStore::open(&self.path).unwrap()
    }

    /// The effects as a fresh connection sees them.
    pub fn effects(&self) -> Vec<String> {
        let connection = rusqlite::Connection::open(&self.path).unwrap();
        let mut list = connection.prepare("SELECT what FROM effects ORDER BY rowid").unwrap();
        list.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }

    pub async fn resolve(&self, id: &str) -> Resolution {
        self.store.resolve(&group(), &[key(id)]).await.unwrap()[0]
    }
}

pub fn group() -> Group {
    Group::new("billing").unwrap()
}

pub fn key(id: &str) -> ClaimKey {
    ClaimKey { scope: Scope::default(), id: MessageId::new(id).unwrap() }
}

pub fn request(id: &str, content: &str) -> ClaimRequest {
    ClaimRequest { key: key(id), fingerprint: Fingerprint::of_payload(Some(content.as_bytes())) }
}

pub fn message(id: &str, content: &str) -> Message {
    let partition = Partition { source: Source::new("test"), number: 0 };
    let inbound = Inbound::new(partition, Some(Bytes::from(content.to_owned())));
    Message::new(key(id), Fingerprint::of_payload(Some(content.as_bytes())), inbound)
}

pub fn limits() -> TxLimits {
    TxLimits::default()
}

/// Limits of a store that does not wait for foreign locks.
pub fn impatient() -> TxLimits {
    let mut limits = TxLimits::default();
    limits.lock_timeout = Duration::ZERO;
    limits
}

/// Opens a transaction and claims one message in it.
pub async fn claimed(store: &SqliteStore, id: &str) -> SqliteTx {
    let mut tx = store.begin(&limits()).await.unwrap();
    assert_eq!(claim(store, &mut tx, id, "x").await, Claim::Fresh);
    tx
}

pub async fn claim(store: &SqliteStore, tx: &mut SqliteTx, id: &str, content: &str) -> Claim {
    store.claim(tx, &group(), &[request(id, content)]).await.unwrap()[0]
}

/// Claims, writes the effect, commits: a whole delivery.
pub async fn deliver(store: &SqliteStore, id: &str) -> Claim {
    let mut tx = store.begin(&limits()).await.unwrap();
    let claim = claim(store, &mut tx, id, "x").await;
    if claim == Claim::Fresh {
        effect(&tx, id).unwrap();
    }
    store.commit(tx).await.unwrap();
    claim
}

pub fn effect(connection: &rusqlite::Connection, what: &str) -> rusqlite::Result<usize> {
    connection.execute("INSERT INTO effects VALUES (?1)", [what])
}

/// What a commit of which nothing was stored says.
pub fn rolled_back(outcome: Result<(), CommitError>) -> (FaultClass, String) {
    match outcome {
        Err(CommitError::RolledBack { class, message, .. }) => {
            assert!(!message.contains('\n'), "{message}");
            (class, message)
        }
        other => panic!("expected a rollback, found {other:?}"),
    }
}

pub fn class<T: std::fmt::Debug>(outcome: Result<T, StoreError>) -> FaultClass {
    outcome.unwrap_err().class().expect("not busy")
}
