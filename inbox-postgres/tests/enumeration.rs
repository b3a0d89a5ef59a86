//! The runner over PostgreSQL: every single fault of the shared enumeration.

// Helpers outside of test functions unwrap too.
#![allow(clippy::unwrap_used)]

mod common;

use common::{
    Database,
    realtime::{Realtime, in_real_time},
};
use inbox_core::{Disposition, Failure, Fingerprint, Group, Message, Strategy};
use inbox_postgres::{
    PostgresOptions,
    sqlx::{AssertSqlSafe, PgConnection, Row as _, postgres::PgConnectOptions, query, raw_sql},
};
use inbox_testkit::{EffectRow, Enumeration, Evidence, FinalState, Witness, World};
use std::sync::{Arc, Mutex, PoisonError};

const EFFECTS: &str = "
    CREATE TABLE applied (seq bigint GENERATED ALWAYS AS IDENTITY, id text NOT NULL, key text, content bytea NOT NULL);
    CREATE TABLE counter (applied bigint NOT NULL);
    INSERT INTO counter VALUES (0);
";

/// Everything but the groups, which stay for good.
const EMPTY: &str = "
    DELETE FROM inbox_claims; DELETE FROM inbox_letters; DELETE FROM inbox_conflicts;
    DELETE FROM inbox_checkpoints; DELETE FROM inbox_stored; DELETE FROM inbox_runs; DELETE FROM inbox_marks;
    DELETE FROM applied; UPDATE counter SET applied = 0;
";

/// A database for one world after the other.
struct Ground {
    database: Database,
    look: Mutex<PgConnection>,
}

impl Ground {
    fn new() -> Arc<Self> {
        in_real_time(async {
            let database = Database::new().await;
            drop(database.open().await);
            let mut look = database.look().await;
            raw_sql(EFFECTS).execute(&mut look).await.unwrap();
            Arc::new(Self { database, look: Mutex::new(look) })
        })
    }

    fn with_look<T>(&self, use_it: impl AsyncFnOnce(&mut PgConnection) -> T) -> T {
        let mut look = self.look.lock().unwrap_or_else(PoisonError::into_inner);
        in_real_time(use_it(&mut look))
    }

    fn new_world(self: &Arc<Self>) -> Postgres {
        self.with_look(async |look| raw_sql(EMPTY).execute(look).await.unwrap());
        Postgres(Arc::clone(self))
    }
}

struct Postgres(Arc<Ground>);

fn fingerprint(bytes: &[u8]) -> Fingerprint {
    Fingerprint::from_bytes(bytes).unwrap()
}

async fn evidence(look: &mut PgConnection, group: &Group, id: &str, content: Fingerprint) -> Evidence {
    let sql = "SELECT c.disposition, c.fingerprint,
          EXISTS (SELECT 1 FROM inbox_letters l WHERE l.group_id = g.group_id AND l.id = $2),
          EXISTS (SELECT 1 FROM inbox_conflicts f WHERE f.group_id = g.group_id AND f.id = $2 AND f.refused = $3),
          (SELECT count(*) FROM applied WHERE id = $2 AND content = $3)
        FROM (SELECT min(group_id) AS group_id FROM inbox_groups WHERE name = $1) g
        LEFT JOIN inbox_claims c ON c.group_id = g.group_id AND c.id = convert_to($2, 'UTF8')";
    let row = query(sql).bind(group.as_str()).bind(id).bind(content.to_bytes().to_vec());
    let row = row.fetch_one(look).await.unwrap();
    let disposition: Option<i16> = row.get(0);
    Evidence {
        claim: disposition.map(|code| (Disposition::from_code(code).unwrap(), fingerprint(row.get(1)))),
        letter: row.get(2),
        conflict: row.get(3),
        effects: usize::try_from(row.get::<i64, _>(4)).unwrap(),
    }
}

impl World for Postgres {
    type Store = Realtime;

    fn open(&self) -> Realtime {
        // What is tried is the loss of a process, not of the power: no need to wait for the disk.
        let connect: PgConnectOptions = self.0.database.test.url().parse().unwrap();
        let options = PostgresOptions::from(connect.options([("synchronous_commit", "off")]));
        Realtime(in_real_time(options.accept_lost_commits(true).connect()).unwrap())
    }

