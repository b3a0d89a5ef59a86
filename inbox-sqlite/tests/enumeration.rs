//! The runner over SQLite: every single fault of the shared enumeration.

// Helpers outside of test functions unwrap too.
#![allow(clippy::unwrap_used)]

use inbox_core::{ClaimKey, Disposition, Failure, Fingerprint, Group, Message, MessageId, Scope, Strategy};
use inbox_sqlite::{SqliteStore, Synchronous};
use inbox_testkit::{EffectRow, Enumeration, Evidence, FakeOptions, FinalState, Witness, World};
use rusqlite::{Connection, OptionalExtension};
use std::path::{Path, PathBuf};

struct Sqlite {
    folder: tempfile::TempDir,
}

impl Sqlite {
    fn new() -> Self {
        // In memory where there is such a folder: what is tried is no loss of power.
        let memory = Path::new("/dev/shm");
        let folder =
            if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap();
        let world = Self { folder };
        drop(world.open());
        Connection::open(world.path())
            .unwrap()
            .execute_batch(
                "CREATE TABLE effects (seq INTEGER PRIMARY KEY, id TEXT NOT NULL, key TEXT, content BLOB NOT NULL);
                 CREATE TABLE counter (applied INTEGER NOT NULL); INSERT INTO counter VALUES (0);",
            )
            .unwrap();
        world
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("inbox.db")
    }
}

fn fingerprint(bytes: &[u8]) -> Fingerprint {
    Fingerprint::from_bytes(bytes).unwrap()
}

fn claim_of(look: &Connection, group: &Group, id: &str) -> Option<(Disposition, Fingerprint)> {
    look.query_row(
        "SELECT disposition, fingerprint FROM inbox_claims JOIN inbox_groups USING (group_id)
         WHERE name = ?1 AND id = ?2",
        [group.as_str(), id],
        |row| {
            let disposition = Disposition::from_code(row.get(0)?).unwrap();
            Ok((disposition, fingerprint(&row.get::<_, Vec<u8>>(1)?)))
        },
    )
    .optional()
    .unwrap()
}

fn exists(look: &Connection, sql: &str, parameters: impl rusqlite::Params) -> bool {
    look.query_row(sql, parameters, |_| Ok(())).optional().unwrap().is_some()
}

fn evidence(path: &Path, group: &Group, id: &str, content: Fingerprint) -> Evidence {
    let look = Connection::open(path).unwrap();
    let letter = "SELECT 1 FROM inbox_letters JOIN inbox_groups USING (group_id) WHERE name = ?1 AND id = ?2";
    let conflict = "SELECT 1 FROM inbox_conflicts JOIN inbox_groups USING (group_id)
                    WHERE name = ?1 AND id = ?2 AND refused = ?3";
    Evidence {
        claim: claim_of(&look, group, id),
        letter: exists(&look, letter, (group.as_str(), id)),
        conflict: exists(&look, conflict, (group.as_str(), id, content.to_bytes())),
        effects: look
            .query_row(
                "SELECT count(*) FROM effects WHERE id = ?1 AND content = ?2",
                (id, content.to_bytes()),
                |row| row.get::<_, u32>(0),
            )
            .unwrap() as usize,
    }
}

impl World for Sqlite {
    type Store = SqliteStore;

    fn open(&self) -> SqliteStore {
        // What is tried is the loss of a process, not of the power: no need to wait for the disk.
        SqliteStore::options().synchronous(Synchronous::Normal).open(self.path()).unwrap()
    }

    fn witness(&self, group: &Group) -> Witness {
        let (path, group) = (self.path(), group.clone());
        Witness::new(move |id, content| evidence(&path, &group, id, content))
    }

    fn state(&self, group: &Group) -> FinalState {
        let look = Connection::open(self.path()).unwrap();
        let rows = |sql: &str| -> Vec<(String, Vec<u8>)> {
            let mut query = look.prepare(sql).unwrap();
            query.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap().map(Result::unwrap).collect()
        };
        let mut effects = look.prepare("SELECT id, key, content, seq FROM effects ORDER BY seq").unwrap();
        let rows_of = effects.query_map([], |row| {
            Ok(EffectRow {
                id: row.get(0)?,
                key: row.get(1)?,
                content: fingerprint(&row.get::<_, Vec<u8>>(2)?),
                seq: row.get::<_, i64>(3)?.unsigned_abs(),
            })
        });
        let claims = rows("SELECT id, fingerprint FROM inbox_claims").into_iter().map(|(id, _)| {
            let (disposition, _) = claim_of(&look, group, &id).unwrap();
            (id, disposition)
        });
        FinalState {
            effects: rows_of.unwrap().map(Result::unwrap).collect(),
            counter: look.query_row("SELECT applied FROM counter", [], |row| row.get(0)).unwrap(),
            claims: claims.collect(),
            letters: rows("SELECT id, x'' FROM inbox_letters").into_iter().map(|(id, _)| id).collect(),
            conflicts: rows("SELECT id, refused FROM inbox_conflicts")
                .into_iter()
                .map(|(id, refused)| (id, fingerprint(&refused)))
                .collect(),
            ..FinalState::default()
        }
    }

    fn apply(connection: &mut Connection, message: &Message) -> Result<(), Failure> {
        let key = message.key().map(|key| String::from_utf8_lossy(key).into_owned());
        connection.execute(
            "INSERT INTO effects (id, key, content) VALUES (?1, ?2, ?3)",
            (message.id(), key, message.fingerprint().to_bytes()),
        )?;
        connection.execute("UPDATE counter SET applied = applied + 1", [])?;
        Ok(())
    }
}

/// Lives through every single fault of a case, with the number of schedules that the reference store has:
/// the runner makes the same calls whatever the store.
fn every_single_fault(strategy: Strategy, pinned: &[(&str, usize)]) {
    for &(name, schedules) in pinned {
        let case = Enumeration::cases(strategy).into_iter().find(|case| case.to_string() == name);
        assert_eq!(case.unwrap().every_single_fault(Sqlite::new), schedules, "{name}");
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
    assert_eq!(inbox_testkit::conformance::every_single_fault_of_a_stored_run(Sqlite::new), 171);
}

/// The oracle has to see a claim that commits without its effect over SQLite, too.
#[test]
fn a_row_without_its_effect_is_seen() {
    let world = Sqlite::new();
    let group = Group::new("billing").unwrap();
    let outcome = Enumeration::of_good_messages(FakeOptions::queue(), 4).live_through(&world, []);
    assert_eq!(outcome.violations, []);
    Connection::open(world.path()).unwrap().execute("DELETE FROM effects WHERE id = 'a1'", []).unwrap();
    let run = Enumeration::of_good_messages(FakeOptions::queue(), 4);
    let violations = inbox_testkit::Oracle::violations(&[], &run.expected, &world.state(&group));
    assert!(violations.iter().any(|v| v.guarantee == inbox_testkit::Guarantee::G6), "{violations:?}");
    let key = ClaimKey { scope: Scope::default(), id: MessageId::new("a1").unwrap() };
    assert_eq!(world.state(&group).claims[key.id.as_str()], Disposition::Applied);
}
