//! What only a run into PostgreSQL does: values by the types of the server, its privileges, its connections.
#![cfg(feature = "postgres")]
// Helpers outside of test functions unwrap too.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Kind, Place, SECRET, Shop, counts, told};
use std::fs;

/// A shop whose schema is this.
fn shop(schema: &str, lines: &str) -> Shop {
    let shop = Shop::new(Kind::Postgres, lines.as_bytes());
    fs::write(shop.path("schema.sql"), schema).unwrap();
    shop
}

/// Runs the SQL for each line, which has to end well, and gives the counts.
fn run(shop: &Shop, more: &[&str]) -> String {
    let output = shop.run(more).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    counts(&output)
}

#[test]
fn values_get_the_types_of_their_columns() {
    let schema = "
        CREATE TYPE mood AS ENUM ('sad', 'ok');
        CREATE DOMAIN cents AS numeric(12, 2) NOT NULL CHECK (VALUE >= 0);
        CREATE TABLE t (small smallint, big bigint, price cents, exact numeric, ratio double precision, is_new boolean,
            name varchar(9), day date, at timestamptz, local timestamp, hour time, ref uuid, doc jsonb, raw bytea,
            mood mood, tags text[], counts integer[]);";
    let line = r#"{"id":1,"small":-7,"big":9223372036854775807,"price":"19.90","exact":123456789012345678901234567890.12345678901234567890,
        "ratio":0.1,"is_new":true,"name":"O'Brien","day":"2024-02-29","at":"2024-02-29T12:00:00.123456+02:00",
        "local":"2024-02-29 12:00:00","hour":"23:59","ref":"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11","doc":{"a":[1,null,"é"]},
        "raw":"text","mood":"ok","tags":["a",null,"b,c"],"counts":[]}"#;
    let shop = shop(schema, &line.replace('\n', " "));
    let insert = "INSERT INTO t VALUES (:small, :big, :price, :exact, :ratio, :is_new, :name, :day, :at, :local, :hour, \
                  :ref, :doc, :raw, :mood, :tags, :counts) RETURNING *";
    assert_eq!(run(&shop, &["--sql", insert]), told(1, 1, 0, 0, 0, 0));
    let row = shop.place.query("SET TimeZone = 'UTC'; SELECT * FROM t");
    let expected = "-7|9223372036854775807|19.90|123456789012345678901234567890.12345678901234567890|0.1|t|O'Brien|\
                    2024-02-29|2024-02-29 10:00:00.123456+00|2024-02-29 12:00:00|23:59:00|\
                    a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11|{\"a\": [1, null, \"é\"]}|\\x74657874|ok|{a,NULL,\"b,c\"}|{}";
    assert_eq!(row, expected);
}

#[test]
fn a_value_that_cannot_become_its_type_makes_a_letter_and_the_rest_flows_on() {
    let schema =
        "CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE TABLE t (n integer, doc jsonb, at date, mood mood)";
    let lines = [
        r#"{"id":1,"n":1}"#,
        r#"{"id":2,"n":"seven"}"#,
        r#"{"id":3,"n":2147483648}"#,
        r#"{"id":4,"doc":"\u0000"}"#,
        r#"{"id":5,"at":20240101}"#,
        r#"{"id":6,"mood":"glad"}"#,
        r#"{"id":7,"doc":1e200000}"#,
        r#"{"id":8,"n":8.0,"doc":[],"at":"2024-01-01","mood":"sad"}"#,
        "",
    ];
    let shop = shop(schema, &lines.join("\n"));
    // What fits the type and not the server's own rules is an attempt that fails for good.
    let insert = "INSERT INTO t VALUES (:n, :doc, :at, :mood)";
    assert_eq!(run(&shop, &["--sql", insert]), told(8, 2, 0, 0, 6, 2));
    assert_eq!(shop.place.query("SELECT * FROM t ORDER BY n"), "1|||\n8|[]|2024-01-01|sad");
    let letters = shop.prints(&["dead", "list", "--output", "json"]);
    for (id, error) in [
        ("2", "undecodable: the value of :n: a string cannot become integer: it is no number"),
        ("3", "undecodable: the value of :n: a number cannot become integer: it is beyond the range"),
        (
            "4",
            "undecodable: the value of :doc: a string cannot become jsonb: a string in it has a NUL (\\\\u0000)",
        ),
        ("5", "undecodable: the value of :at: a number cannot become date"),
        ("6", "--sql 1: invalid input value for enum mood: \\\"glad\\\" (22P02)"),
        ("7", "--sql 1: "),
    ] {
        let letter = letters.lines().find(|letter| letter.contains(&format!("\"id\":\"{id}\"")));
        assert!(letter.is_some_and(|letter| letter.contains(error)), "{id}: {letters}");
    }
}

