//! From a line to a delivery.

use crate::{FileReceipt, lines::Line};
use bytes::Bytes;
use inbox_core::{Delivery, Inbound, JsonPointer, Partition};

/// The delivery of a line.
pub(crate) fn delivery_of(
    line: Line,
    partition: &Partition,
    key: Option<&JsonPointer>,
) -> Delivery<FileReceipt> {
    let key = match (key, line.oversize_bytes) {
        (Some(pointer), None) => key_of(pointer, &line.payload),
        // A prefix is not JSON.
        _ => None,
    };
    let mut inbound = Inbound::new(partition.clone(), Some(line.payload));
    inbound.position = Some(line.position);
    inbound.oversize_bytes = line.oversize_bytes;
    inbound.key = key;
    Delivery::new(inbound, FileReceipt { position: line.position })
}

/// The ordering key: the text of a string, a number as it is written, otherwise none.
fn key_of(pointer: &JsonPointer, payload: &[u8]) -> Option<Bytes> {
    let value = pointer.find(payload).ok()??.get();
    match value.as_bytes().first()? {
        b'"' => serde_json::from_str::<String>(value).ok().map(Bytes::from),
        b'-' | b'0'..=b'9' => Some(Bytes::copy_from_slice(value.as_bytes())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_text_or_numbers_as_written() {
        let pointer = JsonPointer::field("k");
        let table: &[(&[u8], Option<&str>)] = &[
            (br#"{"k":"ann"}"#, Some("ann")),
            (br#"{"k":"\u00e9\n"}"#, Some("é\n")),
            (br#"{"k":""}"#, Some("")),
            (br#"{"k":1.50}"#, Some("1.50")),
            (br#"{"k":-12345678901234567890}"#, Some("-12345678901234567890")),
            (br#"{"k":null}"#, None),
            (br#"{"k":true}"#, None),
            (br#"{"k":["a"]}"#, None),
            (br#"{"k":{}}"#, None),
            (br#"{"k":"\ud800"}"#, None),
            (br#"{"x":1}"#, None),
            (br#"{"k":"ann""#, None),
            (b"{\"k\":\"\xff\"}", None),
            (b"not json", None),
        ];
        for (payload, key) in table {
            let found = key_of(&pointer, payload);
            assert_eq!(found.as_deref(), key.map(str::as_bytes), "{}", String::from_utf8_lossy(payload));
        }
    }
}
