//! Each place × what can stand there.

use super::*;
use crate::{JsonPointer, NameError, Partition, Position, Source};

fn record(payload: Option<&str>) -> Inbound {
    Inbound::new(Partition { source: Source::new("log"), number: 3 }, payload.map(|p| p.to_owned().into()))
}

fn with_headers(payload: Option<&str>, headers: &[(&str, Option<&[u8]>)]) -> Inbound {
    let mut inbound = record(payload);
    for &(name, value) in headers {
        inbound.headers.push(name, value.map(|value| value.to_vec().into()));
    }
    inbound
}

fn with_native(id: Option<&str>) -> Inbound {
    let mut inbound = record(Some("x"));
    inbound.native_id = id.map(Into::into);
    inbound
}

fn at_position(position: Option<u64>) -> Inbound {
    let mut inbound = record(None);
    inbound.position = position.map(|at| Position { at, next: at + 1 });
    inbound
}

/// The id, or the kind of defect.
fn read(from: &IdFrom, inbound: &Inbound) -> Result<String, &'static str> {
    from.read(inbound).map(|id| id.as_str().to_owned()).map_err(|defect| match defect {
        Defect::IdMissing { .. } => "missing",
        Defect::IdInvalid { why: NameError::TooLong { .. }, .. } => "too long",
        Defect::IdInvalid { why: NameError::Nul, .. } => "nul",
        Defect::IdInvalid { why: NameError::Space, .. } => "space",
        Defect::IdInvalid { .. } => "invalid",
        Defect::IdType { .. } => "type",
        Defect::Undecodable { .. } => "undecodable",
        Defect::Oversize { .. } => "oversize",
    })
}

fn pointer(text: &str) -> IdFrom {
    IdFrom::JsonPointer(JsonPointer::new(text).unwrap())
}

fn long() -> String {
    "x".repeat(256)
}

#[test]
fn native_ids() {
    for (id, expected) in [
        (Some("e-102"), Ok("e-102")),
        (Some(" spaces stay "), Ok(" spaces stay ")),
        (None, Err("missing")),
        (Some(""), Err("missing")),
        (Some(&*long()), Err("too long")),
        (Some("a\0b"), Err("nul")),
    ] {
        assert_eq!(read(&IdFrom::Native, &with_native(id)), expected.map(str::to_owned), "{id:?}");
    }
}