#[test]
fn a_parameter_has_one_type_in_a_statement_and_may_have_another_in_the_next() {
    let schema = "CREATE TABLE a (n bigint); CREATE TABLE b (t text, at timestamptz)";
    let shop = shop(schema, "{\"id\":1,\"n\":1.0}\n{\"id\":2,\"n\":\"2\"}\n{\"id\":3}\n");
    let args = [
        "--sql",
        "INSERT INTO a SELECT $n::bigint WHERE @n > 0 OR :n IS NULL -- :nothing",
        "--sql",
        "INSERT INTO b VALUES (:n || ':n', :at)",
        "--param",
        "at=message:timestamp",
    ];
    assert_eq!(run(&shop, &args), told(3, 3, 0, 0, 0, 0));
    assert_eq!(shop.place.query("SELECT n FROM a ORDER BY n"), "1\n2");
    assert_eq!(shop.place.query("SELECT t FROM b ORDER BY t NULLS FIRST"), "\n1.0:n\n2:n");
}

#[test]
fn statements_without_a_plan_run_too() {
    let schema = "CREATE TABLE t (n bigint); CREATE TABLE seen (at timestamptz NOT NULL);
                  CREATE PROCEDURE add(n bigint) LANGUAGE sql AS 'INSERT INTO t VALUES (n)'";
    let shop = shop(schema, "{\"id\":1,\"n\":1}\n{\"id\":2,\"n\":2}\n");
    let args = [
        "--sql",
        "LOCK TABLE t IN EXCLUSIVE MODE",
        "--sql",
        "CALL add(:n)",
        "--sql",
        "DO $$ BEGIN PERFORM ':n'; INSERT INTO seen VALUES (now()); END $$",
        "--sql",
        "NOTIFY orders;",
        "--sql",
        "/* rows */ (TABLE t)",
    ];
    assert_eq!(run(&shop, &args), told(2, 2, 0, 0, 0, 0));
    assert_eq!(shop.place.query("SELECT sum(n), (SELECT count(*) FROM seen) FROM t"), "3|2");
}

#[test]
fn looking_makes_no_tables() {
    let shop = shop("", "");
    let source = ["--from", "file:orders.jsonl", "--group", "billing"];
    for command in [
        vec!["dead", "list"],
        vec!["dead", "show", "1"],
        vec!["conflicts", "list"],
        vec!["stats"],
        [&["checkpoint", "show"][..], &source].concat(),
        [&["checkpoint", "reset"][..], &source].concat(),
    ] {
        let output = shop.inbox_into(&command).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{command:?}: {output:?}");
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(stderr.contains("has no inbox tables: run `inbox run`"), "{stderr}");
    }
    assert_eq!(shop.place.query("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"), "0");
}

