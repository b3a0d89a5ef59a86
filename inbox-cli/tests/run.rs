//! Whole runs of the command: what they do, what they print and how they exit.

// Helpers outside of test functions unwrap too.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Kind, Shop, counts, told};
use rusqlite::Connection;
use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _},
    path::Path,
    process::Stdio,
};

const INSERT: &str =
    "INSERT INTO invoices (order_id, customer, amount) VALUES (:order_id, :customer, :amount)";

/// The same tests on each kind of database.
macro_rules! on_each {
    ($($test:ident)*) => {
        mod sqlite {
            use super::*;
            $(#[test] fn $test() { super::$test(Kind::Sqlite); })*
        }
        #[cfg(feature = "postgres")]
        mod postgres {
            use super::*;
            $(#[test] fn $test() { super::$test(Kind::Postgres); })*
        }
    };
}

on_each! {
    a_file_with_everything_in_it_comes_out_right_however_it_is_batched
    several_statements_are_one_transaction
    halting_is_exit_code_1_with_a_report
    a_statement_that_takes_too_long_is_told_as_that
    a_file_that_was_cut_off_behind_its_checkpoint_is_refused
    a_reader_that_has_gone_away_is_no_failure
}

fn orders(count: usize) -> Vec<u8> {
    let line = |n| format!("{{\"id\":\"o-{n}\",\"order_id\":{n},\"amount\":1}}\n");
    (0..count).map(line).collect::<String>().into_bytes()
}

fn hand_made() -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/orders.jsonl")).unwrap()
}

fn a_file_with_everything_in_it_comes_out_right_however_it_is_batched(kind: Kind) {
    let missing = match kind {
        Kind::Sqlite => "NOT NULL constraint failed: invoices.amount",
        Kind::Postgres => {
            r#"null value in column \"amount\" of relation \"invoices\" violates not-null constraint (23502)"#
        }
    };
    for more in [&[][..], &["--batch", "1"], &["--batch", "7", "--lanes", "3"], &["--key", "/customer"]] {
        let shop = Shop::new(kind, &hand_made());
        let args = [&["--sql", INSERT], more].concat();
        let first = shop.run(&args).output().unwrap();
        assert_eq!(first.status.code(), Some(0), "{first:?}");
        assert_eq!(counts(&first), told(36, 24, 3, 1, 8, 1), "{more:?}");
        let sum = (24, 9_007_199_254_770_593);
        assert_eq!(shop.invoices(), sum);
        let special = shop.place.query("SELECT customer FROM invoices WHERE order_id = 29");
        assert_eq!(special, "O'Brien \"the\" 🦀; DROP TABLE invoices;--");

        let again = shop.run(&args).output().unwrap();
        assert_eq!(counts(&again), told(0, 0, 0, 0, 0, 0));

        let source = ["--from", "file:./orders.jsonl", "--group", "billing"];
        let position = shop.prints(&[&["checkpoint", "show", "--output", "json"][..], &source].concat());
        assert!(position.contains("\"partition\":0,\"next\":2576,"), "{position}");
        shop.prints(&[&["checkpoint", "reset"][..], &source].concat());
        let from_start = shop.run(&args).output().unwrap();
        assert_eq!(counts(&from_start), told(36, 0, 27, 1, 8, 0));
        assert_eq!(shop.invoices(), sum);

        let dead = shop.prints(&["dead", "list", "--output", "json"]);
        assert_eq!(dead.lines().count(), 8, "{dead}");
        assert!(dead.contains(missing), "{dead}");
        let conflicts = shop.prints(&["conflicts", "list", "--output", "json"]);
        assert_eq!(conflicts.lines().count(), 1, "{conflicts}");
        assert!(conflicts.contains("\\\"amount\\\": 999"), "{conflicts}");
        let stats = shop.prints(&["stats", "--output", "json"]);
        let expected =
            "{\"group\":\"billing\",\"applied\":24,\"dead\":8,\"parked\":0,\"stored\":0,\"conflicts\":1}\n";
        assert_eq!(stats, expected);
    }
}

#[test]
fn help_tells_what_halting_does_and_where_whole_payloads_are() {
    let shop = Shop::new(Kind::Sqlite, b"");
    let words = |args: &[&str]| {
        let output = shop.inbox(args).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let run = words(&["run", "--help"]);
    assert!(run.contains("also at a line that would become a letter for any other reason"), "{run}");
    assert!(run.contains("rolled back, and read again by the next run"), "{run}");
    assert!(run.contains("give such a column the type TEXT"), "{run}");
    let conflicts = words(&["conflicts", "list", "--help"]);
    assert!(conflicts.contains("`--output json` shows whole payloads"), "{conflicts}");
}

#[test]
fn looking_does_not_make_tables() {
    let shop = Shop::new(Kind::Sqlite, &orders(1));
    let file = shop.path("mine.db");
    Connection::open(&file).unwrap().execute_batch("CREATE TABLE mine (a)").unwrap();
    let before = fs::read(&file).unwrap();
    let source = ["--from", "file:orders.jsonl", "--group", "billing"];
    for command in [
        vec!["dead", "list"],
        vec!["dead", "show", "1"],
        vec!["conflicts", "list"],
        vec!["stats"],
        [&["checkpoint", "show"][..], &source].concat(),
        [&["checkpoint", "reset"][..], &source].concat(),
    ] {
        let output = shop.inbox(&[&command[..], &["--into", "sqlite:mine.db"]].concat()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{command:?}: {output:?}");
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(stderr.contains("sqlite:mine.db has no inbox tables: run `inbox run"), "{stderr}");
        assert_eq!(fs::read(&file).unwrap(), before, "{command:?}");
    }
}

fn several_statements_are_one_transaction(kind: Kind) {
    let lines = b"{\"id\":1,\"order_id\":1,\"amount\":5}\n{\"id\":2,\"order_id\":2}\n";
    let shop = Shop::new(kind, lines);
    // The second statement fails for the second message: its first one must not stay.
    let args = ["--sql", "INSERT INTO invoices VALUES (:order_id, 'first', 0)", "--sql", INSERT];
    let output = shop.run(&args).output().unwrap();
    assert_eq!(counts(&output), told(2, 1, 0, 0, 1, 1), "{output:?}");
    assert_eq!(shop.invoices(), (2, 5));
    let letter = shop.prints(&["dead", "show", "1"]);
    let error = match kind {
        Kind::Sqlite => "error: --sql 2: NOT NULL constraint failed: invoices.amount",
        Kind::Postgres => "error: --sql 2: null value in column \"amount\" of relation",
    };
    assert!(letter.contains(error), "{letter}");
    assert!(letter.ends_with("payload: {\"id\":2,\"order_id\":2}\n"), "{letter}");
    let none = shop.inbox_into(&["dead", "show", "2"]).output().unwrap();
    assert_eq!(none.status.code(), Some(2));
}

fn halting_is_exit_code_1_with_a_report(kind: Kind) {
    let shop = Shop::new(kind, b"{\"id\":1,\"order_id\":1,\"amount\":5}\n{\"id\":2,\"order_id\":2}\n");
    let args = ["--sql", INSERT, "--on-failure", "halt", "--batch", "1", "--quiet"];
    let output = shop.run(&args).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(counts(&output).contains("\"applied\":1,"), "{output:?}");
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.lines().last().unwrap().starts_with("inbox: message 2 failed 1 time(s)"), "{stderr}");
    assert_eq!(shop.invoices(), (1, 5));
}

fn a_statement_that_takes_too_long_is_told_as_that(kind: Kind) {
    let shop = Shop::new(kind, &orders(1));
    let endless = match kind {
        Kind::Sqlite => {
            "INSERT INTO invoices WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) \
             SELECT max(i), NULL, :amount FROM n"
        }
        Kind::Postgres => "INSERT INTO invoices SELECT 1, pg_sleep(3600)::text, :amount",
    };
    let args = ["--sql", endless, "--handler-timeout", "1", "--attempts", "1"];
    let output = shop.run(&args).output().unwrap();
    assert_eq!(counts(&output), told(1, 0, 0, 0, 1, 1), "{output:?}");
    let letter = shop.prints(&["dead", "show", "1"]);
    let error = "error: --sql 1: stopped: the SQL of the message ran longer than --handler-timeout (1 s)\n";
    assert!(letter.contains(error), "{letter}");
}

fn a_file_that_was_cut_off_behind_its_checkpoint_is_refused(kind: Kind) {
    let shop = Shop::new(kind, &orders(10));
    shop.run(&["--sql", INSERT]).output().unwrap();
    fs::write(shop.path("orders.jsonl"), orders(3)).unwrap();
    let output = shop.run(&["--sql", INSERT, "--quiet"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("was truncated") && stderr.contains("inbox checkpoint reset"), "{stderr}");
    assert_eq!(shop.invoices(), (10, 10));
}

fn a_reader_that_has_gone_away_is_no_failure(kind: Kind) {
    let shop = Shop::new(kind, &orders(3));
    for args in [&["--sql", INSERT][..], &["--sql", INSERT, "--log", "trace"]] {
        let mut run = shop.run(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop((run.stdout.take(), run.stderr.take()));
        assert_eq!(run.wait().unwrap().code(), Some(0));
    }
    assert_eq!(shop.invoices(), (3, 3));
}

#[cfg(unix)]
mod signals {
    use super::*;
    use rustix::process::{Pid, Signal, kill_process};

    #[test]
    fn drain_a_run_into_sqlite() {
        a_signal_drains_and_the_next_run_goes_on(Kind::Sqlite, 50_000);
    }

    #[cfg(feature = "postgres")]
    #[test]
    fn drain_a_run_into_postgres() {
        a_signal_drains_and_the_next_run_goes_on(Kind::Postgres, 10_000);
    }

    /// One transaction each: far more than can be done before the signal comes.
    fn a_signal_drains_and_the_next_run_goes_on(kind: Kind, messages: i64) {
        for (signal, exit) in [(Signal::TERM, 143), (Signal::INT, 130)] {
            let shop = Shop::new(kind, &orders(messages.try_into().unwrap()));
            let mut run = shop.run(&["--sql", INSERT, "--batch", "1"]);
            let mut run = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            let mut stderr = BufReader::new(run.stderr.take().unwrap());
            let mut line = String::new();
            // The first line is written once signals are listened for.
            stderr.read_line(&mut line).unwrap();
            let begins = format!("reading file:orders.jsonl into {} for group billing", shop.place.shown());
            assert!(line.contains(&begins), "{line}");
            kill_process(Pid::from_raw(run.id().try_into().unwrap()).unwrap(), signal).unwrap();
            stderr.read_to_string(&mut line).unwrap();
            let stopped = run.wait_with_output().unwrap();
            assert_eq!(stopped.status.code(), Some(exit), "{line}");
            assert!(line.contains("inbox: finishing what has begun"), "{line}");
            counts(&stopped);

            assert!(shop.invoices().0 < messages);
            let rest = shop.run(&["--sql", INSERT, "--batch", "10000"]).output().unwrap();
            assert_eq!(rest.status.code(), Some(0), "{rest:?}");
            assert_eq!(shop.invoices(), (messages, messages));
        }
    }
}
