//! A message to be published.

use bytes::Bytes;
use inbox_core::{Headers, Inbound, Partition, Source};

/// A message to be published; positions are numbered by the broker.
#[derive(Debug, Clone)]
pub struct Publish {
    id: Option<Box<str>>,
    partition: u32,
    key: Option<Bytes>,
    message_type: Option<Box<str>>,
    headers: Headers,
    payload: Option<Bytes>,
    timestamp_ms: Option<i64>,
    oversize_bytes: Option<u64>,
}

impl Publish {
    /// A message with this id, whose payload is the id too.
    pub fn new(id: impl Into<Box<str>>) -> Self {
        let id = id.into();
        let payload = Bytes::copy_from_slice(id.as_bytes());
        Self { id: Some(id), payload: Some(payload), ..Self::anonymous() }
    }

    /// A message without an id or payload.
    pub fn anonymous() -> Self {
        Self {
            id: None,
            partition: 0,
            key: None,
            message_type: None,
            headers: Headers::new(),
            payload: None,
            timestamp_ms: None,
            oversize_bytes: None,
        }
    }

    /// Sets the ordering key.
    #[must_use]
    pub fn key(self, key: impl AsRef<[u8]>) -> Self {
        Self { key: Some(Bytes::copy_from_slice(key.as_ref())), ..self }
    }

    /// Sets the content.
    #[must_use]
    pub fn payload(self, payload: impl AsRef<[u8]>) -> Self {
        Self { payload: Some(Bytes::copy_from_slice(payload.as_ref())), ..self }
    }

    /// Takes the content away: a tombstone.
    #[must_use]
    pub fn tombstone(self) -> Self {
        Self { payload: None, ..self }
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: impl Into<Box<str>>, value: impl AsRef<[u8]>) -> Self {
        self.headers.push(name, Some(Bytes::copy_from_slice(value.as_ref())));
        self
    }

    /// Adds a header without a value, as Kafka allows.
    #[must_use]
    pub fn header_without_value(mut self, name: impl Into<Box<str>>) -> Self {
        self.headers.push(name, None);
        self
    }

    /// Sets the message type.
    #[must_use]
    pub fn message_type(self, message_type: impl Into<Box<str>>) -> Self {
        Self { message_type: Some(message_type.into()), ..self }
    }

    /// Sets the partition; 0 without it.
    #[must_use]
    pub fn partition(self, partition: u32) -> Self {
        Self { partition, ..self }
    }

    /// Sets when it was produced.
    #[must_use]
    pub fn timestamp_ms(self, timestamp_ms: i64) -> Self {
        Self { timestamp_ms: Some(timestamp_ms), ..self }
    }

    /// Says that the record was so long and the content is a prefix of it.
    #[must_use]
    pub fn oversize(self, bytes: u64) -> Self {
        Self { oversize_bytes: Some(bytes), ..self }
    }

    pub(crate) fn into_inbound(self, source: &Source) -> Inbound {
        let partition = Partition { source: source.clone(), number: self.partition };
        let mut inbound = Inbound::new(partition, self.payload);
        inbound.key = self.key;
        inbound.native_id = self.id;
        inbound.message_type = self.message_type;
        inbound.headers = self.headers;
        inbound.timestamp_ms = self.timestamp_ms;
        inbound.oversize_bytes = self.oversize_bytes;
        inbound
    }
}