#[test]
fn nothing_tells_the_password() {
    let schema = "CREATE TABLE t (n bigint NOT NULL)";
    let shop = shop(schema, "{\"id\":1,\"n\":1}\n{\"id\":2}\n");
    assert!(shop.place.url().contains(SECRET));
    let url = format!("{}?application_name=cli&sslpassword={SECRET}", shop.place.url());
    let mut outputs = vec![
        shop.run(&["--sql", "INSERT INTO t VALUES (:n)", "--log", "trace"]).output().unwrap(),
        shop.run(&["--sql", "INSERT INTO nothing VALUES (:n)", "--log", "trace"]).output().unwrap(),
        shop.inbox(&["stats", "--into", &url]).output().unwrap(),
        shop.inbox(&["stats", "--into", &shop.place.url().replace("postgres:", "postgras:")])
            .output()
            .unwrap(),
    ];
    assert_eq!(outputs[0].status.code(), Some(0), "{outputs:?}");
    assert!(outputs[1..].iter().all(|output| output.status.code() == Some(2)), "{outputs:?}");
    for command in [&["dead", "list"][..], &["dead", "show", "1"], &["stats"]] {
        outputs.push(shop.inbox_into(command).output().unwrap());
        assert_eq!(outputs.last().unwrap().status.code(), Some(0));
    }
    for output in &outputs {
        assert!(!format!("{output:?}").contains(SECRET), "{output:?}");
        for text in [&output.stdout, &output.stderr] {
            assert!(!String::from_utf8_lossy(text).contains(SECRET), "{output:?}");
        }
    }
}

#[test]
fn who_may_not_connect_has_called_it_wrongly() {
    let shop = shop("", "");
    let Place::Postgres(database) = &shop.place else { panic!("not PostgreSQL") };
    let (_, place) = database.url().split_once('@').unwrap();
    let url = format!("postgres://inbox_nobody:{SECRET}@{place}");
    let output = shop.inbox(&["stats", "--into", &url]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.ends_with("; check user and password\n") && !stderr.contains(SECRET), "{stderr}");
}

/// Otherwise every message would become a letter.
#[test]
fn missing_privileges_are_told_at_the_start() {
    let shop = shop("CREATE TABLE t (n bigint)", "{\"id\":1,\"n\":1}\n");
    run(&shop, &["--sql", "SELECT 1"]);
    let Place::Postgres(database) = &shop.place else { panic!("not PostgreSQL") };
    let role = format!("{}_role", database.name());
    database.query(&format!(
        "CREATE ROLE {role} LOGIN; GRANT ALL ON ALL TABLES IN SCHEMA public TO {role}; REVOKE ALL ON t FROM {role}"
    ));
    let url = database.url().replace("postgres@", &format!("{role}@"));
    let source = ["run", "--from", "file:orders.jsonl", "--group", "other", "--into", &url];
    let output =
        shop.inbox(&[&source[..], &["--sql", "INSERT INTO t VALUES (:n)"]].concat()).output().unwrap();
    database.query(&format!("DROP OWNED BY {role}; DROP ROLE {role}"));
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(stderr, "inbox: --sql 1: permission denied for table t\n");
}

#[test]
fn there_are_no_more_connections_than_lanes_and_two() {
    let lines: String = (0..400).map(|n| format!("{{\"id\":{n}}}\n")).collect();
    let shop = shop("CREATE TABLE seen (connections bigint)", &lines);
    let look = "INSERT INTO seen SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()";
    assert_eq!(run(&shop, &["--sql", look, "--batch", "5", "--lanes", "4"]), told(400, 400, 0, 0, 0, 0));
    // The one that makes the row of the group is beside them, once.
    let most: i64 = shop.place.query("SELECT max(connections) FROM seen").parse().unwrap();
    assert!((1..=7).contains(&most), "{most}");
}

/// Whether or not this program can do TLS: the server of the tests cannot.
#[test]
fn tls_is_insisted_on() {
    let shop = shop("", "");
    let url = format!("{}?sslmode=require", shop.place.url());
    let output = shop.inbox(&["stats", "--into", &url]).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    if cfg!(feature = "tls") {
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains("server does not support TLS"), "{stderr}");
    } else {
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        let told = "sslmode=require needs TLS, which this program was built without: build it with the cargo feature tls";
        assert!(stderr.contains(told), "{stderr}");
    }
}
