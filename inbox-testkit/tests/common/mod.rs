//! A consumer written by hand on the state machine alone: sequential, without lanes, retries for ever.
//! It stands in for a runner where the kit itself is under test.
// Every test program has its own copy and uses a part of it.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use inbox_core::*;
use inbox_testkit::*;

pub fn group() -> Group {
    Group::new("billing").unwrap()
}

pub fn key(id: &str) -> ClaimKey {
    ClaimKey { scope: Scope::default(), id: MessageId::new(id).unwrap() }
}

pub fn content(text: &str) -> Fingerprint {
    Fingerprint::of_payload(Some(text.as_bytes()))
}

pub fn request(id: &str) -> ClaimRequest {
    ClaimRequest { key: key(id), fingerprint: content(id) }
}

pub fn message_of(inbound: Inbound) -> Message {
    let id = inbound.native_id.as_deref().unwrap_or("none").to_owned();
    let fingerprint = Fingerprint::of_payload(inbound.payload.as_deref());
    Message::new(key(&id), fingerprint, inbound)
}

/// A message that came from no broker.
pub fn message(id: &str, payload: &str) -> Message {
    let partition = Partition { source: Source::new("test"), number: 0 };
    let mut inbound = Inbound::new(partition, Some(payload.to_owned().into()));
    inbound.native_id = Some(id.into());
    message_of(inbound)
}

pub fn credit() -> Credit {
    Credit::new(100, 1 << 20)
}

pub async fn deliveries<B: Broker>(broker: &mut B, credit: &Credit) -> Vec<Delivery<B::Receipt>> {
    match broker.next(credit).await.unwrap() {
        Event::Deliveries(deliveries) => deliveries,
        other => panic!("expected deliveries, not {:?}", std::mem::discriminant(&other)),
    }
}

pub fn ids<R>(deliveries: &[Delivery<R>]) -> Vec<&str> {
    deliveries.iter().map(|d| d.inbound.native_id.as_deref().unwrap_or("-")).collect()
}

/// The only way to an acknowledgement: through a committed unit of work.
pub async fn acknowledgement<R: std::fmt::Debug>(delivery: Delivery<R>) -> Settlement<R> {
    let store = MemoryDatabase::new().store();
    let unit = Unit::begin(&store, &TxLimits::default()).await.unwrap();
    let claimed = unit.enter(Received::new(message_of(delivery.inbound), delivery.receipt));
    unit.commit(vec![claimed.applied()]).await.unwrap().remove(0)
}

pub fn release<R>(delivery: Delivery<R>) -> Settlement<R> {
    Received::new(message_of(delivery.inbound), delivery.receipt).release(None)
}

/// The rig of one life.
pub struct Rig<'a> {
    pub history: &'a History,
    pub plan: &'a CrashPlan,
    pub group: Group,
}

impl Rig<'_> {
    /// Consumes until the broker ends. Payload `poison` dies; everything that fails is tried again.
    pub async fn consume<B, S>(&self, mut broker: B, store: S)
    where
        B: Broker,
        S: Letters<Tx = MemoryTx>,
    {
        let ack = broker.ack_handle();
        loop {
            match broker.next(&credit()).await {
                Ok(Event::Deliveries(deliveries)) => {
                    for delivery in deliveries {
                        let message = message_of(delivery.inbound);
                        let settlement = self.one(&store, Received::new(message, delivery.receipt)).await;
                        let _redelivered_if_lost = ack.settle(vec![settlement]).await;
                    }
                }
                Ok(Event::Ended) => return,
                Ok(_) => {}
                Err(error) => assert!(error.is_transient(), "{error}"),
            }
        }
    }

    async fn one<S, R>(&self, store: &S, mut received: Received<R>) -> Settlement<R>
    where
        S: Letters<Tx = MemoryTx>,
    {
        for _ in 0..100 {
            received = match self.attempt(store, received).await {
                Ok(settlement) => return settlement,
                Err(received) => received,
            };
        }
        panic!("{} fails for ever", received.message().id())
    }

    async fn attempt<S, R>(&self, store: &S, received: Received<R>) -> Result<Settlement<R>, Received<R>>
    where
        S: Letters<Tx = MemoryTx>,
    {
        let Ok(mut unit) = Unit::begin(store, &TxLimits::default()).await else { return Err(received) };
        let mut answers = match unit.claim(&self.group, vec![received]).await {
            Ok(answers) => answers,
            Err(mut failed) => {
                let _gone = unit.rollback().await;
                return Err(failed.received.remove(0));
            }
        };
        let finished = match answers.remove(0) {
            Answer::Found(found) => {
                let _gone = unit.rollback().await;
                return Ok(found.settle());
            }
            Answer::Conflict(conflicting) => {
                unit.record_conflicts(store, &self.group, vec![conflicting]).await.map(|mut f| f.remove(0))
            }
            Answer::Fresh(claimed) if claimed.message().payload().is_some_and(|p| &p[..] == b"poison") => {
                let letter = Letter::new(claimed.message().clone(), LetterReason::Failed, "poison", 1);
                unit.bury(store, &self.group, vec![(claimed, letter)]).await.map(|mut f| f.remove(0))
            }
            Answer::Fresh(claimed) => {
                let message = claimed.message().clone();
                self.history.handler_started(message.id(), message.fingerprint());
                let ok = self.handle(unit.lend().unwrap(), &message).await;
                self.history.handler_ended(message.id(), ok);
                assert!(unit.take_back());
                if !ok {
                    let _gone = unit.rollback().await;
                    return Err(claimed.undo());
                }
                Ok(claimed.applied())
            }
        };
        let finished = match finished {
            Ok(finished) => finished,
            Err(mut failed) => {
                let _gone = unit.rollback().await;
                return Err(failed.received.remove(0));
            }
        };
        match unit.commit(vec![finished]).await {
            Ok(mut settlements) => Ok(settlements.remove(0)),
            Err(CommitFailed::RolledBack { mut received, .. }) => Err(received.remove(0)),
            Err(CommitFailed::InDoubt(mut doubt)) => loop {
                doubt = match doubt.resolve(store, &self.group).await {
                    Ok(Resolved::Committed(mut settlements)) => return Ok(settlements.remove(0)),
                    Ok(Resolved::RolledBack(mut received)) => return Err(received.remove(0)),
                    Err((doubt, _)) => doubt,
                }
            },
        }
    }

    /// The deref of a lent transaction is checked on the way: `Tx<S>` is a `MemoryConnection` to it.
    async fn handle<S: InboxStore<Tx = MemoryTx>>(&self, mut tx: Tx<S>, message: &Message) -> bool {
        if self.plan.handler_point(message.id()).await.is_err() {
            // A half effect that the rollback must take away.
            tx.append(EFFECTS, message).unwrap();
            return false;
        }
        apply_effect(&mut tx, message).is_ok()
    }
}
