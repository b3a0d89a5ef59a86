//! Wrong invocations and bad inputs: what is said about them, and with which exit code.
//!
//! `UPDATE_GOLDEN=1 cargo test -p inbox-cli --test golden` writes the files anew; look at the difference.

// Helpers outside of test functions unwrap too.
#![allow(clippy::unwrap_used)]

mod common;

use common::SECRET;
use inbox_testkit::servers::{PostgresServer, TestDatabase};
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Stands for the folder of a case, in arguments and in golden files.
const DIR: &str = "DIR";
/// Stands for the server of the tests, with user and password in arguments and without them in golden files.
const SERVER: &str = "SERVER";
/// Stands for the name of a case's database.
const DATABASE: &str = "DATABASE";

/// The options of a run that works, but for what a case adds or replaces.
const FROM: [&str; 2] = ["--from", "file:DIR/orders.jsonl"];
const INTO: [&str; 2] = ["--into", "sqlite:DIR/shop.db"];
const GROUP: [&str; 2] = ["--group", "billing"];
const INIT: [&str; 2] = ["--init", "DIR/schema.sql"];
const SQL: [&str; 2] = ["--sql", "INSERT INTO invoices VALUES (:order_id, :amount)"];

/// The arguments of a run: `more` behind the options that it does not give itself.
fn run(more: &[&str]) -> Vec<String> {
    let mut args = vec!["run"];
    for option in [FROM, INTO, GROUP, INIT, SQL] {
        if !more.contains(&option[0]) {
            args.extend(option);
        }
    }
    args.extend(more);
    args.into_iter().map(str::to_owned).collect()
}

/// The same for PostgreSQL.
fn run_pg(more: &[&str]) -> Vec<String> {
    if more.contains(&"--into") { run(more) } else { run(&[&["--into", "SERVER/DATABASE"], more].concat()) }
}

fn args(args: &[&str]) -> Vec<String> {
    args.iter().map(|arg| (*arg).to_owned()).collect()
}

/// A run without one of its options.
fn without(option: &str) -> Vec<String> {
    let mut args = run(&[]);
    let at = args.iter().position(|arg| arg == option).unwrap();
    args.drain(at..at + 2);
    args
}

fn cases() -> Vec<(&'static str, Vec<String>)> {
    vec![
        ("no-command", args(&[])),
        ("unknown-command", args(&["rum"])),
        ("unknown-option", run(&["--batchsize", "5"])),
        ("stray-argument", run(&["postgres://bob:secret@db/shop"])),
        ("no-from", without("--from")),
        ("no-sql", without("--sql")),
        ("from-without-scheme", run(&["--from", "orders.jsonl"])),
        ("from-unknown-scheme", run(&["--from", "ftp://host/orders.jsonl"])),
        ("from-not-in-this-build", run(&["--from", "kafka://bob:secret@broker/orders"])),
        ("into-memory", run(&["--into", "sqlite::memory:"])),
        ("into-memory-uri", run(&["--into", "sqlite:file:shop?mode=memory"])),
        ("into-uri", run(&["--into", "sqlite:file:shop.db?mode=rw"])),
        #[cfg(unix)]
        ("into-device", run(&["--into", "sqlite:/dev/null"])),
        ("empty-group", run(&["--group", ""])),
        ("bad-id-pointer", run(&["--id", "id"])),
        ("id-from-header", run(&["--id", "header:message-id"])),
        ("bad-key-pointer", run(&["--key", "/a~2"])),
        ("batch-zero", run(&["--batch", "0"])),
        ("lanes-too-many", run(&["--lanes", "65"])),
        ("attempts-no-number", run(&["--attempts", "many"])),
        ("report-unknown-format", run(&["--report", "xml"])),
        ("on-failure-unknown", run(&["--on-failure", "ignore"])),
        ("quiet-and-log", run(&["--quiet", "--log", "debug"])),
        ("param-without-source", run(&["--param", "amount"])),
        ("param-bad-source", run(&["--param", "amount=amount"])),
        ("param-unknown-part", run(&["--param", "amount=message:offset"])),
        ("param-header", run(&["--param", "amount=header:amount"])),
        ("param-unused", run(&["--param", "total=/total"])),
        ("param-twice", run(&["--param", "amount=/a", "--param", "amount=/b"])),
        ("sql-positional-parameter", run(&["--sql", "INSERT INTO invoices VALUES (?, :amount)"])),
        ("sql-cast-of-postgres", run(&["--sql", "INSERT INTO invoices VALUES (:order_id::int, :amount)"])),
        ("sql-syntax", run(&["--sql", "INSRT INTO invoices VALUES (1, 2)"])),
        ("sql-no-such-table", run(&["--sql", "INSERT INTO bills VALUES (:order_id)"])),
        ("sql-second-is-bad", run(&["--sql", "DELETE FROM invoices", "--sql", "DELETE FROM bills"])),
        ("sql-two-statements", run(&["--sql", "DELETE FROM invoices; DELETE FROM invoices"])),
        ("sql-empty", run(&["--sql", " "])),
        ("sql-commit", run(&["--sql", "COMMIT"])),
        ("sql-own-table", run(&["--sql", "DELETE FROM inbox_claims"])),
        ("sql-vacuum", run(&["--sql", "VACUUM"])),
        ("input-missing", run(&["--from", "file:DIR/none.jsonl"])),
        ("input-folder", run(&["--from", "file:DIR/folder"])),
        ("schema-missing", run(&["--init", "DIR/none.sql"])),
        #[cfg(unix)]
        ("schema-pipe", run(&["--init", "DIR/pipe"])),
        ("schema-bad", run(&["--init", "DIR/bad.sql"])),
        ("database-folder", run(&["--into", "sqlite:DIR/folder"])),
        ("database-in-missing-folder", run(&["--into", "sqlite:DIR/none/shop.db"])),
        ("database-is-no-database", run(&["--into", "sqlite:DIR/orders.jsonl"])),
        ("dead-without-list", args(&["dead"])),
        ("list-limit-zero", args(&["dead", "list", "--into", "sqlite:DIR/shop.db", "--limit", "0"])),
        (
            "list-unknown-output",
            args(&["conflicts", "list", "--into", "sqlite:DIR/shop.db", "--output", "xml"]),
        ),
        ("list-missing-database", args(&["dead", "list", "--into", "sqlite:DIR/none.db"])),
        ("stats-no-tables", args(&["stats", "--into", "sqlite:DIR/other.db"])),
        ("stats-no-database", args(&["stats", "--into", "sqlite:DIR/orders.jsonl"])),
        ("show-without-number", args(&["dead", "show", "--into", "sqlite:DIR/shop.db"])),
        (
            "checkpoint-without-group",
            args(&["checkpoint", "reset", "--from", "file:a", "--into", "sqlite:b"]),
        ),
    ]
}

