//! A broker that writes down what it hands over and what it is told.

use crate::{Entry, FakeBroker, History, lock::lock};
use async_trait::async_trait;
use inbox_core::{
    Ack, AckError, Broker, BrokerError, Capabilities, Credit, Event, Fingerprint, Inbound, Settled,
    Settlement,
};
use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex},
};
use tokio::time::Instant;

/// Which message each receipt stands for.
type Names = Arc<Mutex<HashMap<String, (String, Fingerprint)>>>;
type ReceiptName<R> = Arc<dyn Fn(&R) -> String + Send + Sync>;
type IdOf = Arc<dyn Fn(&Inbound) -> Option<String> + Send + Sync>;

/// Writes deliveries and settlements into a [`History`], each settlement together with what the
/// database has committed at that moment. It goes *inside* a
/// [`CrashBroker`](crate::CrashBroker), so that only what really reaches the broker is written down.
pub struct RecordingBroker<B: Broker> {
    inner: B,
    history: History,
    receipt_name: ReceiptName<B::Receipt>,
    id_of: IdOf,
    names: Names,
}

impl RecordingBroker<FakeBroker> {
    /// Records a consumer of a fake broker.
    pub fn fake(inner: FakeBroker, history: &History) -> Self {
        Self::new(inner, history, ToString::to_string)
    }
}

impl<B: Broker> RecordingBroker<B> {
    /// Records `inner`. `receipt_name` must give every delivery of this value another name.
    pub fn new(
        inner: B,
        history: &History,
        receipt_name: impl Fn(&B::Receipt) -> String + Send + Sync + 'static,
    ) -> Self {
        Self {
            inner,
            history: history.clone(),
            receipt_name: Arc::new(receipt_name),
            id_of: Arc::new(|inbound| inbound.native_id.as_deref().map(str::to_owned)),
            names: Names::default(),
        }
    }

    /// Reads ids from elsewhere than the broker's own format.
    #[must_use]
    pub fn ids(mut self, id_of: impl Fn(&Inbound) -> Option<String> + Send + Sync + 'static) -> Self {
        self.id_of = Arc::new(id_of);
        self
    }
}

impl<B: Broker + fmt::Debug> fmt::Debug for RecordingBroker<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RecordingBroker").field(&self.inner).finish()
    }
}

#[async_trait]
impl<B: Broker> Broker for RecordingBroker<B> {
    type Receipt = B::Receipt;
    type Ack = RecordingAck<B::Ack>;

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn ack_handle(&self) -> Self::Ack {
        RecordingAck {
            inner: self.inner.ack_handle(),
            history: self.history.clone(),
            receipt_name: Arc::clone(&self.receipt_name),
            names: Arc::clone(&self.names),
        }
    }

    async fn next(&mut self, credit: &Credit) -> Result<Event<B::Receipt>, BrokerError> {
        let event = self.inner.next(credit).await?;
        if let Event::Deliveries(deliveries) = &event {
            for delivery in deliveries {
                let name = (self.receipt_name)(&delivery.receipt);
                // What an inbox kept is named by its claim; the broker's own id need not be kept with it.
                let known = delivery.known.as_ref().map(|(claim, _)| claim.id.as_str().to_owned());
                let id = known.or_else(|| (self.id_of)(&delivery.inbound)).unwrap_or_else(|| "-".to_owned());
                let content = Fingerprint::of_payload(delivery.inbound.payload.as_deref());
                self.history.delivered(&id, content, name.clone());
                lock(&self.names).insert(name, (id, content));
            }
        }
        Ok(event)
    }

    async fn close(self, by: Instant) -> Result<(), BrokerError> {
        self.inner.close(by).await
    }
}

/// Writes settlements down.
pub struct RecordingAck<A: Ack> {
    inner: A,
    history: History,
    receipt_name: ReceiptName<A::Receipt>,
    names: Names,
}

impl<A: Ack> Clone for RecordingAck<A> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            history: self.history.clone(),
            receipt_name: Arc::clone(&self.receipt_name),
            names: Arc::clone(&self.names),
        }
    }
}

impl<A: Ack + fmt::Debug> fmt::Debug for RecordingAck<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RecordingAck").field(&self.inner).finish()
    }
}

#[async_trait]
impl<A: Ack> Ack for RecordingAck<A> {
    type Receipt = A::Receipt;

    async fn settle(&self, batch: Vec<Settlement<A::Receipt>>) -> Vec<Result<Settled, AckError>> {
        let mut asked = Vec::with_capacity(batch.len());
        for settlement in &batch {
            let name = (self.receipt_name)(settlement.receipt());
            let known = lock(&self.names).get(&name).cloned();
            let (id, content) = known.unwrap_or_else(|| ("-".to_owned(), Fingerprint::off()));
            self.history.settled(&id, content, name, settlement.verdict());
            asked.push((id, content, settlement.verdict()));
        }
        let answers = self.inner.settle(batch).await;
        for ((id, content, verdict), answer) in asked.into_iter().zip(&answers) {
            self.history.push(Entry::Answered {
                id,
                content,
                verdict,
                settled: answer.as_ref().ok().copied(),
            });
        }
        answers
    }
}
