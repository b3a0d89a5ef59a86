//! A broker over the messages that an inbox keeps.

use crate::{
    Ack, AckError, AckStrength, Broker, BrokerError, Capabilities, ClaimKey, Credit, Delivery, Event,
    FaultClass, Group, Order, Settled, Settlement, StoredInbox, StoredMessage, chain_text,
};
use async_trait::async_trait;
use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

/// Delivers what a group's inbox keeps and is due: the retries of the strategy *at least once, on
/// persist*. A runner over it takes messages out of their rows in the transaction of the effect.
///
/// | | |
/// |---|---|
/// | order | that in which messages were kept; a failed one comes later |
/// | acknowledgement | the row itself |
/// | attempts | counted in the row |
#[derive(Debug)]
pub struct StoredMessages<S> {
    store: S,
    group: Group,
    poll: Duration,
    ends: bool,
    /// Given out and not settled.
    open: Open,
}

type Open = Arc<Mutex<HashSet<ClaimKey>>>;

impl<S: StoredInbox> StoredMessages<S> {
    /// What `group` keeps in `store`. It ends when nothing is kept any more.
    pub fn new(store: S, group: Group) -> Self {
        Self { store, group, poll: Duration::from_secs(1), ends: true, open: Open::default() }
    }

    /// Never ends: looks for kept messages at least this often.
    #[must_use]
    pub fn follow(self, poll: Duration) -> Self {
        Self { poll, ends: false, ..self }
    }

    /// What is due and not given out yet.
    async fn due(&self, credit: &Credit) -> Result<Vec<StoredMessage>, BrokerError> {
        if credit.is_empty() {
            return Ok(Vec::new());
        }
        let open = || self.open.lock().unwrap_or_else(PoisonError::into_inner);
        // What is given out may still be due, and stands in front.
        let rows_max = u32::try_from(credit.messages.saturating_add(open().len())).unwrap_or(u32::MAX);
        let mut due = self.store.due(&self.group, rows_max).await.map_err(|error| self.failed(&error))?;
        let open = open();
        let mut bytes = credit.bytes;
        let mut taken = 0;
        due.retain(|stored| {
            let size = stored.message.inbound().bytes();
            let fits = taken < credit.messages && (size <= bytes || taken == 0);
            let take = fits && !open.contains(stored.message.claim_key());
            if take {
                taken += 1;
                bytes = bytes.saturating_sub(size);
            }
            take
        });
        Ok(due)
    }

    fn failed(&self, error: &crate::StoreError) -> BrokerError {
        let message = format!("reading kept messages from {}: {}", self.store.describe(), chain_text(error));
        match error.class() {
            Some(FaultClass::Permanent | FaultClass::HandlerFault) => BrokerError::fatal(message),
            _ => BrokerError::transient(message),
        }
    }
}

#[async_trait]
impl<S: StoredInbox> Broker for StoredMessages<S> {
    type Receipt = ClaimKey;
    type Ack = StoredAck;

    fn capabilities(&self) -> Capabilities {
        Capabilities::new(AckStrength::Sent).order(Order::None).counts_deliveries(true).reads_stored(true)
    }

    fn ack_handle(&self) -> StoredAck {
        StoredAck { open: Arc::clone(&self.open) }
    }

    async fn next(&mut self, credit: &Credit) -> Result<Event<ClaimKey>, BrokerError> {
        loop {
            let due = self.due(credit).await?;
            if !due.is_empty() {
                let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
                let deliveries = due.into_iter().map(|StoredMessage { message, attempts, .. }| {
                    let claim = message.claim_key().clone();
                    open.insert(claim.clone());
                    let mut delivery = Delivery::new(message.inbound().clone(), claim.clone());
                    delivery.deliveries_before = Some(attempts);
                    delivery.known = Some((claim, message.fingerprint()));
                    delivery
                });
                return Ok(Event::Deliveries(deliveries.collect()));
            }
            let next_due = self.store.next_due(&self.group).await.map_err(|error| self.failed(&error))?;
            let is_idle = self.open.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
            if self.ends && next_due.is_none() && is_idle {
                return Ok(Event::Ended);
            }
            // Something due that is given out, or no credit: it is looked at again like the rest.
            let wait = next_due.filter(|wait| !wait.is_zero()).unwrap_or(self.poll).min(self.poll);
            tokio::time::sleep(wait).await;
        }
    }

    async fn close(self, _: Instant) -> Result<(), BrokerError> {
        Ok(())
    }
}

/// Takes settlements of kept messages: their rows tell everything else.
#[derive(Debug, Clone)]
pub struct StoredAck {
    open: Open,
}

#[async_trait]
impl Ack for StoredAck {
    type Receipt = ClaimKey;

    async fn settle(&self, batch: Vec<Settlement<ClaimKey>>) -> Vec<Result<Settled, AckError>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let settle = |settlement: Settlement<ClaimKey>| {
            let (claim, _) = settlement.into_parts();
            Ok(if open.remove(&claim) { Settled::Sent } else { Settled::Stale })
        };
        batch.into_iter().map(settle).collect()
    }
}
