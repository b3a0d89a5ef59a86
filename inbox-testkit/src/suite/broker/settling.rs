//! Settlements as the state machine makes them: there is no other way to one.

use crate::MemoryDatabase;
use inbox_core::{
    ClaimKey, Delivery, Fingerprint, Inbound, Message, MessageId, Received, Scope, Settlement, TxLimits, Unit,
};
use std::time::Duration;

fn received<R>(inbound: Inbound, receipt: R) -> Received<R> {
    // Broker cases do not claim, so one id will do for all.
    let claim = ClaimKey { scope: Scope::default(), id: MessageId::new("any").expect("an id") };
    let fingerprint = Fingerprint::of_payload(inbound.payload.as_deref());
    Received::new(Message::new(claim, fingerprint, inbound), receipt)
}

/// Commits a unit of work about the delivery.
pub(crate) async fn acknowledgement<R>(delivery: Delivery<R>) -> Settlement<R> {
    let store = MemoryDatabase::new().store();
    let unit = Unit::begin(&store, &TxLimits::default()).await.expect("a unit begins");
    let claimed = unit.enter(received(delivery.inbound, delivery.receipt));
    let settlements = unit.commit(vec![claimed.applied()]).await;
    let Ok(mut settlements) = settlements else { panic!("a unit without a claim commits") };
    settlements.remove(0)
}

/// Gives the delivery back.
pub(crate) fn release<R>(delivery: Delivery<R>, after: Option<Duration>) -> Settlement<R> {
    received(delivery.inbound, delivery.receipt).release(after)
}
