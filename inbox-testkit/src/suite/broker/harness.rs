//! What a broker has to bring to be tested.

use async_trait::async_trait;
use bytes::Bytes;
use inbox_core::{AckStrength, Broker, Headers};
use std::time::Duration;

/// The receipt of a harness's broker.
pub type ReceiptOf<H> = <<H as BrokerHarness>::Broker as Broker>::Receipt;

/// A record to be published.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Record {
    /// The ordering key.
    pub key: Option<Bytes>,
    /// Names and values beside the payload.
    pub headers: Headers,
    /// The content; absent in a tombstone.
    pub payload: Option<Bytes>,
}

impl Record {
    /// A record with this content and nothing else.
    pub fn new(payload: impl Into<Bytes>) -> Self {
        Self { key: None, headers: Headers::new(), payload: Some(payload.into()) }
    }
}

/// An empty source of its own, and consumers of one group.
#[async_trait]
pub trait BrokerHarness: Send + Sync + 'static {
    /// The broker under test.
    type Broker: Broker;

    /// What records can carry and how the broker behaves where the contract leaves a choice.
    fn traits(&self) -> BrokerTraits;

    /// Publishes records in order, all of them into one partition. What cannot be carried is left out of
    /// the record, as the [`BrokerTraits`] say.
    async fn publish(&self, records: Vec<Record>);

    /// A new consumer of the group. Cases call it when everything is published.
    async fn connect(&self) -> Self::Broker;

    /// Ends a consumer as the death of its process does: without a goodbye.
    async fn kill(&self, broker: Self::Broker) {
        drop(broker);
    }

    /// A second copy of a receipt: what a program with a mistake in it would settle with.
    fn copy_receipt(&self, receipt: &ReceiptOf<Self>) -> ReceiptOf<Self>
    where
        Self: Sized;
}

/// Which payloads a format can carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Payloads {
    /// Any bytes, none at all included.
    Any,
    /// Lines of text: neither line ends nor empty ones, which are passed over.
    Lines,
}

/// What records can carry and how a broker behaves where the contract leaves a choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct BrokerTraits {
    /// Which payloads can be carried.
    pub payloads: Payloads,
    /// Whether a payload can be absent. Where it cannot, it comes as an empty one.
    pub tombstones: bool,
    /// Whether keys are carried.
    pub keys: bool,
    /// Whether headers are carried, in order and repeated.
    pub headers: bool,
    /// Whether the value of a header can be absent. Where it cannot, it comes as an empty one.
    pub absent_header_values: bool,
    /// Whether a released delivery comes again to the same consumer. Where it does not, the next
    /// consumer gets it.
    pub released_again: bool,
    /// Whether the source ends when everything is delivered and settled.
    pub ends: bool,
    /// How long nothing must come before it counts as nothing.
    pub quiet: Duration,
}

impl BrokerTraits {
    /// A broker that carries everything, redelivers what is released and never ends; quiet is 300 ms.
    pub const fn everything() -> Self {
        Self {
            payloads: Payloads::Any,
            tombstones: true,
            keys: true,
            headers: true,
            absent_header_values: true,
            released_again: true,
            ends: false,
            quiet: Duration::from_millis(300),
        }
    }

    /// Sets which payloads can be carried.
    #[must_use]
    pub const fn payloads(self, payloads: Payloads) -> Self {
        Self { payloads, ..self }
    }

    /// Sets whether a payload can be absent.
    #[must_use]
    pub const fn tombstones(self, tombstones: bool) -> Self {
        Self { tombstones, ..self }
    }

    /// Sets whether keys are carried.
    #[must_use]
    pub const fn keys(self, keys: bool) -> Self {
        Self { keys, ..self }
    }

    /// Sets whether headers are carried.
    #[must_use]
    pub const fn headers(self, headers: bool) -> Self {
        Self { headers, ..self }
    }

    /// Sets whether the value of a header can be absent.
    #[must_use]
    pub const fn absent_header_values(self, absent_header_values: bool) -> Self {
        Self { absent_header_values, ..self }
    }

    /// Sets whether a released delivery comes again to the same consumer.
    #[must_use]
    pub const fn released_again(self, released_again: bool) -> Self {
        Self { released_again, ..self }
    }

    /// Sets whether the source ends.
    #[must_use]
    pub const fn ends(self, ends: bool) -> Self {
        Self { ends, ..self }
    }

    /// Sets how long nothing must come before it counts as nothing.
    #[must_use]
    pub const fn quiet(self, quiet: Duration) -> Self {
        Self { quiet, ..self }
    }
}

/// Whether progress is a checkpoint of the consumer's, instead of something the broker keeps.
pub(super) fn by_checkpoint(broker: &impl Broker) -> bool {
    broker.capabilities().ack == AckStrength::Checkpoint
}
