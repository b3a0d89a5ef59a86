//! A broker under a plan.

use super::{Call, CrashPlan, Reaction};
use async_trait::async_trait;
use inbox_core::{
    Ack, AckError, Broker, BrokerError, Capabilities, Credit, Delivery, Event, Settled, Settlement,
};
use std::collections::VecDeque;
use tokio::time::Instant;

/// A broker whose calls are counted and hit by a [`CrashPlan`].
///
/// `next` is counted when it answers with deliveries or the end, because a caller may ask and cancel
/// any number of times. A refused one answers with a transient error first and with its deliveries then.
#[derive(Debug)]
pub struct CrashBroker<B: Broker> {
    inner: B,
    plan: CrashPlan,
    /// Deliveries held back behind an error.
    held_back: VecDeque<Delivery<B::Receipt>>,
}

impl<B: Broker> CrashBroker<B> {
    /// `inner` under `plan`.
    pub fn new(inner: B, plan: &CrashPlan) -> Self {
        Self { inner, plan: plan.clone(), held_back: VecDeque::new() }
    }

    /// What is held back of partitions that are taken away must not come after that was said.
    fn forget_taken_away(&mut self, event: &Event<B::Receipt>) {
        let taken = match event {
            Event::Revoked(revocation) => revocation.partitions(),
            Event::Lost(partitions) => partitions,
            _ => return,
        };
        self.held_back.retain(|delivery| !taken.contains(&delivery.inbound.partition));
    }

    /// As many of the deliveries held back as the credit lets through.
    fn let_through(&mut self, credit: &Credit) -> Vec<Delivery<B::Receipt>> {
        let mut through = Vec::new();
        let mut bytes = 0;
        while let Some(delivery) = self.held_back.front() {
            let larger = bytes + delivery.inbound.bytes();
            let fits = through.len() < credit.messages
                && credit.bytes > 0
                && (through.is_empty() || larger <= credit.bytes)
                && !credit.held.contains(&delivery.inbound.partition);
            if !fits {
                break;
            }
            bytes = larger;
            through.extend(self.held_back.pop_front());
        }
        through
    }
}

#[async_trait]
impl<B: Broker> Broker for CrashBroker<B> {
    type Receipt = B::Receipt;
    type Ack = CrashAck<B::Ack>;

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn ack_handle(&self) -> Self::Ack {
        CrashAck { inner: self.inner.ack_handle(), plan: self.plan.clone() }
    }

    async fn next(&mut self, credit: &Credit) -> Result<Event<B::Receipt>, BrokerError> {
        self.plan.survived().await;
        let through = self.let_through(credit);
        if !through.is_empty() {
            return Ok(Event::Deliveries(through));
        }
        let event = if self.held_back.is_empty() {
            self.inner.next(credit).await?
        } else {
            // Nothing may overtake what is held back.
            let event = self.inner.next(&Credit::new(0, 0)).await?;
            self.forget_taken_away(&event);
            return Ok(event);
        };
        let about = match &event {
            Event::Deliveries(deliveries) => format!("{} deliveries", deliveries.len()),
            Event::Ended => "ended".to_owned(),
            _ => return Ok(event),
        };
        self.plan.survived().await;
        match self.plan.pass(Call::Next, &about) {
            None => Ok(event),
            Some(Reaction::CrashBefore | Reaction::CrashReplyLost) => self.plan.crash().await,
            Some(Reaction::CrashAfter) => {
                self.plan.set_crashed();
                Ok(event)
            }
            Some(Reaction::Refuse | Reaction::AnswerLost | Reaction::RequestLost) => {
                if let Event::Deliveries(deliveries) = event {
                    self.held_back = deliveries.into();
                }
                Err(BrokerError::transient("the plan lets the broker fail"))
            }
        }
    }

    async fn close(self, by: Instant) -> Result<(), BrokerError> {
        self.plan.survived().await;
        self.inner.close(by).await
    }
}

/// Settlements under a plan.
#[derive(Debug, Clone)]
pub struct CrashAck<A> {
    inner: A,
    plan: CrashPlan,
}

#[async_trait]
impl<A: Ack> Ack for CrashAck<A> {
    type Receipt = A::Receipt;

    async fn settle(&self, batch: Vec<Settlement<A::Receipt>>) -> Vec<Result<Settled, AckError>> {
        let count = batch.len();
        let failed = || (0..count).map(|_| Err(AckError::new("broker", "the plan lets it fail"))).collect();
        let settle = async { Ok(self.inner.settle(batch).await) };
        self.plan.perform(Call::Settle, settle, failed, failed).await.unwrap_or_else(|answers| answers)
    }
}
