//! The messages, the handler, and what must be there at the end.

use inbox_core::{
    Backoff, Failure, IdFrom, Json, JsonPointer, Runner, RunnerBuilder, Source, TxLimits, Work,
};
use inbox_file::FileBroker;
use inbox_postgres::{PostgresStore, Tx, sqlx::query};
use inbox_testkit::servers::{PostgresServer, TestDatabase};
use std::{fmt::Write as _, path::Path, time::Duration};

pub(crate) const MESSAGES: u64 = 5_000;

#[derive(serde::Deserialize)]
struct Line {
    n: i64,
}

async fn handle(Json(line): Json<Line>, mut tx: Tx) -> Result<(), Failure> {
    query("INSERT INTO effects (n) VALUES ($1)").bind(line.n).execute(&mut *tx).await?;
    query("UPDATE counter SET total = total + 1").execute(&mut *tx).await?;
    Ok(())
}

/// A file of messages and a database without any effect.
pub(crate) struct Place {
    pub(crate) database: TestDatabase,
    folder: tempfile::TempDir,
}

impl Place {
    pub(crate) fn on(server: &PostgresServer) -> Self {
        let database = server.database();
        database.query(
            "CREATE TABLE effects (n bigint NOT NULL); CREATE TABLE counter (total bigint NOT NULL); \
             INSERT INTO counter VALUES (0)",
        );
        let folder = tempfile::tempdir().unwrap();
        let mut lines = String::new();
        for n in 0..MESSAGES {
            writeln!(lines, r#"{{"id": "m-{n}", "n": {n}}}"#).unwrap();
        }
        std::fs::write(folder.path().join("messages.jsonl"), lines).unwrap();
        Self { database, folder }
    }

    pub(crate) fn file(&self) -> String {
        self.folder.path().join("messages.jsonl").to_str().unwrap().to_owned()
    }

    /// How many effects there are. They and the counter and the claims agree at any time.
    pub(crate) fn effects(&self, when: &str) -> u64 {
        let sql = "SELECT (SELECT count(*) FROM effects) || ' ' || (SELECT total FROM counter) || ' ' || \
                   (SELECT count(*) FROM inbox_claims)";
        let counts = self.database.query(sql);
        let counts: Vec<u64> = counts.split(' ').map(|count| count.parse().unwrap()).collect();
        assert!(
            counts[0] == counts[1] && counts[0] == counts[2],
            "{when}: effects, counter, claims: {counts:?}"
        );
        counts[0]
    }

    /// Each message has one effect.
    pub(crate) fn must_be_done(&self) {
        assert_eq!(self.effects("at the end"), MESSAGES);
        assert_eq!(self.database.query("SELECT count(DISTINCT n) FROM effects"), MESSAGES.to_string());
    }
}

/// A consumer of a file. Under another name of its source it sees all messages again, and under the same one what is
/// behind the checkpoint. It waits shortly, so that a test does not.
pub(crate) fn consumer(
    file: impl AsRef<Path>,
    source: &str,
    store: PostgresStore,
) -> RunnerBuilder<FileBroker, Work<PostgresStore>> {
    let wait = Backoff::new(Duration::from_millis(10), Duration::from_millis(200));
    let broker = FileBroker::options().source(Source::new(source)).open(file).unwrap();
    Runner::builder("processes")
        .broker(broker)
        .store(store)
        .checkpoints()
        .id_from(IdFrom::JsonPointer(JsonPointer::new("/id").unwrap()))
        .handler(handle)
        .outage_backoff(wait)
        .tx_limits(limits())
}

/// Whoever waits for another one's claim looks again soon.
pub(crate) fn limits() -> TxLimits {
    let mut limits = TxLimits::default();
    limits.lock_timeout = Duration::from_millis(50);
    limits
}