fn cases_of_postgres() -> Vec<(&'static str, Vec<String>)> {
    vec![
        ("unknown-parameter", run_pg(&["--into", "SERVER/DATABASE?sslmode=disable&colour=red"])),
        ("no-server", run_pg(&["--into", "postgres:bob:s3cret@db/shop"])),
        ("slash-in-password", run_pg(&["--into", "postgres://bob:1/s3cret@db/shop"])),
        ("hash-in-password", run_pg(&["--into", "postgres://bob:1#s3cret@db/shop"])),
        ("bad-port", run_pg(&["--into", "postgres://bob:s3cret@db:port/shop"])),
        ("unreachable", run_pg(&["--into", "postgres://bob:s3cret@127.0.0.1:1/shop"])),
        ("no-such-database", run_pg(&["--into", "SERVER/none"])),
        ("no-such-user", run_pg(&["--into", "NOBODY/DATABASE"])),
        ("sql-positional-parameter", run_pg(&["--sql", "INSERT INTO invoices VALUES ($1, :amount)"])),
        ("sql-question-mark", run_pg(&["--sql", "INSERT INTO invoices VALUES (?, :amount)"])),
        ("sql-misnamed-parameter", run_pg(&["--sql", "INSERT INTO invoices VALUES (:é, :amount)"])),
        ("sql-syntax", run_pg(&["--sql", "INSRT INTO invoices VALUES (:order_id)"])),
        ("sql-no-such-table", run_pg(&["--sql", "INSERT INTO bills VALUES (:order_id)"])),
        (
            "sql-second-is-bad",
            run_pg(&["--sql", "DELETE FROM invoices", "--sql", "DELETE FROM invoices WHERE id = :id"]),
        ),
        ("sql-two-statements", run_pg(&["--sql", "DELETE FROM invoices; DELETE FROM invoices"])),
        ("sql-empty", run_pg(&["--sql", " ; "])),
        ("sql-commit", run_pg(&["--sql", "COMMIT"])),
        ("sql-savepoint", run_pg(&["--sql", "savepoint s"])),
        ("sql-set", run_pg(&["--sql", "SET synchronous_commit = off"])),
        ("sql-vacuum", run_pg(&["--sql", "/* a */ VACUUM"])),
        ("sql-copy", run_pg(&["--sql", "COPY invoices FROM STDIN"])),
        ("sql-own-table", run_pg(&["--sql", "DELETE FROM inbox_claims WHERE scope = :scope"])),
        (
            "sql-own-table-inside",
            run_pg(&["--sql", "WITH gone AS (DELETE FROM inbox_letters RETURNING 1) SELECT * FROM gone"]),
        ),
        ("sql-own-table-truncated", run_pg(&["--sql", "TRUNCATE inbox_claims"])),
        ("sql-untyped-parameter", run_pg(&["--sql", "SELECT 1 WHERE :order_id IS NULL"])),
        (
            "sql-parameter-of-two-types",
            run_pg(&["--sql", "SELECT 1 FROM invoices WHERE order_id = :a AND :a = now()"]),
        ),
        ("sql-operator", run_pg(&["--sql", "SELECT 1 FROM invoices WHERE order_id = CAST(:a AS text)"])),
        ("sql-unsupported-type", run_pg(&["--sql", "SELECT CAST(:address AS inet)"])),
        (
            "sql-no-constraint",
            run_pg(&["--sql", "INSERT INTO invoices VALUES (:a, 1) ON CONFLICT (order_id) DO NOTHING"]),
        ),
        ("param-unused", run_pg(&["--param", "total=/total"])),
        ("init-bad", run_pg(&["--init", "DIR/bad.sql"])),
        ("init-commit", run_pg(&["--init", "DIR/commit.sql"])),
        ("init-exists", run_pg(&["--init", "DIR/twice.sql"])),
        ("stats-no-tables", args(&["stats", "--into", "SERVER/DATABASE"])),
        ("list-no-database", args(&["dead", "list", "--into", "SERVER/none"])),
    ]
}

