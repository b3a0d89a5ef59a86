use super::*;
use crate::postgres::types::look_up;
use bytes::Bytes;
use inbox_postgres::sqlx::{
    AssertSqlSafe, Connection as _, Error, PgConnection, Row as _, query, query_scalar, raw_sql,
};
use inbox_testkit::servers::{PostgresServer, TestDatabase};
use proptest::{prelude::*, test_runner::TestRunner};
use std::{cell::RefCell, collections::HashMap};
use tokio::runtime::Runtime;

/// A connection to a server, and what it said of types.
struct Session {
    runtime: Runtime,
    connection: RefCell<PgConnection>,
    types: RefCell<HashMap<String, ParamType>>,
    _database: TestDatabase,
}

impl Session {
    fn new() -> Self {
        let database = PostgresServer::shared().database();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let connection = runtime.block_on(async {
            let mut connection = PgConnection::connect(database.url()).await.unwrap();
            let sql = "SET TimeZone = 'UTC'; CREATE TYPE mood AS ENUM ('sad', 'o''k');
                       CREATE DOMAIN positive AS integer CHECK (VALUE > 0); CREATE DOMAIN positives AS positive[];
                       CREATE DOMAIN present AS text NOT NULL; CREATE TYPE pair AS (a integer, b text)";
            raw_sql(sql).execute(&mut connection).await.unwrap();
            connection
        });
        Self { runtime, connection: connection.into(), types: RefCell::default(), _database: database }
    }

    /// The type of a parameter for a column of this type, as a statement would be told.
    fn type_of(&self, name: &str) -> ParamType {
        if let Some(known) = self.types.borrow().get(name) {
            return known.clone();
        }
        let connection = &mut *self.connection.borrow_mut();
        let found = self.runtime.block_on(async {
            let oid: i64 = query_scalar("SELECT $1::regtype::oid::bigint")
                .bind(name)
                .fetch_one(&mut *connection)
                .await
                .unwrap();
            look_up(connection, oid.try_into().unwrap()).await.unwrap().unwrap()
        });
        self.types.borrow_mut().insert(name.to_owned(), found.clone());
        found
    }

    /// What arrives of a value, as the server writes it.
    fn arrives(&self, type_name: &str, value: &Encoded) -> Result<Option<String>, Error> {
        let sql = format!("SELECT $1::{type_name}::text");
        let connection = &mut *self.connection.borrow_mut();
        self.runtime.block_on(async {
            let row = query(AssertSqlSafe(sql)).bind(value).fetch_one(connection).await?;
            row.try_get(0)
        })
    }

    /// What the server itself makes of a text.
    fn reads(&self, type_name: &str, text: &str) -> Result<String, Error> {
        let sql = format!("SELECT '{}'::{type_name}::text", text.replace('\'', "''"));
        let connection = &mut *self.connection.borrow_mut();
        self.runtime.block_on(async { raw_sql(AssertSqlSafe(sql)).fetch_one(connection).await?.try_get(0) })
    }

    fn sent(&self, type_name: &str, json: &str) -> Result<Option<String>, String> {
        let raw = serde_json::from_str::<&RawValue>(json).unwrap();
        let value = Encoded::new(&self.type_of(type_name), Found::Json(raw)).map_err(|e| e.to_string())?;
        Ok(self.arrives(type_name, &value).unwrap_or_else(|error| panic!("{type_name} {json}: {error}")))
    }
}

/// A JSON string.
fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

