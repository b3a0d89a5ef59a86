//! What a broker hands over, and the message that handlers see.

use crate::{ClaimKey, Fingerprint};
use bytes::Bytes;
use std::{fmt, sync::Arc};

/// The name of a stream, queue or file that messages come from, such as `file:/data/orders.jsonl`.
///
/// It is part of the key under which checkpoints are kept, so it must be the same in every run.
/// Cloning shares the text.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Source(Arc<str>);

impl Source {
    /// Makes a source of any text.
    pub fn new(text: impl AsRef<str>) -> Self {
        Self(Arc::from(text.as_ref()))
    }

    /// The text itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Source({:?})", &*self.0)
    }
}

/// One independently numbered part of a source. Sources without parts use number 0.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Partition {
    /// The source it belongs to.
    pub source: Source,
    /// Its number inside the source.
    pub number: u32,
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]", self.source, self.number)
    }
}

/// Where a delivery stands in its partition: an offset, a byte position, a delivery tag.
///
/// Positions of one partition rise from delivery to delivery, with gaps allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Position {
    /// Where the record begins.
    pub at: u64,
    /// Where reading goes on once this record and all before it are finished.
    pub next: u64,
}

/// Names and values that travel with a payload, in the order of the broker.
///
/// Names are compared byte by byte. One may occur several times: [`Headers::get`] gives the last, as
/// Kafka's `lastHeader` does, and [`Headers::iter`] gives all. Values are bytes, shared when cloned; the
/// broker's crate documents how it writes a value of another type.
///
/// As an extractor it gives the handler all headers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Headers(Vec<(Box<str>, Option<Bytes>)>);

impl Headers {
    /// No headers.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Adds a header behind the others. A value may be absent (Kafka allows it).
    pub fn push(&mut self, name: impl Into<Box<str>>, value: Option<Bytes>) {
        self.0.push((name.into(), value));
    }

    /// The value of the last header with this name; `None` when there is no such header, or when the
    /// last one has no value.
    pub fn get(&self, name: &str) -> Option<&Bytes> {
        self.0.iter().rev().find(|(n, _)| &**n == name).and_then(|(_, value)| value.as_ref())
    }

    /// All headers, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Option<&Bytes>)> {
        self.0.iter().map(|(name, value)| (&**name, value.as_ref()))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of headers.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The bytes that names and values take together.
    pub fn bytes(&self) -> usize {
        self.0.iter().map(|(name, value)| name.len() + value.as_ref().map_or(0, Bytes::len)).sum()
    }
}

/// A record as a broker hands it over, before it has an identity.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Inbound {
    /// The partition it comes from.
    pub partition: Partition,
    /// Its place there, when the broker numbers its records durably ([`Capabilities::positional`](crate::Capabilities)).
    pub position: Option<Position>,
    /// The ordering key: messages with the same key are handled one after the other.
    pub key: Option<Bytes>,
    /// The id that the broker's own format carries (AMQP's `message-id`, say).
    pub native_id: Option<Box<str>>,
    /// The message type, when the broker's own format carries one.
    pub message_type: Option<Box<str>>,
    /// Names and values beside the payload.
    pub headers: Headers,
    /// The content; absent in a tombstone.
    pub payload: Option<Bytes>,
    /// When it was produced, in milliseconds since 1970-01-01 UTC.
    pub timestamp_ms: Option<i64>,
    /// The record's whole length in bytes when it was over the broker's limit; `payload` is then a prefix.
    pub oversize_bytes: Option<u64>,
}

impl Inbound {
    /// A record of `partition` with this payload and nothing else.
    pub fn new(partition: Partition, payload: Option<Bytes>) -> Self {
        Self {
            partition,
            position: None,
            key: None,
            native_id: None,
            message_type: None,
            headers: Headers::new(),
            payload,
            timestamp_ms: None,
            oversize_bytes: None,
        }
    }

    /// What it counts against limits in bytes: payload, key and headers.
    pub fn bytes(&self) -> usize {
        self.payload.as_ref().map_or(0, Bytes::len)
            + self.key.as_ref().map_or(0, Bytes::len)
            + self.headers.bytes()
    }
}

/// A message with its identity: what handlers, letters and observers see. It never changes, and cloning
/// shares everything.
///
/// It is a record ([`Inbound`]) with the name it is claimed under and the fingerprint of its content,
/// both given by the runner's [`Identity`](crate::Identity). As an extractor it gives the handler the
/// whole message.
#[derive(Debug, Clone)]
pub struct Message(Arc<MessageParts>);

#[derive(Debug)]
struct MessageParts {
    claim: ClaimKey,
    fingerprint: Fingerprint,
    inbound: Inbound,
}

impl Message {
    /// Joins a record with its identity. [`Identity::identify`](crate::Identity::identify) does so by
    /// the rules of a runner.
    pub fn new(claim: ClaimKey, fingerprint: Fingerprint, inbound: Inbound) -> Self {
        Self(Arc::new(MessageParts { claim, fingerprint, inbound }))
    }

    /// Scope and id: what it is claimed under.
    pub fn claim_key(&self) -> &ClaimKey {
        &self.0.claim
    }

    /// The message id.
    pub fn id(&self) -> &str {
        self.0.claim.id.as_str()
    }

    /// The fingerprint of its content.
    pub fn fingerprint(&self) -> Fingerprint {
        self.0.fingerprint
    }

    /// The record as the broker handed it over.
    pub fn inbound(&self) -> &Inbound {
        &self.0.inbound
    }

    /// The content; `None` for a tombstone.
    pub fn payload(&self) -> Option<&Bytes> {
        self.0.inbound.payload.as_ref()
    }

    /// The ordering key.
    pub fn key(&self) -> Option<&Bytes> {
        self.0.inbound.key.as_ref()
    }

    /// Names and values beside the payload.
    pub fn headers(&self) -> &Headers {
        &self.0.inbound.headers
    }

    /// The partition it came from.
    pub fn partition(&self) -> &Partition {
        &self.0.inbound.partition
    }

    /// Its place in the partition, when the broker numbers durably.
    pub fn position(&self) -> Option<Position> {
        self.0.inbound.position
    }

    /// When it was produced, in milliseconds since 1970-01-01 UTC.
    pub fn timestamp_ms(&self) -> Option<i64> {
        self.0.inbound.timestamp_ms
    }

    /// A key that is the same in every delivery and attempt, for effects outside the database (an HTTP
    /// call, a mail): the hexadecimal SHA-256 of group, scope and id, each preceded by its length as
    /// eight big-endian bytes.
    pub fn idempotency_key(&self, group: &crate::Group) -> String {
        use sha2::{Digest, Sha256};
        let mut hash = Sha256::new();
        for part in [group.as_str(), self.0.claim.scope.as_str(), self.0.claim.id.as_str()] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part.as_bytes());
        }
        hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
