//! Every single fault of a run that keeps first and handles later, by hand on the store alone.
// A failure here is a failed test.
#![allow(clippy::unwrap_used)]

use crate::{CrashPlan, CrashStore, Life, POISON, World, live, schedules};
use inbox_core::{
    Claim, ClaimKey, ClaimRequest, Disposition, Fingerprint, Group, Inbound, InboxStore, Letter,
    LetterReason, Letters, Message, MessageId, Partition, Scope, Source, StoredInbox, StoredMessage,
    TxLimits,
};
use std::{error::Error, time::Duration};

type Outcome = Result<(), Box<dyn Error + Send + Sync>>;

/// How often the poison is tried.
const ATTEMPTS_MAX: u32 = 2;

fn group() -> Group {
    Group::new("billing").unwrap()
}

fn message(id: &str, payload: &'static str) -> Message {
    let partition = Partition { source: Source::new("test"), number: 0 };
    let key = ClaimKey { scope: Scope::default(), id: MessageId::new(id).unwrap() };
    let fingerprint = Fingerprint::of_payload(Some(payload.as_bytes()));
    Message::new(key, fingerprint, Inbound::new(partition, Some(payload.into())))
}

fn request(message: &Message) -> ClaimRequest {
    ClaimRequest { key: message.claim_key().clone(), fingerprint: message.fingerprint() }
}

/// A delivery: kept, unless it is known.
async fn receive<S: StoredInbox>(store: &S, message: &Message) -> Outcome {
    let mut tx = store.begin(&TxLimits::default()).await?;
    if store.claim(&mut tx, &group(), &[request(message)]).await? == [Claim::Fresh] {
        store.keep(&mut tx, &group(), std::slice::from_ref(message)).await?;
    }
    Ok(store.commit(tx).await?)
}

/// An attempt at a stored message. Poison leaves half an effect to be taken away.
async fn attempt<W: World>(store: &CrashStore<W::Store>, stored: &StoredMessage) -> Outcome
where
    W::Store: StoredInbox,
{
    let message = &stored.message;
    let mut tx = store.begin(&TxLimits::default()).await?;
    if store.reclaim(&mut tx, &group(), &[request(message)]).await? != [Claim::Fresh] {
        return Ok(store.rollback(tx).await?);
    }
    let is_poison = message.payload().is_some_and(|payload| payload == POISON.as_bytes());
    if is_poison && stored.attempts >= ATTEMPTS_MAX {
        let letter = Letter::new(message.clone(), LetterReason::Failed, POISON, stored.attempts);
        store.bury(&mut tx, &group(), &[letter]).await?;
        return Ok(store.commit(tx).await?);
    }
    W::apply(&mut tx, message).map_err(|failure| failure.to_string())?;
    if is_poison {
        store.rollback(tx).await?;
        // Due again at once, so that the calls are the same by every clock.
        let (attempts, retry_in) = (stored.attempts + 1, Duration::ZERO);
        let key = message.claim_key();
        return Ok(store.record_failure(&group(), key, attempts, POISON, retry_in).await?);
    }
    Ok(store.commit(tx).await?)
}

/// One life: everything is delivered, again if need be, then everything stored is handled.
async fn consume<W: World>(store: CrashStore<W::Store>, messages: Vec<Message>) -> Outcome
where
    W::Store: StoredInbox,
{
    for message in &messages {
        receive(&store, message).await?;
    }
    while store.next_due(&group()).await?.is_some() {
        for stored in store.due(&group(), 2).await? {
            attempt::<W>(&store, &stored).await?;
        }
    }
    Ok(())
}

/// Lives through every single fault of a run that keeps three messages, one of which always fails, and
/// handles them later; each in a new world. A life that a fault ends is followed by one without faults.
/// Gives the number of schedules.
///
/// # Panics
/// With the schedule, when a message was not handled exactly once.
pub fn every_single_fault_of_a_stored_run<W: World>(new_world: impl Fn() -> W) -> usize
where
    W::Store: StoredInbox,
{
    let messages = || vec![message("a", "a"), message("p", POISON), message("b", "b")];
    let life = |world: &W, plan: &CrashPlan| {
        live(plan, consume::<W>(CrashStore::new(world.open(), plan), messages())).unwrap()
    };
    let lived = |world: &W, plan: &CrashPlan, about: &str| {
        match life(world, plan) {
            Life::Ended(Ok(())) => {}
            Life::Stuck => panic!("{about}: stuck"),
            Life::Ended(Err(_)) | Life::Crashed => {
                let second = life(world, &CrashPlan::dry());
                assert!(matches!(second, Life::Ended(Ok(()))), "{about}: the second life: {second:?}");
            }
        }
        let state = world.state(&group());
        let mut ids: Vec<&str> = state.effects.iter().map(|row| row.id.as_str()).collect();
        ids.sort_unstable();
        assert_eq!((ids.as_slice(), state.counter), (&["a", "b"][..], 2), "{about}");
        assert_eq!(state.letters, ["p"], "{about}");
        let claims: Vec<Disposition> = state.claims.into_values().collect();
        let expected = [Disposition::Applied, Disposition::Applied, Disposition::Dead];
        assert_eq!(claims, expected, "{about}");
    };
    let dry = CrashPlan::dry();
    lived(&new_world(), &dry, "without a fault");
    let all = schedules(&dry.passages());
    for schedule in &all {
        let plan = CrashPlan::at(schedule.at, schedule.reaction);
        lived(&new_world(), &plan, &schedule.to_string());
        assert_eq!(plan.fired(), [*schedule]);
    }
    all.len()
}
