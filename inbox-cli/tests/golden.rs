//! Wrong invocations and bad inputs: what is said about them, and with which exit code.
//!
//! `UPDATE_GOLDEN=1 cargo test -p inbox-cli --test golden` writes the files anew; look at the difference.

// Helpers outside of test functions unwrap too.
#![allow(clippy::unwrap_used)]

mod common;

use common::golden::{DIR, args, check, fixtures, inbox, run, without};

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

#[test]
fn wrong_invocations_are_told_in_one_line() {
    check("golden", cases(), |name, args| {
        let folder = fixtures();
        let dir = folder.path().to_str().unwrap();
        let output = inbox(name, args.iter().map(|arg| arg.replace(DIR, dir)));
        output.replace(dir, DIR)
    });
}