#[test]
fn wrong_invocations_are_told_in_one_line() {
    check("golden", cases(), |name, args| {
        let folder = fixtures();
        let dir = folder.path().to_str().unwrap();
        let output = inbox(name, args.iter().map(|arg| arg.replace(DIR, dir)));
        output.replace(dir, DIR)
    });
}

#[cfg(feature = "postgres")]
#[test]
fn wrong_invocations_with_postgres_are_told_in_one_line_without_secrets() {
    let shared = PostgresServer::shared().database();
    check("golden-postgres", cases_of_postgres(), |name, args| {
        // Those of the SQL find the same tables; the others need a database that nobody has been in.
        let own = (!name.starts_with("sql-")).then(|| PostgresServer::shared().database());
        let (folder, database) = (fixtures(), own.as_ref().unwrap_or(&shared));
        let dir = folder.path().to_str().unwrap();
        let server = server_of(database);
        let output = inbox(
            name,
            args.iter().map(|arg| {
                let arg =
                    arg.replace(DIR, dir).replace("NOBODY", &format!("postgres://nobody:{SECRET}@{server}"));
                arg.replace(SERVER, &format!("postgres://postgres:{SECRET}@{server}"))
                    .replace(DATABASE, database.name())
            }),
        );
        assert!(!output.contains(SECRET), "{name}: {output}");
        output.replace(dir, DIR).replace(&server, SERVER).replace(database.name(), DATABASE)
    });
}

/// Host and port.
fn server_of(database: &TestDatabase) -> String {
    let place = database.url().split(['@', '/']).nth(3);
    place.unwrap_or_else(|| panic!("{} has no user", database.url())).to_owned()
}

/// Compares what is told in each case with its file in a folder; no file may be left over.
fn check(folder: &str, cases: Vec<(&str, Vec<String>)>, tell: impl Fn(&str, &[String]) -> String) {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(folder);
    let mut wrong = Vec::new();
    for (name, args) in &cases {
        wrong.extend(differs(&golden.join(name).with_extension("txt"), &tell(name, args)));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for entry in fs::read_dir(golden).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        assert!(cases.iter().any(|(case, _)| *case == name), "{} belongs to no case", path.display());
    }
}

fn differs(path: &PathBuf, told: &str) -> Option<String> {
    if env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(path, told).unwrap();
        return None;
    }
    let expected = fs::read_to_string(path).unwrap_or_default();
    (expected != told).then(|| format!("{}\nexpected: {expected}\nfound: {told}", path.display()))
}

fn fixtures() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    file("orders.jsonl", "{\"id\":\"o-1\",\"order_id\":1,\"amount\":100}\n");
    file("schema.sql", "CREATE TABLE invoices (order_id BIGINT NOT NULL, amount BIGINT NOT NULL);");
    file("bad.sql", "CREATE TABLE invoices (order_id BIGINT);\nCREATE TABEL other (a);");
    file("commit.sql", "CREATE TABLE invoices (order_id BIGINT);\nCOMMIT;");
    file("twice.sql", "CREATE TABLE invoices (order_id BIGINT);\nCREATE TABLE invoices (order_id BIGINT);");
    #[cfg(unix)]
    assert!(Command::new("mkfifo").arg(folder.path().join("pipe")).status().unwrap().success());
    // An empty file is an empty database.
    file("other.db", "");
    fs::create_dir(folder.path().join("folder")).unwrap();
    folder
}

/// The exit code and the one line on stderr.
fn inbox(name: &str, args: impl Iterator<Item = String>) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_inbox"));
    let output = command.args(args).env_remove("RUST_BACKTRACE").output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(stderr.lines().count(), 1, "{name}: {stderr}");
    assert!(output.stdout.is_empty(), "{name} wrote to stdout");
    format!("exit {}\n{stderr}", output.status.code().unwrap())
}