#[test]
fn ids_in_json() {
    let long = format!(r#"{{"id":"{}"}}"#, long());
    let long_number = format!(r#"{{"id":{}}}"#, "1".repeat(256));
    for (payload, expected) in [
        (Some(r#"{"id":"e-102"}"#), Ok("e-102")),
        (Some(r#"{"id":"\u0065-\ud83d\ude00"}"#), Ok("e-\u{1f600}")),
        (Some(r#"{"id":17}"#), Ok("17")),
        (Some(r#"{"id": -1.50e+07 }"#), Ok("-1.50e+07")),
        (Some(r#"{"id":12345678901234567890123}"#), Ok("12345678901234567890123")),
        (Some(r#"{"id":"first","id":"last"}"#), Ok("last")),
        (Some(r#"{"other":1}"#), Err("missing")),
        (Some(r#"{"id":null}"#), Err("missing")),
        (Some(r#"{"id":""}"#), Err("missing")),
        (Some(r#"[{"id":1}]"#), Err("missing")),
        (Some(r#""id""#), Err("missing")),
        (None, Err("missing")),
        (Some(&*long), Err("too long")),
        (Some(&*long_number), Err("too long")),
        (Some(r#"{"id":"a\u0000b"}"#), Err("nul")),
        (Some(r#"{"id":true}"#), Err("type")),
        (Some(r#"{"id":[1]}"#), Err("type")),
        (Some(r#"{"id":{"id":1}}"#), Err("type")),
        (Some(r#"{"id":"\ud800"}"#), Err("undecodable")),
        (Some(r#"{"id":1"#), Err("undecodable")),
        (Some(""), Err("undecodable")),
    ] {
        assert_eq!(read(&pointer("/id"), &record(payload)), expected.map(str::to_owned), "{payload:?}");
    }
}

#[test]
fn ids_in_headers() {
    let long = long();
    for (headers, expected) in [
        (&[("id", Some(&b"e-102"[..]))][..], Ok("e-102")),
        (&[("id", Some(b"17"))], Ok("17")),
        (&[("id", Some(b"first")), ("id", Some(b"last"))], Ok("last")),
        (&[("id", Some(b"first")), ("id", None)], Err("missing")),
        (&[("ID", Some(b"other name"))], Err("missing")),
        (&[("id", None)], Err("missing")),
        (&[("id", Some(b""))], Err("missing")),
        (&[], Err("missing")),
        (&[("id", Some(long.as_bytes()))], Err("too long")),
        (&[("id", Some(b"a\0b"))], Err("nul")),
        (&[("id", Some(b"\xff"))], Err("type")),
    ] {
        // A header stands beside a tombstone as well as beside a payload.
        for payload in [None, Some("{}")] {
            let inbound = with_headers(payload, headers);
            let found = read(&IdFrom::Header("id".into()), &inbound);
            assert_eq!(found, expected.map(str::to_owned), "{headers:?}");
        }
    }
}

#[test]
fn cloud_events_in_headers() {
    let source = "s".repeat(250);
    for (headers, expected) in [
        (&[("ce_source", Some(&b"/shop"[..])), ("ce_id", Some(b"17"))][..], Ok("/shop 17")),
        (&[("Ce-Source", Some(b"/shop")), ("Ce-Id", Some(b"a b"))], Ok("/shop a b")),
        (&[("cloudEvents:source", Some(b"/shop")), ("cloudEvents:id", Some(b"1"))], Ok("/shop 1")),
        (&[("cloudEvents_source", Some(b"/shop")), ("cloudEvents_id", Some(b"1"))], Ok("/shop 1")),
        (&[("ce_source", Some(b"/shop"))], Err("missing")),
        (&[("ce_id", Some(b"17"))], Err("missing")),
        (&[("ce_source", Some(b"")), ("ce_id", Some(b"17"))], Err("missing")),
        (&[("ce_source", Some(b"/shop")), ("ce_id", Some(b""))], Err("missing")),
        (&[("ce_source", Some(b"/shop")), ("ce_id", None)], Err("missing")),
        (&[("ce_source", Some(source.as_bytes())), ("ce_id", Some(b"12345"))], Err("too long")),
        (&[("ce_source", Some(b"/shop")), ("ce_id", Some(b"a\0b"))], Err("nul")),
        (&[("ce_source", Some(b"/shop a")), ("ce_id", Some(b"b"))], Err("space")),
        (&[("ce_source", Some(b"/shop")), ("ce_id", Some(b"\xff"))], Err("type")),
    ] {
        for payload in [None, Some(r#"{"source":"/other","id":"other"}"#)] {
            let found = read(&IdFrom::CloudEvents, &with_headers(payload, headers));
            assert_eq!(found, expected.map(str::to_owned), "{headers:?}");
        }
    }
}

#[test]
fn cloud_events_in_the_payload() {
    for (payload, expected) in [
        (Some(r#"{"specversion":"1.0","id":"17","source":"/shop","type":"t"}"#), Ok("/shop 17")),
        (Some(r#"{"id":"\u0031","source":"\/shop"}"#), Ok("/shop 1")),
        (Some(r#"{"id":"17"}"#), Err("missing")),
        (Some(r#"{"source":"/shop"}"#), Err("missing")),
        (Some(r#"{"id":null,"source":"/shop"}"#), Err("missing")),
        (Some(r#"{"id":"","source":"/shop"}"#), Err("missing")),
        (Some(r#"{"id":17,"source":"/shop"}"#), Err("type")),
        (Some(r#"{"id":"17","source":["/shop"]}"#), Err("type")),
        (Some(r#"{"id":"17","source":"/a b"}"#), Err("space")),
        (Some(r#"{"id":"a\u0000","source":"/shop"}"#), Err("nul")),
        (Some("[]"), Err("missing")),
        (Some("no json"), Err("undecodable")),
        (None, Err("missing")),
    ] {
        assert_eq!(read(&IdFrom::CloudEvents, &record(payload)), expected.map(str::to_owned), "{payload:?}");
    }
}

#[test]
fn ids_by_position() {
    let from = |tag: &str| IdFrom::Position { tag: tag.into() };
    assert_eq!(read(&from("2024"), &at_position(Some(0))).unwrap(), "2024:log:3:0");
    assert_eq!(read(&from(""), &at_position(Some(u64::MAX - 1))).unwrap(), ":log:3:18446744073709551614");
    assert_eq!(read(&from("2024"), &at_position(None)), Err("missing"));
    assert_eq!(read(&from(&long()), &at_position(Some(0))), Err("too long"));
    assert_eq!(read(&from("\0"), &at_position(Some(0))), Err("nul"));
}

/// Golden vectors, computed apart from this code: `printf '{"a":1}' | sha256sum`, `printf '' | sha256sum`.
#[test]
fn ids_by_content() {
    let of = |payload| read(&IdFrom::Content, &record(payload));
    let id = "sha256:015abd7f5cc57a2dd94b7590f04ad8084273905ee33ec5cebeae62276a97f862";
    assert_eq!(of(Some(r#"{"a":1}"#)).unwrap(), id);
    let empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    assert_eq!(of(Some("")).unwrap(), empty);
    assert_eq!(of(None), Err("missing"));
}

#[test]
fn the_first_place_with_an_id_counts() {
    let from = IdFrom::FirstOf(vec![
        IdFrom::Native,
        pointer("/id"),
        IdFrom::FirstOf(vec![IdFrom::Header("id".into()), IdFrom::Header("key".into())]),
    ]);
    let header: &[(&str, Option<&[u8]>)] = &[("key", Some(b"from header"))];
    assert_eq!(read(&from, &with_native(Some("native"))).unwrap(), "native");
    assert_eq!(read(&from, &with_headers(Some(r#"{"id":7}"#), header)).unwrap(), "7");
    for passed_over in [None, Some("{}"), Some(r#"{"id":""}"#), Some(r#"{"id":null}"#), Some("no json")] {
        assert_eq!(
            read(&from, &with_headers(passed_over, header)).unwrap(),
            "from header",
            "{passed_over:?}"
        );
    }
    // A bad id is not passed over.
    assert_eq!(read(&from, &with_headers(Some(r#"{"id":true}"#), header)), Err("type"));
    assert_eq!(read(&from, &with_headers(Some(r#"{"id":"\u0000"}"#), header)), Err("nul"));
    assert_eq!(read(&from, &record(Some("no json"))), Err("undecodable"));
    assert_eq!(read(&IdFrom::FirstOf(Vec::new()), &record(None)), Err("missing"));
    let told = from.read(&record(Some("{}"))).unwrap_err().to_string();
    assert_eq!(
        told,
        "no message id: the broker's message id, or else /id, or else header id, or else header key is missing or empty"
    );
}

#[test]
fn a_missing_id_is_dealt_with_as_the_policy_says() {
    let missing = |missing, inbound: Inbound| {
        let scope = Scope::new("shop").unwrap();
        let identity = Identity { scope, from: pointer("/id"), missing, ..Identity::default() };
        let (message, defect) = identity.identify(inbound);
        let halts = defect.as_ref().is_some_and(|defect| identity.halts_at(defect));
        (message.claim_key().to_string(), defect.is_some(), halts)
    };
    let position = || MissingId::Position { tag: "t".into() };
    let empty = || {
        let mut inbound = record(Some("{}"));
        inbound.position = Some(Position { at: 8, next: 9 });
        inbound
    };
    let place = Identity::unidentified_key(&empty()).to_string();
    assert_eq!(missing(MissingId::DeadLetter, empty()), (place.clone(), true, false));
    assert_eq!(missing(MissingId::Halt, empty()), (place, true, true));
    assert_eq!(missing(position(), empty()), ("shop/t:log:3:8".to_owned(), false, false));
    let (by_content, letter, _) = missing(MissingId::Content, empty());
    assert!(by_content.starts_with("shop/sha256:44136fa355b3678a1146ad16f7e8649e") && !letter);

    // Nothing to use instead: a letter.
    assert!(missing(position(), record(Some("{}"))).1);
    assert!(missing(MissingId::Content, record(None)).1);
    // A bad id, or a payload that does not decode, is not a missing id.
    for payload in [r#"{"id":true}"#, r#"{"id":"\u0000"}"#, "no json"] {
        for policy in [position(), MissingId::Content] {
            assert!(missing(policy, record(Some(payload))).1, "{payload}");
        }
    }
    assert!(missing(MissingId::Halt, record(Some(r#"{"id":true}"#))).2);
    assert!(!missing(MissingId::Halt, record(Some("no json"))).2);
}

#[test]
fn oversize_records_are_letters_whatever_their_id() {
    let mut inbound = with_native(Some("e-102"));
    inbound.oversize_bytes = Some(5000);
    let key = Identity::unidentified_key(&inbound);
    let (message, defect) = Identity { missing: MissingId::Halt, ..Identity::default() }.identify(inbound);
    assert_eq!(defect, Some(Defect::Oversize { bytes: 5000, kept: 1 }));
    assert_eq!(message.claim_key(), &key);
}

/// Rows of such records are in databases: their keys must not change. `printf 'log' | sha256sum`, the first
/// 16 digits; then the fingerprint of `printf '\001x' | sha256sum`, the first 32 digits.
#[test]
fn unidentified_records_are_claimed_by_their_place_or_else_their_payload() {
    let mut inbound = record(Some("x"));
    let by_content = "~unidentified/836ff184e7b41b1e:3:v1:23c86a8aded0ad81f8111bb07e6ec0ff";
    assert_eq!(Identity::unidentified_key(&inbound).to_string(), by_content);
    // Also under a rule that compares nothing.
    let identity = Identity { fingerprint: FingerprintOf::Off, ..Identity::default() };
    assert_eq!(identity.identify(inbound.clone()).0.claim_key().to_string(), by_content);
    inbound.position = Some(Position { at: 12, next: 13 });
    assert_eq!(Identity::unidentified_key(&inbound).to_string(), "~unidentified/836ff184e7b41b1e:3:12");
}
