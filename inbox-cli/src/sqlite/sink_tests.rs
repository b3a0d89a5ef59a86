use super::*;
use bytes::Bytes;
use inbox_core::{ClaimKey, Fingerprint, Inbound, MessageId, Partition, Scope, Source};
use proptest::prelude::*;

fn database() -> Connection {
    let connection = Connection::open_in_memory().unwrap();
    connection.execute_batch("CREATE TABLE t (a, b TEXT NOT NULL); CREATE TABLE u (a);").unwrap();
    connection
}

fn sink(connection: &mut Connection, sql: &[&str], params: &[&str]) -> Result<SqliteSink, String> {
    let sql: Vec<_> = sql.iter().map(|sql| (*sql).to_owned()).collect();
    let params: Vec<_> = params.iter().map(|text| text.parse().unwrap()).collect();
    SqliteSink::prepare(connection, &sql, &params, 30).map_err(|error| error.to_string())
}

fn run(connection: &Connection, sink: &SqliteSink, payload: &str) -> Result<(), StatementFailed> {
    let partition = Partition { source: Source::new("test"), number: 0 };
    let inbound = Inbound::new(partition, Some(Bytes::copy_from_slice(payload.as_bytes())));
    let claim = ClaimKey { scope: Scope::default(), id: MessageId::new("m").unwrap() };
    let message = Message::new(claim, Fingerprint::of_payload(Some(payload.as_bytes())), inbound);
    let values = sink.values(&message, &Group::new("g").unwrap()).unwrap();
    sink.run(connection, &values)
}