#[test]
fn edge_values_arrive_as_they_were_sent() {
    let session = Session::new();
    let nines = "9".repeat(100);
    // As many digits as the server takes in binary, and the largest number.
    let (longest, largest) = ("12".repeat(6_000), format!("9{}", "0".repeat(131_071)));
    for (type_name, json, arrives) in [
        ("bigint", "9223372036854775807", "9223372036854775807"),
        ("bigint", "-9223372036854775808", "-9223372036854775808"),
        ("bigint", "-922337203685477580.8e1", "-9223372036854775808"),
        ("bigint", "\"9007199254740993\"", "9007199254740993"),
        ("integer", "-2147483648", "-2147483648"),
        ("integer", "1e3", "1000"),
        ("integer", "-0.0", "0"),
        ("smallint", "32767", "32767"),
        ("numeric", &nines, &nines),
        ("numeric", &format!("-{nines}.{nines}"), &format!("-{nines}.{nines}")),
        ("numeric", &longest, &longest),
        ("numeric", "9e131071", &largest),
        ("numeric", &format!("1e-{}", 16_383), &format!("0.{}1", "0".repeat(16_382))),
        ("numeric", "-0.00", "0.00"),
        ("numeric", "1e-20", "0.00000000000000000001"),
        ("numeric", "12.50", "12.50"),
        ("numeric", "\"NaN\"", "NaN"),
        ("numeric(10,2)", "12.345", "12.35"),
        ("double precision", "-0.0", "-0"),
        ("double precision", "5e-324", "5e-324"),
        ("double precision", "1.7976931348623157e308", "1.7976931348623157e+308"),
        ("double precision", "0.1", "0.1"),
        ("double precision", "\"-Infinity\"", "-Infinity"),
        ("real", "\"NaN\"", "NaN"),
        ("real", "16777217.0000001", "1.6777218e+07"),
        ("boolean", "true", "true"),
        ("boolean", "\"f\"", "false"),
        ("text", "\"O'Brien 🦀 \\\\ \\n\"", "O'Brien 🦀 \\ \n"),
        ("text", "12.50", "12.50"),
        ("text", "false", "false"),
        ("text", "{\"a\": [1, 2.00]}", "{\"a\": [1, 2.00]}"),
        ("text", "\"\"", ""),
        ("varchar", "\"é\"", "é"),
        ("name", "\"n\"", "n"),
        ("mood", "\"o'k\"", "o'k"),
        ("positive", "7", "7"),
        ("present", "\"x\"", "x"),
        ("bytea", "\"\\\\x41é\"", "\\x5c783431c3a9"),
        ("date", "\"2024-02-29\"", "2024-02-29"),
        ("date", "\"1969-12-31\"", "1969-12-31"),
        ("date", "\"0044-03-15 BC\"", "0044-03-15 BC"),
        ("date", "\"infinity\"", "infinity"),
        ("time", "\"24:00\"", "24:00:00"),
        ("time", "\"23:59:59.999999\"", "23:59:59.999999"),
        ("timestamp", "\"2024-02-29T12:00:00Z\"", "2024-02-29 12:00:00"),
        ("timestamp", "\"2024-02-29\"", "2024-02-29 00:00:00"),
        ("timestamp", "\"1066-10-14 09:00:00.000001\"", "1066-10-14 09:00:00.000001"),
        ("timestamptz", "\"2024-02-29T12:00:00.123456+05:30\"", "2024-02-29 06:30:00.123456+00"),
        ("timestamptz", "\"2016-12-31t23:59:60z\"", "2017-01-01 00:00:00+00"),
        ("timestamptz", "\"2024-01-01 00:00:00.123456789-08\"", "2024-01-01 08:00:00.123457+00"),
        ("timestamptz", "\"4714-11-24 00:00:00+00 BC\"", "4714-11-24 00:00:00+00 BC"),
        ("timestamptz", "\"294276-12-31T23:59:59.999999Z\"", "294276-12-31 23:59:59.999999+00"),
        ("timestamptz", "\"-infinity\"", "-infinity"),
        ("uuid", "\"{A0EEBC99-9C0B4EF8bb6d6bb9-bd380a11}\"", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
        ("json", "{\"b\":1.0, \"a\":\"\\u0000\"}", "{\"b\":1.0, \"a\":\"\\u0000\"}"),
        ("jsonb", "{\"b\":1.50,\"a\":\"\\u00e9\"}", "{\"a\": \"é\", \"b\": 1.50}"),
        ("jsonb", "\"text\"", "\"text\""),
        ("jsonb", "1e400", &format!("1{}", "0".repeat(400))),
        ("integer[]", "[]", "{}"),
        ("integer[]", "[1,null,-3]", "{1,NULL,-3}"),
        ("text[]", "[\"a,b\",null,\"\",\"NULL\",1]", "{\"a,b\",NULL,\"\",\"NULL\",1}"),
        ("numeric[]", "[0.10,null]", "{0.10,NULL}"),
        ("jsonb[]", "[[1],{\"a\":null},null]", "{[1],\"{\\\"a\\\": null}\",NULL}"),
        ("timestamptz[]", "[\"2024-01-01T00:00:00Z\"]", "{\"2024-01-01 00:00:00+00\"}"),
        ("boolean[]", "[true,false]", "{t,f}"),
        ("mood[]", "[\"sad\"]", "{sad}"),
        ("positives", "[1,2]", "{1,2}"),
    ] {
        assert_eq!(session.sent(type_name, json), Ok(Some(arrives.to_owned())), "{type_name} {json}");
    }
    for type_name in ["bigint", "text", "jsonb", "integer[]", "mood", "bytea"] {
        assert_eq!(session.sent(type_name, "null"), Ok(None), "{type_name}");
    }
}

#[test]
fn what_cannot_become_its_type_is_told_and_not_sent() {
    let session = Session::new();
    for (type_name, json, told) in [
        (
            "bigint",
            "9223372036854775808",
            "a number cannot become bigint: it is not a whole number, or beyond the range",
        ),
        ("integer", "2147483648", "a number cannot become integer: it is beyond the range"),
        ("smallint", "1.5", "a number cannot become smallint: it is not a whole number, or beyond the range"),
        ("integer", "\"seven\"", "a string cannot become integer: it is no number"),
        ("integer", "\" 7\"", "a string cannot become integer: it is no number"),
        ("integer", "true", "true or false cannot become integer"),
        ("numeric", "\"Infinity\"", "a string cannot become numeric: it is no number"),
        ("numeric", "1e200000", "a number cannot become numeric: it is beyond the range of numeric"),
        ("double precision", "1e400", "a number cannot become double precision: it is beyond the range"),
        ("double precision", "1e-400", "a number cannot become double precision: it is beyond the range"),
        ("real", "1e39", "a number cannot become real: it is beyond the range"),
        ("boolean", "1", "a number cannot become boolean"),
        ("boolean", "\"yes\"", "a string cannot become boolean: it is neither true nor false"),
        (
            "text",
            "\"a\\u0000\"",
            "a string cannot become text: it has a NUL, which PostgreSQL's text cannot hold",
        ),
        ("bytea", "[1]", "an array cannot become bytea"),
        ("date", "20240101", "a number cannot become date"),
        ("date", "\"2024-02-30\"", "a string cannot become date: there is no such day"),
        ("timestamp", "\"2024-01-01T00:00:00+01:00\"", "which a timestamp does not keep"),
        ("timestamptz", "\"2024-01-01T00:00:00\"", "it has no offset, such as Z or +02:00"),
        (
            "timestamptz",
            "\"yesterday\"",
            "a string cannot become timestamp with time zone: a date is written",
        ),
        ("uuid", "\"a0eebc99\"", "a string cannot become uuid: it is no UUID"),
        ("jsonb", "[\"\\u0000\"]", "an array cannot become jsonb: a string in it has a NUL"),
        ("integer[]", "7", "a number cannot become integer[]"),
        (
            "integer[]",
            "[1,\"x\"]",
            "an array cannot become integer[]: element 2 is a string: it is no number",
        ),
        ("integer[]", "[[1]]", "an array cannot become integer[]: element 1 is an array"),
        ("text[]", "[\"\\u0000\"]", "element 1 is a string: it has a NUL"),
        ("positive", "\"x\"", "a string cannot become positive: it is no number"),
    ] {
        let refused = session.sent(type_name, json).unwrap_err();
        assert!(refused.contains(told), "{type_name} {json}: {refused}");
    }
    let half = session.sent("text", "\"\\ud800\"").unwrap_err();
    assert!(half.starts_with("a string cannot become text: "), "{half}");
}

#[test]
fn what_comes_from_elsewhere_is_read_as_its_type_too() {
    let session = Session::new();
    let bytes = Bytes::from_static(b"[1, 2]");
    let no_text = Bytes::from_static(b"\xff\0");
    let uuid = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11";
    for (type_name, found, arrives) in [
        ("jsonb", Found::Bytes(&bytes), "[1, 2]"),
        ("integer[]", Found::Bytes(&bytes), "{1,2}"),
        ("text", Found::Bytes(&bytes), "[1, 2]"),
        ("bytea", Found::Bytes(&no_text), "\\xff00"),
        ("uuid", Found::Text(uuid.into()), uuid),
        ("bigint", Found::Text("25".into()), "25"),
        ("numeric", Found::Number(u64::MAX), "18446744073709551615"),
        ("jsonb", Found::Number(7), "7"),
        ("timestamptz", Found::TimestampMs(1_700_000_000_123), "2023-11-14 22:13:20.123+00"),
        ("bigint", Found::TimestampMs(-1), "-1"),
    ] {
        let value = Encoded::new(&session.type_of(type_name), found).unwrap();
        assert_eq!(session.arrives(type_name, &value).unwrap().as_deref(), Some(arrives), "{type_name}");
    }
    for (type_name, found, told) in [
        ("text", Found::Bytes(&no_text), "bytes that are no text cannot become text"),
        ("jsonb", Found::Text("o-1".into()), "text cannot become jsonb: it is not JSON"),
        (
            "bigint",
            Found::Number(u64::MAX),
            "a number cannot become bigint: it is not a whole number, or beyond",
        ),
        ("date", Found::TimestampMs(0), "a time in milliseconds cannot become date"),
    ] {
        let refused = Encoded::new(&session.type_of(type_name), found).unwrap_err().to_string();
        assert!(refused.starts_with(told), "{refused}");
    }
}

/// What the server refuses although its type fits is an error of the server's, not of the encoding.
#[test]
fn the_server_refuses_values_of_its_own_rules() {
    let session = Session::new();
    for (type_name, json, state) in
        [("mood", "\"glad\"", "22P02"), ("positive", "-1", "23514"), ("jsonb", "1e200000", "22003")]
    {
        let raw = serde_json::from_str::<&RawValue>(json).unwrap();
        let value = Encoded::new(&session.type_of(type_name), Found::Json(raw)).unwrap();
        let error = session.arrives(type_name, &value).unwrap_err();
        assert_eq!(crate::postgres::state(&error), Some(state), "{type_name} {json}: {error}");
    }
}

#[test]
fn types_without_values_are_told() {
    let session = Session::new();
    for name in
        ["inet", "interval", "pair", "pair[]", "int4range", "oid", "timetz", "money", "xml", "\"char\""]
    {
        let connection = &mut *session.connection.borrow_mut();
        let found = session.runtime.block_on(async {
            let sql = "SELECT $1::regtype::oid::bigint";
            let oid: i64 = query_scalar(sql).bind(name).fetch_one(&mut *connection).await.unwrap();
            look_up(connection, oid.try_into().unwrap()).await.unwrap()
        });
        assert!(found.is_err(), "{name}: {found:?}");
    }
}

/// Sends random values and compares with what the server makes of the same text.
fn compare(session: &Session, type_name: &'static str, values: &BoxedStrategy<(String, String)>) {
    let mut runner = TestRunner::new(ProptestConfig {
        cases: 400,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let outcome = runner.run(values, |(json, text)| {
        match session.sent(type_name, &json) {
            Ok(arrived) => {
                let read = session.reads(type_name, &text);
                prop_assert_eq!(arrived, read.ok(), "{} {}", type_name, json);
            }
            // A zone is the one thing that the server would drop without a word.
            Err(told) if told.contains("which a timestamp does not keep") => {}
            Err(told) => prop_assert!(session.reads(type_name, &text).is_err(), "{}: {}", json, told),
        }
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{type_name}: {error}"));
}

fn same(texts: impl Strategy<Value = String> + 'static) -> BoxedStrategy<(String, String)> {
    texts.prop_map(|text| (text.clone(), text)).boxed()
}

fn as_strings(texts: impl Strategy<Value = String> + 'static) -> BoxedStrategy<(String, String)> {
    texts.prop_map(|text| (quoted(&text), text)).boxed()
}

const NUMBER: &str = r"-?(0|[1-9][0-9]{0,60})(\.[0-9]{1,60})?([eE][+-]?[0-9]{1,2})?";

#[test]
fn random_values_arrive_as_the_server_reads_them() {
    let session = Session::new();
    let integers = any::<i64>().prop_map(|number| number.to_string());
    compare(&session, "bigint", &same(integers));
    compare(&session, "integer", &same(any::<i32>().prop_map(|number| number.to_string())));
    compare(&session, "smallint", &same(any::<i16>().prop_map(|number| number.to_string())));
    compare(&session, "numeric", &same(NUMBER));
    compare(
        &session,
        "double precision",
        &same(any::<f64>().prop_filter("finite", |f| f.is_finite()).prop_map(|f| format!("{f:e}"))),
    );
    compare(&session, "double precision", &same(NUMBER));
    compare(&session, "real", &same(NUMBER));
    compare(&session, "text", &as_strings(any::<String>().prop_map(|text| text.replace('\0', ""))));

    let year = prop_oneof!["[0-9]{3}[1-9]", "[1-9][0-9]{4}", "(19|20)[0-9]{2}"];
    let date = (year, 1..=12, 1..=31, prop_oneof![Just(""), Just(" BC")]);
    let time = "([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\\.[0-9]{1,9})?)?";
    let dates = date.clone().prop_filter("in range", |(year, .., bc)| {
        bc.is_empty() || (year.len() == 4 && year.as_str() < "4714")
    });
    let dates = dates.prop_map(|(year, month, day, bc)| (format!("{year}-{month:02}-{day:02}"), bc));
    compare(&session, "date", &as_strings(dates.clone().prop_map(|(date, bc)| date + bc)));
    compare(&session, "time", &as_strings(time));
    let stamps = (dates, "[T ]", time, r"(|Z| ?[+-](0[0-9]|1[0-4])(:?[0-5][0-9])?)");
    let stamps =
        stamps.prop_map(|((date, bc), between, time, offset)| (format!("{date}{between}{time}"), offset, bc));
    compare(&session, "timestamp", &as_strings(stamps.clone().prop_map(|(stamp, _, bc)| stamp + bc)));
    let with_offset = stamps.prop_map(|(stamp, offset, bc)| {
        let offset = if offset.is_empty() { "Z".to_owned() } else { offset };
        stamp + &offset + bc
    });
    compare(&session, "timestamptz", &as_strings(with_offset));
    compare(&session, "uuid", &as_strings("[0-9a-fA-F]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}"));
    let arrays = prop::collection::vec(
        prop_oneof![Just("null".to_owned()), any::<i32>().prop_map(|n| n.to_string())],
        0..9,
    );
    let arrays = arrays.prop_map(|all| (format!("[{}]", all.join(",")), format!("{{{}}}", all.join(","))));
    compare(&session, "integer[]", &arrays.boxed());
    let strings = prop::collection::vec("[ -~é🦀\\n]{0,9}", 0..6).prop_map(|all| {
        let elements: Vec<_> = all
            .iter()
            .map(|text| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")))
            .collect();
        (serde_json::to_string(&all).unwrap(), format!("{{{}}}", elements.join(",")))
    });
    compare(&session, "text[]", &strings.boxed());
}