    fn witness(&self, group: &Group) -> Witness {
        let (ground, group) = (Arc::clone(&self.0), group.clone());
        Witness::new(move |id, content| {
            ground.with_look(async |look| evidence(look, &group, id, content).await)
        })
    }

    fn state(&self, _group: &Group) -> FinalState {
        self.0.with_look(async |look| {
            let mut rows =
                async |sql: &str| raw_sql(AssertSqlSafe(sql.to_owned())).fetch_all(&mut *look).await.unwrap();
            let effects = rows("SELECT id, key, content, seq FROM applied ORDER BY seq").await;
            let counter = rows("SELECT applied FROM counter").await;
            let claims = rows("SELECT convert_from(id, 'UTF8'), disposition FROM inbox_claims").await;
            let letters = rows("SELECT id FROM inbox_letters").await;
            let conflicts = rows("SELECT id, refused FROM inbox_conflicts").await;
            FinalState {
                effects: effects
                    .iter()
                    .map(|row| EffectRow {
                        id: row.get(0),
                        key: row.get(1),
                        content: fingerprint(&row.get::<Vec<u8>, _>(2)),
                        seq: row.get::<i64, _>(3).unsigned_abs(),
                    })
                    .collect(),
                counter: counter[0].get(0),
                claims: claims
                    .iter()
                    .map(|row| (row.get(0), Disposition::from_code(row.get(1)).unwrap()))
                    .collect(),
                letters: letters.iter().map(|row| row.get(0)).collect(),
                conflicts: conflicts
                    .iter()
                    .map(|row| (row.get(0), fingerprint(&row.get::<Vec<u8>, _>(1))))
                    .collect(),
                ..FinalState::default()
            }
        })
    }

    fn apply(connection: &mut PgConnection, message: &Message) -> Result<(), Failure> {
        in_real_time(async {
            let key = message.key().map(|key| String::from_utf8_lossy(key).into_owned());
            query("INSERT INTO applied (id, key, content) VALUES ($1, $2, $3)")
                .bind(message.id())
                .bind(key)
                .bind(message.fingerprint().to_bytes().to_vec())
                .execute(&mut *connection)
                .await?;
            query("UPDATE counter SET applied = applied + 1").execute(connection).await?;
            Ok(())
        })
    }
}

/// Lives through every single fault of a case, with the number of schedules that the reference store has:
/// the runner makes the same calls whatever the store.
fn every_single_fault(strategy: Strategy, pinned: &[(&str, usize)]) {
    let ground = Ground::new();
    for &(name, schedules) in pinned {
        let case = Enumeration::cases(strategy).into_iter().find(|case| case.to_string() == name);
        assert_eq!(case.unwrap().every_single_fault(|| ground.new_world()), schedules, "{name}");
    }
}

#[test]
fn every_single_fault_exactly_once() {
    every_single_fault(
        Strategy::ExactlyOnce,
        &[
            ("exactly once, queue, batches of 1", 181),
            ("exactly once, queue, batches of 4", 142),
            ("exactly once, log taken away with checkpoints, batches of 1", 239),
            ("exactly once, log taken away with checkpoints, batches of 4", 171),
            ("exactly once, queue with an attempt log, batches of 4", 152),
        ],
    );
}

#[test]
fn every_single_fault_on_persist() {
    every_single_fault(
        Strategy::OnPersist,
        &[("on persist, queue, batches of 1", 285), ("on persist, queue, batches of 4", 157)],
    );
}

#[test]
fn every_single_fault_at_least_once() {
    every_single_fault(
        Strategy::AtLeastOnce,
        &[("at least once, queue, batches of 1", 146), ("at least once, queue, batches of 4", 116)],
    );
}

#[test]
fn every_single_fault_at_most_once() {
    every_single_fault(Strategy::AtMostOnce, &[("at most once, queue, batches of 1", 134)]);
}

#[test]
fn every_single_fault_of_keeping_and_handling() {
    let ground = Ground::new();
    let schedules = inbox_testkit::conformance::every_single_fault_of_a_stored_run(|| ground.new_world());
    assert_eq!(schedules, 171);
}
