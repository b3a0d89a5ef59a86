use super::*;
use crate::sqlite::Value;
use inbox_core::{ClaimKey, Fingerprint, Inbound, MessageId, Partition, Position, Scope, Source};

fn group() -> Group {
    Group::new("billing").unwrap()
}

fn message(payload: Option<&[u8]>) -> Message {
    let partition = Partition { source: Source::new("file:/orders.jsonl"), number: 0 };
    let mut inbound = Inbound::new(partition, payload.map(Bytes::copy_from_slice));
    inbound.position = Some(Position { at: 7, next: 9 });
    inbound.key = Some(Bytes::from_static(b"k\xff"));
    inbound.timestamp_ms = Some(1_700_000_000_000);
    inbound.headers.push("trace", Some(Bytes::from_static(b"t-1")));
    let claim = ClaimKey { scope: Scope::default(), id: MessageId::new("m-1").unwrap() };
    Message::new(claim, Fingerprint::of_payload(payload), inbound)
}

fn plan(names: &[&str], mappings: &[&str]) -> Result<ParamPlan, PlanError> {
    let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
    let mappings: Vec<_> = mappings.iter().map(|text| text.parse().unwrap()).collect();
    ParamPlan::build(&names, &mappings)
}

fn values(plan: &ParamPlan, message: &Message) -> Result<Vec<Value>, Undecodable> {
    plan.bind(message, &group(), |_, found| Value::from_found(found))
}

fn bind(names: &[&str], mappings: &[&str], payload: &str) -> Result<Vec<Value>, String> {
    let plan = plan(names, mappings).unwrap();
    values(&plan, &message(Some(payload.as_bytes()))).map_err(|error| error.to_string())
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

#[test]
fn names_are_fields_and_pointers_reach_deeper() {
    let payload = r#"{"id":"x","amount":9007199254740993,"who":{"name":"O'Brien","a/b":[1,{"c":2.50}]}}"#;
    let values = bind(
        &["amount", "missing", "name", "deep", "who", "all", "none"],
        &["name=/who/name", "deep=/who/a~1b/1/c", "all=", "none=/who/x/y"],
        payload,
    );
    let who = r#"{"name":"O'Brien","a/b":[1,{"c":2.50}]}"#;
    let expected = [
        Value::Integer(9_007_199_254_740_993),
        Value::Null,
        text("O'Brien"),
        Value::Real(2.5),
        text(who),
        text(payload),
        Value::Null,
    ];
    assert_eq!(values.unwrap(), expected);
}

#[test]
fn parts_of_the_message_are_read_without_looking_at_the_payload() {
    let names = ["id", "key", "at", "n", "src", "ts", "raw", "kind", "h", "no"];
    let mappings = [
        "id=message:id",
        "key=message:key",
        "at=message:position",
        "n=message:partition",
        "src=message:source",
        "ts=message:timestamp",
        "raw=message:payload",
        "kind=message:type",
        "h=header:trace",
        "no=header:other",
    ];
    let expected = [
        text("m-1"),
        Value::Blob(Bytes::from_static(b"k\xff")),
        Value::Integer(7),
        Value::Integer(0),
        text("file:/orders.jsonl"),
        Value::Integer(1_700_000_000_000),
        text("not json"),
        Value::Null,
        text("t-1"),
        Value::Null,
    ];
    assert_eq!(bind(&names, &mappings, "not json").unwrap(), expected);
    let keys = bind(&["k"], &["k=message:idempotency_key"], "").unwrap();
    assert_eq!(keys, [text(&message(None).idempotency_key(&group()))]);
}

#[test]
fn a_payload_without_fields_is_undecodable_only_when_fields_are_asked_for() {
    let error = |payload: &str| bind(&["a"], &[], payload).unwrap_err();
    assert_eq!(error("[1]"), "the payload is an array, not an object; :a is a field of it");
    assert!(error("{\"a\":").starts_with("the payload is not JSON: "));
    assert!(error(r#"{"a":"\ud800"}"#).starts_with("the value of :a: "));
    assert_eq!(bind(&["a"], &["a=/1"], "[1,\"x\"]").unwrap(), [text("x")]);
    assert_eq!(bind(&["a"], &["a=/1"], "5").unwrap(), [Value::Null]);

    let by_name = plan(&["a"], &[]).unwrap();
    let tombstone = values(&by_name, &message(None)).unwrap_err().to_string();
    assert_eq!(tombstone, "the message has no payload; :a is a field of it");
    let by_pointer = plan(&["a"], &["a=/x"]).unwrap();
    assert_eq!(values(&by_pointer, &message(None)).unwrap(), [Value::Null]);
    let not_text = values(&by_pointer, &message(Some(b"{\"y\":\"\xff\"}"))).unwrap_err();
    assert_eq!(not_text.to_string(), "the payload is not UTF-8 behind its first 6 bytes");
}

#[test]
fn mappings_that_do_not_fit_the_sql_are_refused() {
    assert_eq!(
        plan(&["a", "b"], &["c=/c"]).unwrap_err().to_string(),
        "--param c: no --sql has a parameter :c; there is :a, :b"
    );
    assert_eq!(
        plan(&["a"], &["a=/c", "a=/d"]).unwrap_err().to_string(),
        "--param a is given twice; give it once"
    );
    assert!(plan(&[], &["a=/c"]).unwrap_err().to_string().ends_with("there are no parameters"));
}
