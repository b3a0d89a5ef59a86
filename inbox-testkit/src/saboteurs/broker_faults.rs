//! A broker with one planted fault out of many.

use crate::suite::broker::acknowledgement;
use async_trait::async_trait;
use bytes::Bytes;
use inbox_core::{
    Ack, AckError, Broker, BrokerError, Capabilities, Credit, Delivery, Event, Headers, Settled, Settlement,
};
use std::collections::HashMap;
use tokio::time::Instant;

/// What a [`SpoiltBroker`] does wrong. For [`Cumulative::PlantedHighest`](crate::Cumulative) see the
/// fake broker itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BrokerFault {
    /// Acknowledges whatever it delivers.
    AcknowledgesAtDelivery,
    /// Waits between taking deliveries and handing them over.
    LosesWhenCancelled,
    /// Delivers as much as there is.
    CreditIgnored,
    /// Delivers also when there is no credit at all.
    EmptyCreditIgnored,
    /// Hands over in the wrong order.
    OrderForgotten,
    /// Loses what is given back.
    ReleasedDropped,
    /// Leaves the answer to the last settlement out.
    AnswersFewer,
    /// Loses the last settlement of a call and answers as if it had arrived.
    SettlementsLost,
    /// Answers receipts of before as if they counted.
    StaleConfirmed,
    /// Says that it has ended once, and is idle then.
    EndedOnce,
    /// Keeps what it delivered when it is closed.
    CloseKeeps,
    /// Delivers an empty payload for a tombstone.
    TombstonesFilled,
    /// Takes white space off payloads.
    PayloadsTrimmed,
    /// Keeps the last of several headers with one name.
    HeadersOnce,
    /// Leaves keys out.
    KeysLost,
    /// Answers every assignment itself.
    AssignmentsAnswered,
    /// Says that it counts deliveries, and counts none.
    CountsNothing,
}

/// Does one thing wrong and passes everything else on.
#[derive(Debug)]
pub struct SpoiltBroker<B: Broker> {
    inner: B,
    fault: BrokerFault,
    has_ended: bool,
}

impl<B: Broker> SpoiltBroker<B> {
    /// Spoils `inner`.
    pub fn new(inner: B, fault: BrokerFault) -> Self {
        Self { inner, fault, has_ended: false }
    }

    fn is(&self, fault: BrokerFault) -> bool {
        self.fault == fault
    }

    fn spoil(&self, delivery: &mut Delivery<B::Receipt>) {
        let inbound = &mut delivery.inbound;
        match self.fault {
            BrokerFault::TombstonesFilled => inbound.payload = inbound.payload.take().or(Some(Bytes::new())),
            BrokerFault::PayloadsTrimmed => {
                inbound.payload = inbound.payload.take().map(|payload| payload.trim_ascii().to_vec().into());
            }
            BrokerFault::HeadersOnce => {
                let mut once = Headers::new();
                let mut last: Vec<(&str, Option<&Bytes>)> = Vec::new();
                for (name, value) in inbound.headers.iter() {
                    last.retain(|(known, _)| *known != name);
                    last.push((name, value));
                }
                last.into_iter().for_each(|(name, value)| once.push(name, value.cloned()));
                inbound.headers = once;
            }
            BrokerFault::KeysLost => inbound.key = None,
            BrokerFault::CountsNothing => delivery.deliveries_before = Some(0),
            _ => {}
        }
    }
}

#[async_trait]
impl<B> Broker for SpoiltBroker<B>
where
    B: Broker<Receipt: Clone + Sync>,
{
    type Receipt = B::Receipt;
    type Ack = SpoiltAck<B::Ack>;

    fn capabilities(&self) -> Capabilities {
        let capabilities = self.inner.capabilities();
        if self.is(BrokerFault::CountsNothing) { capabilities.counts_deliveries(true) } else { capabilities }
    }

    fn ack_handle(&self) -> Self::Ack {
        SpoiltAck { inner: self.inner.ack_handle(), fault: self.fault }
    }

    async fn next(&mut self, credit: &Credit) -> Result<Event<B::Receipt>, BrokerError> {
        if self.has_ended {
            return Ok(Event::Idle);
        }
        let mut wanted = credit.clone();
        if self.is(BrokerFault::CreditIgnored) && !credit.is_empty() && credit.held.is_empty() {
            wanted = Credit::new(usize::MAX, usize::MAX);
        }
        if self.is(BrokerFault::EmptyCreditIgnored) && credit.is_empty() {
            wanted = Credit::new(1, 1);
        }
        let event = self.inner.next(&wanted).await?;
        match event {
            Event::Deliveries(mut deliveries) => {
                deliveries.iter_mut().for_each(|delivery| self.spoil(delivery));
                match self.fault {
                    BrokerFault::LosesWhenCancelled => tokio::task::yield_now().await,
                    BrokerFault::OrderForgotten => deliveries.reverse(),
                    BrokerFault::AcknowledgesAtDelivery => {
                        let mut batch = Vec::new();
                        for delivery in &deliveries {
                            let copy = Delivery::new(delivery.inbound.clone(), delivery.receipt.clone());
                            batch.push(acknowledgement(copy).await);
                        }
                        self.inner.ack_handle().settle(batch).await;
                    }
                    _ => {}
                }
                Ok(Event::Deliveries(deliveries))
            }
            Event::Assigned(assignment) if self.is(BrokerFault::AssignmentsAnswered) => {
                let (again, _nobody_listens) = inbox_core::Assignment::new(assignment.partitions().to_vec());
                assignment.start_at(HashMap::new());
                Ok(Event::Assigned(again))
            }
            Event::Ended => {
                self.has_ended = self.is(BrokerFault::EndedOnce);
                Ok(Event::Ended)
            }
            other => Ok(other),
        }
    }

    async fn close(self, by: Instant) -> Result<(), BrokerError> {
        if self.is(BrokerFault::CloseKeeps) {
            // Never dropped, so never disconnected.
            std::mem::forget(self.inner);
            return Ok(());
        }
        self.inner.close(by).await
    }
}

/// The settlements of a [`SpoiltBroker`].
#[derive(Debug, Clone)]
pub struct SpoiltAck<A> {
    inner: A,
    fault: BrokerFault,
}

#[async_trait]
impl<A: Ack<Receipt: Clone + Sync>> Ack for SpoiltAck<A> {
    type Receipt = A::Receipt;

    async fn settle(&self, mut batch: Vec<Settlement<A::Receipt>>) -> Vec<Result<Settled, AckError>> {
        if self.fault == BrokerFault::ReleasedDropped {
            let all = batch.len();
            batch.retain(|settlement| settlement.verdict().is_acknowledgement());
            let dropped = all - batch.len();
            let mut answers = self.inner.settle(batch).await;
            answers.extend((0..dropped).map(|_| Ok(Settled::Confirmed)));
            return answers;
        }
        if self.fault == BrokerFault::SettlementsLost && batch.pop().is_some() {
            let mut answers = self.inner.settle(batch).await;
            answers.push(Ok(Settled::Confirmed));
            return answers;
        }
        let mut answers = self.inner.settle(batch).await;
        match self.fault {
            BrokerFault::AnswersFewer => drop(answers.pop()),
            BrokerFault::StaleConfirmed => {
                answers.iter_mut().for_each(|answer| *answer = Ok(Settled::Confirmed))
            }
            _ => {}
        }
        answers
    }
}