fn read(connection: &Connection, sql: &str) -> Vec<String> {
    let mut statement = connection.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

#[test]
fn values_are_bound_whatever_they_hold() {
    let mut connection = database();
    let sql = ["INSERT INTO t VALUES (:a, :b) RETURNING a;  -- one", "INSERT INTO u VALUES ($b), (@a), (:b)"];
    let sink = sink(&mut connection, &sql, &["b=/who/name"]).unwrap();
    let name = r"O'Brien 🦀; DROP TABLE t;--";
    run(&connection, &sink, &format!(r#"{{"a":9007199254740993,"who":{{"name":"{name}"}}}}"#)).unwrap();
    run(&connection, &sink, r#"{"a":1.5,"who":{"name":"?1 :a"}}"#).unwrap();
    let rows = read(&connection, "SELECT typeof(a) || ' ' || a || ' ' || b FROM t");
    assert_eq!(rows, [format!("integer 9007199254740993 {name}"), "real 1.5 ?1 :a".to_owned()]);
    let rows = read(&connection, "SELECT CAST(a AS TEXT) FROM u LIMIT 3");
    assert_eq!(rows, [name, "9007199254740993", name]);
}

#[test]
fn a_failure_names_the_statement_and_keeps_the_drivers_error() {
    let mut connection = database();
    let sink =
        sink(&mut connection, &["INSERT INTO u VALUES (:a)", "INSERT INTO t VALUES (1, :b)"], &[]).unwrap();
    let error = run(&connection, &sink, r#"{"a":1}"#).unwrap_err();
    assert_eq!(error.to_string(), "--sql 2");
    let cause = std::error::Error::source(&error).unwrap();
    assert!(cause.is::<rusqlite::Error>());
    assert_eq!(cause.to_string(), "NOT NULL constraint failed: t.b");
}

#[test]
fn the_tables_of_inbox_can_be_read_and_not_changed() {
    let mut connection = database();
    connection
        .execute_batch(
            "CREATE TABLE inbox_claims (id); CREATE INDEX i ON inbox_claims (id);
             CREATE TRIGGER tr AFTER INSERT ON u BEGIN DELETE FROM inbox_claims; END;",
        )
        .unwrap();
    for sql in [
        "DELETE FROM inbox_claims",
        "UPDATE Inbox_Claims SET id = :id",
        "INSERT INTO main.inbox_claims VALUES (:id)",
        "WITH w AS (SELECT 1) REPLACE INTO inbox_claims SELECT * FROM w",
        "DROP TABLE inbox_claims",
        "DROP INDEX i",
        "ALTER TABLE inbox_claims RENAME TO mine",
        "ALTER TABLE inbox_claims ADD COLUMN b",
        "CREATE TRIGGER x BEFORE INSERT ON inbox_claims BEGIN SELECT 1; END",
        "INSERT INTO u VALUES (:id)",
    ] {
        let refused = sink(&mut connection, &[sql], &[]).unwrap_err();
        assert_eq!(
            refused,
            "--sql 1: it changes inbox_claims: tables whose names begin with inbox_ are inbox's own and can \
             only be read",
            "{sql}"
        );
    }
    sink(&mut connection, &["INSERT INTO t SELECT id, 'x' FROM inbox_claims"], &[]).unwrap();
}

#[test]
fn vacuum_and_extensions_are_refused() {
    let mut connection = database();
    for sql in ["VACUUM", "-- a\n /* b */ ;vacuum main", "VACUUM INTO 'DIR/copy.db'"] {
        let refused = sink(&mut connection, &[sql], &[]).unwrap_err();
        assert!(refused.starts_with("--sql 1: VACUUM is not allowed: "), "{sql}: {refused}");
    }
    let refused = sink(&mut connection, &["SELECT LOAD_EXTENSION(:a)"], &[]).unwrap_err();
    assert!(refused.starts_with("--sql 1: ") && refused.contains("load_extension"), "{refused}");
}

#[test]
fn statements_that_cannot_work_are_refused() {
    let mut connection = database();
    for (sql, refused) in [
        (
            "INSERT INTO t VALUES (?, :b)",
            "--sql 1: the parameter ? has no name; write :name, the name of a payload field",
        ),
        (
            "INSERT INTO t VALUES (?2, :b)",
            "--sql 1: the parameter ? has no name; write :name, the name of a payload field",
        ),
        (
            "INSERT INTO t VALUES (?1, :b)",
            "--sql 1: the parameter ?1 has no name; write :name, the name of a payload field",
        ),
        (
            "INSERT INTO u VALUES (:n::int)",
            "--sql 1: the parameter :n::int is no name of letters, digits and _; for another type write \
             CAST(:n AS INTEGER)",
        ),
        (
            "INSERT INTO u VALUES (@1)",
            "--sql 1: the parameter @1 is no name of letters, digits and _; for another type write \
             CAST(:name AS INTEGER)",
        ),
        ("INSRT INTO t", "--sql 1: near \"INSRT\": syntax error"),
        ("INSERT INTO v VALUES (1)", "--sql 1: no such table: v"),
        ("", "--sql 1: it is empty; write one statement, such as INSERT"),
        (" -- nothing", "--sql 1: it is empty; write one statement, such as INSERT"),
        ("DELETE FROM t; DELETE FROM u", "--sql 1: it has more than one statement; give each its own --sql"),
        (
            "CREATE TABLE v (a); INSERT INTO v VALUES (1)",
            "--sql 1: it has more than one statement; give each its own --sql",
        ),
        (
            "COMMIT",
            "--sql 1: BEGIN, COMMIT or ROLLBACK is not allowed: inbox opens and commits the transaction itself",
        ),
        (
            "SAVEPOINT s",
            "--sql 1: SAVEPOINT or RELEASE is not allowed: inbox opens and commits the transaction itself",
        ),
        (
            "PRAGMA synchronous = OFF",
            "--sql 1: PRAGMA is not allowed: inbox opens and commits the transaction itself",
        ),
        (
            "ATTACH 'x' AS x",
            "--sql 1: ATTACH or DETACH is not allowed: inbox opens and commits the transaction itself",
        ),
    ] {
        assert_eq!(sink(&mut connection, &[sql], &[]).unwrap_err(), refused, "{sql}");
    }
    // The guard is gone afterwards.
    connection.execute_batch("BEGIN; COMMIT").unwrap();
}

proptest! {
    #[test]
    fn no_digit_is_lost_on_the_way_into_the_database(
        number in r"-?(0|[1-9][0-9]{0,24})(\.[0-9]{1,24})?"
    ) {
        let mut connection = database();
        let sink = sink(&mut connection, &["INSERT INTO u VALUES (:n)"], &[]).unwrap();
        run(&connection, &sink, &format!(r#"{{"n":{number}}}"#)).unwrap();
        // Not with SQLite's own text of a double, which has 15 digits.
        let stored = connection.query_row("SELECT a FROM u", [], |row| {
            use rusqlite::types::ValueRef;
            Ok(match row.get_ref(0)? {
                ValueRef::Integer(number) => number.to_string(),
                ValueRef::Real(number) => format!("{number:e}"),
                other => other.as_str()?.to_owned(),
            })
        }).unwrap();
        prop_assert!(crate::decimal::Decimal::same(&stored, &number), "{} became {}", number, stored);
    }
}
