//! What the tests of whole runs share: a folder with input, and a database of each kind for the effects.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

pub mod golden;

use inbox_testkit::servers::{PostgresServer, TestDatabase};
use rusqlite::{Connection, types::ValueRef};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// A kind of database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Sqlite,
    Postgres,
}

/// A password that must never be told. The server of the tests asks for none, and takes any.
pub const SECRET: &str = "s3cret";

/// A database for effects.
pub enum Place {
    /// A file, by its path.
    Sqlite(PathBuf),
    Postgres(TestDatabase),
}

impl Place {
    pub fn new(kind: Kind, folder: &Path) -> Self {
        match kind {
            Kind::Sqlite => Self::Sqlite(folder.join("shop.db")),
            Kind::Postgres => Self::Postgres(PostgresServer::shared().database()),
        }
    }

    /// What `--into` is given, from inside the folder.
    pub fn url(&self) -> String {
        match self {
            Self::Sqlite(path) => format!("sqlite:{}", path.file_name().unwrap().to_str().unwrap()),
            Self::Postgres(database) => with_secret(database.url()),
        }
    }

    /// How it is shown.
    pub fn shown(&self) -> String {
        self.url().replace(SECRET, "***")
    }

    /// Rows, one a line, columns separated by `|`.
    pub fn query(&self, sql: &str) -> String {
        match self {
            Self::Sqlite(path) => sqlite_rows(path, sql),
            Self::Postgres(database) => database.query(sql),
        }
    }
}

/// The URL with a password, where it has none.
pub fn with_secret(url: &str) -> String {
    match url.split_once('@') {
        Some((user, place)) if user.matches(':').count() == 1 => format!("{user}:{SECRET}@{place}"),
        _ => url.to_owned(),
    }
}

fn sqlite_rows(path: &Path, sql: &str) -> String {
    let connection = Connection::open(path).unwrap();
    let mut statement = connection.prepare(sql).unwrap();
    let columns = statement.column_count();
    let rows = statement.query_map([], |row| {
        let cells = (0..columns).map(|column| {
            Ok(match row.get_ref(column)? {
                ValueRef::Null => String::new(),
                ValueRef::Integer(number) => number.to_string(),
                ValueRef::Real(number) => number.to_string(),
                text => text.as_str()?.to_owned(),
            })
        });
        Ok(cells.collect::<rusqlite::Result<Vec<_>>>()?.join("|"))
    });
    rows.unwrap().collect::<Result<Vec<_>, _>>().unwrap().join("\n")
}

/// A folder with input and a schema, and a database.
pub struct Shop {
    folder: tempfile::TempDir,
    pub place: Place,
}

impl Shop {
    pub fn new(kind: Kind, orders: &[u8]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let shop = Self { place: Place::new(kind, folder.path()), folder };
        fs::write(shop.path("orders.jsonl"), orders).unwrap();
        let schema =
            "CREATE TABLE invoices (order_id BIGINT NOT NULL, customer TEXT, amount BIGINT NOT NULL);";
        fs::write(shop.path("schema.sql"), schema).unwrap();
        shop
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn inbox(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_inbox"));
        command.args(args).current_dir(self.folder.path());
        command
    }

    /// A command about the database.
    pub fn inbox_into(&self, args: &[&str]) -> Command {
        let mut command = self.inbox(args);
        command.args(["--into", &self.place.url()]);
        command
    }

    pub fn run(&self, more: &[&str]) -> Command {
        let mut command = self.inbox_into(&["run", "--from", "file:orders.jsonl"]);
        command.args(["--group", "billing", "--id", "/id", "--init", "schema.sql", "--report", "json"]);
        command.args(more);
        command
    }

    /// The text that a command about the database prints, which has to succeed.
    pub fn prints(&self, args: &[&str]) -> String {
        let output = self.inbox_into(args).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Count and sum of the invoices.
    pub fn invoices(&self) -> (i64, i64) {
        let row = self.place.query("SELECT count(*), coalesce(sum(amount), 0) FROM invoices");
        let (count, sum) = row.split_once('|').unwrap();
        (count.parse().unwrap(), sum.parse().unwrap())
    }
}

/// The last line of stdout without the time, which is no promise.
pub fn counts(output: &Output) -> String {
    let stdout = String::from_utf8(output.stdout.clone()).unwrap();
    let line = stdout.lines().last().unwrap_or_default();
    let (counts, elapsed) = line.split_once(",\"elapsed_ms\":").unwrap_or_else(|| panic!("{output:?}"));
    assert!(elapsed.strip_suffix('}').unwrap().parse::<u64>().is_ok(), "{line}");
    format!("{counts}}}")
}

pub fn told(
    received: u64,
    applied: u64,
    duplicates: u64,
    conflicts: u64,
    letters: u64,
    failed: u64,
) -> String {
    format!(
        "{{\"received\":{received},\"applied\":{applied},\"duplicates\":{duplicates},\
         \"conflicts\":{conflicts},\"dead_letters\":{letters},\"failed_attempts\":{failed}}}"
    )
}
