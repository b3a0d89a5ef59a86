//! Consumers of a fake broker.

use async_trait::async_trait;
use inbox_core::Broker;
use inbox_testkit::{
    suite::broker::{BrokerHarness, BrokerTraits, Record},
    *,
};
use std::time::Duration;

/// A fake broker whose consumers are wrapped.
pub struct OverFake<B> {
    queue: FakeQueue,
    ends: bool,
    wrap: Box<dyn Fn(FakeBroker) -> B + Send + Sync>,
}

impl<B> OverFake<B> {
    pub fn new(options: FakeOptions, wrap: impl Fn(FakeBroker) -> B + Send + Sync + 'static) -> Self {
        let ends = options.end == End::WhenSettled;
        Self { queue: FakeQueue::new(options), ends, wrap: Box::new(wrap) }
    }
}

#[async_trait]
impl<B: Broker<Receipt = FakeReceipt>> BrokerHarness for OverFake<B> {
    type Broker = B;

    fn traits(&self) -> BrokerTraits {
        BrokerTraits::everything().ends(self.ends).quiet(Duration::from_millis(50))
    }

    async fn publish(&self, records: Vec<Record>) {
        for record in records {
            let mut message = Publish::anonymous();
            if let Some(key) = record.key {
                message = message.key(key);
            }
            if let Some(payload) = record.payload {
                message = message.payload(payload);
            }
            for (name, value) in record.headers.iter() {
                message = match value {
                    Some(value) => message.header(name, value),
                    None => message.header_without_value(name),
                };
            }
            self.queue.publish(message);
        }
    }

    async fn connect(&self) -> B {
        (self.wrap)(self.queue.connect())
    }

    fn copy_receipt(&self, receipt: &FakeReceipt) -> FakeReceipt {
        receipt.clone()
    }
}
