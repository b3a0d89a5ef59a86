//! Wrong invocations with a PostgreSQL database: what is said about them, never with a password.
#![cfg(feature = "postgres")]
// Helpers outside of test functions unwrap too.
#![allow(clippy::unwrap_used)]

mod common;

use common::{
    SECRET,
    golden::{DIR, args, check, fixtures, inbox, run},
    with_secret,
};
use inbox_testkit::servers::PostgresServer;

/// Stands for the server of the tests, with user and password in arguments and without them in golden files.
const SERVER: &str = "SERVER";
/// Stands for the name of a case's database.
const DATABASE: &str = "DATABASE";

/// A run into PostgreSQL.
fn run_pg(more: &[&str]) -> Vec<String> {
    if more.contains(&"--into") { run(more) } else { run(&[&["--into", "SERVER/DATABASE"], more].concat()) }
}

fn cases() -> Vec<(&'static str, Vec<String>)> {
    vec![
        ("unknown-parameter", run_pg(&["--into", "SERVER/DATABASE?sslmode=disable&colour=red"])),
        ("no-server", run_pg(&["--into", "postgres:bob:s3cret@db/shop"])),
        ("slash-in-password", run_pg(&["--into", "postgres://bob:1/s3cret@db/shop"])),
        ("hash-in-password", run_pg(&["--into", "postgres://bob:1#s3cret@db/shop"])),
        ("bad-port", run_pg(&["--into", "postgres://bob:s3cret@db:port/shop"])),
        ("unreachable", run_pg(&["--into", "postgres://bob:s3cret@127.0.0.1:1/shop"])),
        ("no-such-database", run_pg(&["--into", "SERVER/none"])),
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
fn wrong_invocations_are_told_in_one_line_without_secrets() {
    let shared = PostgresServer::shared().database();
    check("golden-postgres", cases(), |name, args| {
        // Those of the SQL find the same tables; the others need a database that nobody has been in.
        let own = (!name.starts_with("sql-")).then(|| PostgresServer::shared().database());
        let (folder, database) = (fixtures(), own.as_ref().unwrap_or(&shared));
        let dir = folder.path().to_str().unwrap();
        let url = with_secret(database.url());
        let (server, _) = url.rsplit_once('/').unwrap();
        let fill =
            |arg: &String| arg.replace(DIR, dir).replace(SERVER, server).replace(DATABASE, database.name());
        let told = inbox(name, args.iter().map(fill));
        assert!(!told.contains(SECRET), "{name}: {told}");
        // With user, and without.
        let shown = server.replace(SECRET, "***");
        let (_, place) = server.split_once('@').unwrap();
        let told = told.replace(&shown, SERVER).replace(place, SERVER);
        told.replace(dir, DIR).replace(database.name(), DATABASE)
    });
}
