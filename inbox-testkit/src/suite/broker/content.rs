//! Contract of content: what is published is what is delivered.

use super::{
    consumer::*,
    harness::{BrokerHarness, Payloads, Record},
};
use bytes::Bytes;

/// Publishes records and takes as many.
async fn through<H: BrokerHarness>(h: &H, records: Vec<Record>) -> Vec<Got<H>> {
    let count = records.len();
    h.publish(records).await;
    Consumer::connect(h).await.take(count).await
}

/// Payloads come byte for byte: empty, binary, long lines. A format of lines passes empty ones over.
pub async fn payloads_are_exact<H: BrokerHarness>(h: &H) {
    let all: Vec<u8> = (0..=255).collect();
    let (mut payloads, nothing): (Vec<Vec<u8>>, Vec<u8>) = (
        vec![
            b"{}".to_vec(),
            b" {\"a\": 1} ".to_vec(),
            "\"été \u{1f600}\"".into(),
            b"\xff\xfe\0\xc3(".to_vec(),
        ],
        vec![],
    );
    match h.traits().payloads {
        Payloads::Any => {
            payloads.extend([nothing, all, b"a\r\nb\n".to_vec(), b"\n".to_vec(), b"\0".to_vec()])
        }
        Payloads::Lines => {
            h.publish(vec![Record::new(nothing)]).await;
            payloads.push(all.into_iter().filter(|byte| !b"\r\n".contains(byte)).collect());
        }
    }
    let records = payloads.iter().map(|payload| Record::new(payload.clone())).collect();
    let got = through(h, records).await;
    for payload in payloads {
        let is_it = |delivery: &&Got<H>| delivery.inbound.payload.as_deref() == Some(&payload[..]);
        let count = got.iter().filter(is_it).count();
        assert_eq!(count, 1, "{:?}", String::from_utf8_lossy(&payload));
    }
    assert!(got.iter().all(|delivery| delivery.inbound.oversize_bytes.is_none()));
}

/// A payload of one mebibyte comes whole.
pub async fn large_payload<H: BrokerHarness>(h: &H) {
    let large: Bytes = (0..1_u32 << 20).map(|i| b'0' + (i % 61) as u8).collect();
    let got =
        through(h, vec![Record::new("\"before\""), Record::new(large.clone()), Record::new("\"after\"")])
            .await;
    assert!(
        got.iter().any(|delivery| delivery.inbound.payload.as_ref() == Some(&large)),
        "it is another one"
    );
    assert!(got.iter().all(|delivery| delivery.inbound.oversize_bytes.is_none()));
}

/// A tombstone has no payload, which is not an empty one, where the format can tell.
pub async fn tombstones<H: BrokerHarness>(h: &H) {
    let mut tombstone = Record::new(Bytes::new());
    tombstone.payload = None;
    tombstone.key = Some(Bytes::from_static(b"k"));
    match (h.traits().tombstones, h.traits().payloads) {
        (true, _) => {
            let got = through(h, vec![tombstone, Record::new("\"x\"")]).await;
            assert_eq!(got.iter().filter(|delivery| delivery.inbound.payload.is_none()).count(), 1);
        }
        (false, Payloads::Any) => {
            let got = through(h, vec![tombstone]).await;
            assert_eq!(got[0].inbound.payload.as_deref(), Some(&b""[..]));
        }
        (false, Payloads::Lines) => {
            h.publish(vec![tombstone]).await;
            let got = through(h, vec![Record::new("\"x\"")]).await;
            assert_eq!(texts(&got), ["\"x\""], "no line, no record");
        }
    }
}

/// Keys come byte for byte; where there are none, none comes.
pub async fn keys<H: BrokerHarness>(h: &H) {
    let keys: [Option<&[u8]>; 4] = [Some(b"a"), Some(b"\0\xff"), None, Some("été".as_bytes())];
    let record = |(number, key): (usize, &Option<&'static [u8]>)| {
        let mut record = Record::new(format!("\"{number}\""));
        record.key = key.map(Bytes::from_static);
        record
    };
    let got = through(h, keys.iter().enumerate().map(record).collect()).await;
    for delivery in got {
        let number: usize =
            texts(std::slice::from_ref(&delivery))[0].trim_matches('"').parse().expect("a number");
        let expected = if h.traits().keys { keys[number] } else { None };
        assert_eq!(delivery.inbound.key.as_deref(), expected, "{number}");
    }
}

/// Headers come in order, repeated ones and binary values included; where there are none, none comes.
pub async fn headers<H: BrokerHarness>(h: &H) {
    let values: [(&str, Option<&[u8]>); 5] = [
        ("twice", Some(b"1")),
        ("binary", Some(b"\0\xff")),
        ("twice", Some(b"2")),
        ("empty", Some(b"")),
        ("absent", None),
    ];
    let mut record = Record::new("\"x\"");
    for (name, value) in values {
        record.headers.push(name, value.map(Bytes::from_static));
    }
    let traits = h.traits();
    let got = through(h, vec![record]).await;
    let found: Vec<_> =
        got[0].inbound.headers.iter().map(|(name, value)| (name, value.map(|v| &v[..]))).collect();
    let expected: Vec<(&str, Option<&[u8]>)> = if traits.headers {
        let value = |value: Option<&'static [u8]>| {
            if traits.absent_header_values { value } else { value.or(Some(&[])) }
        };
        values.map(|(name, v)| (name, value(v))).to_vec()
    } else {
        Vec::new()
    };
    // A broker may add headers of its own.
    let ours: Vec<_> = found.into_iter().filter(|(name, _)| values.iter().any(|(n, _)| n == name)).collect();
    assert_eq!(ours, expected);
}
