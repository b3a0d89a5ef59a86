//! The extractors: what a handler can ask for.
//!
//! Those that a message may lack come in two forms: plain, for which a message without it goes to a
//! letter, and in an `Option`.

use crate::{
    ClaimKey, Context, FromMessage, Group, Headers, Message, MessageId, Partition, Position, Undecodable,
};
use serde::de::DeserializeOwned;

/// The payload, decoded as JSON. A tombstone, or a payload that does not decode, goes to a letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Json<T>(pub T);

impl<App, T: DeserializeOwned + Send + 'static> FromMessage<App> for Json<T> {
    fn from_message(context: &Context<'_, App>) -> Result<Self, Undecodable> {
        let payload = context.message.payload().ok_or_else(|| Undecodable::new("there is no payload"))?;
        serde_json::from_slice(payload).map(Json).map_err(|error| Undecodable::new(error.to_string()))
    }
}

/// The payload's bytes, shared and not copied. A tombstone goes to a letter; ask for `Option<Bytes>` to
/// handle it.
impl<App> FromMessage<App> for bytes::Bytes {
    fn from_message(context: &Context<'_, App>) -> Result<Self, Undecodable> {
        context.message.payload().cloned().ok_or_else(|| Undecodable::new("there is no payload"))
    }
}

/// The payload's bytes, `None` for a tombstone.
impl<App> FromMessage<App> for Option<bytes::Bytes> {
    fn from_message(context: &Context<'_, App>) -> Result<Self, Undecodable> {
        Ok(context.message.payload().cloned())
    }
}

/// The payload, decoded as JSON; `None` for a tombstone. A payload that does not decode goes to a letter.
impl<App, T: DeserializeOwned + Send + 'static> FromMessage<App> for Option<Json<T>> {
    fn from_message(context: &Context<'_, App>) -> Result<Self, Undecodable> {
        context.message.payload().map(|_| Json::from_message(context)).transpose()
    }
}

impl<App> FromMessage<App> for Message {
    fn from_message(context: &Context<'_, App>) -> Result<Self, Undecodable> {
        Ok(context.message.clone())
    }
}

/// All headers. Copies the names; ask for the [`Message`] to look at them in place.
impl<App> FromMessage<App> for Headers {
    fn from_message(context: &Context<'_, App>) -> Result<Self, Undecodable> {
        Ok(context.message.headers().clone())
    }
}

/// The ordering key, `None` when there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key(pub Option<bytes::Bytes>);

impl<App> FromMessage<App> for Key {
    fn from_message(context: &Context<'_, App>) -> Result<Self, Undecodable> {
        Ok(Self(context.message.key().cloned()))
    }
}

/// When the message was produced, in milliseconds since 1970-01-01 UTC. A message that does not tell goes
/// to a letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimestampMs(pub i64);

impl<App> FromMessage<App> for TimestampMs {
    fn from_message(context: &Context<'_, App>) -> Result<Self, Undecodable> {
        Option::from_message(context)?.ok_or_else(|| Undecodable::new("there is no timestamp"))
    }
}

/// When the message was produced, `None` when it does not tell.
impl<App> FromMessage<App> for Option<TimestampMs> {
    fn from_message(context: &Context<'_, App>) -> Result<Self, Undecodable> {
        Ok(context.message.timestamp_ms().map(TimestampMs))
    }
}

/// The partition that the message came from.
impl<App> FromMessage<App> for Partition {
    fn from_message(context: &Context<'_, App>) -> Result<Self, Undecodable> {
        Ok(context.message.partition().clone())
    }
}

/// The place in the partition. From a broker without lasting positions every message goes to a letter.
impl<App> FromMessage<App> for Position {
    fn from_message(context: &Context<'_, App>) -> Result<Self, Undecodable> {
        context.message.position().ok_or_else(|| Undecodable::new("there is no position"))
    }
}

/// The place in the partition, `None` where the broker has no lasting positions.
impl<App> FromMessage<App> for Option<Position> {
    fn from_message(context: &Context<'_, App>) -> Result<Self, Undecodable> {
        Ok(context.message.position())
    }
}

/// The id that the message is claimed under.
impl<App> FromMessage<App> for MessageId {
    fn from_message(context: &Context<'_, App>) -> Result<Self, Undecodable> {
        Ok(context.message.claim_key().id.clone())
    }
}

/// Scope and id that the message is claimed under.
impl<App> FromMessage<App> for ClaimKey {
    fn from_message(context: &Context<'_, App>) -> Result<Self, Undecodable> {
        Ok(context.message.claim_key().clone())
    }
}

/// The consumer group that the message is handled for.
impl<App> FromMessage<App> for Group {
    fn from_message(context: &Context<'_, App>) -> Result<Self, Undecodable> {
        Ok(context.group.clone())
    }
}

/// A part of the application's state, given with [`with_state`](crate::with_state).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State<T>(pub T);

/// Takes a part out of the application's state; every cloneable state is a part of itself.
pub trait FromRef<App> {
    /// Takes it.
    fn from_ref(app: &App) -> Self;
}

impl<T: Clone> FromRef<T> for T {
    fn from_ref(app: &T) -> Self {
        app.clone()
    }
}

impl<App, T: FromRef<App> + Send + 'static> FromMessage<App> for State<T> {
    fn from_message(context: &Context<'_, App>) -> Result<Self, Undecodable> {
        Ok(Self(T::from_ref(context.app)))
    }
}

/// Which attempt this is, from 1. Attempts are counted by this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt(pub u32);

impl<App> FromMessage<App> for Attempt {
    fn from_message(context: &Context<'_, App>) -> Result<Self, Undecodable> {
        Ok(Self(context.attempt))
    }
}

/// [`Message::idempotency_key`]: the same in every delivery and attempt, for effects outside the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey(pub String);

impl<App> FromMessage<App> for IdempotencyKey {
    fn from_message(context: &Context<'_, App>) -> Result<Self, Undecodable> {
        Ok(Self(context.message.idempotency_key(context.group)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fingerprint, Inbound, Scope, Source};
    use bytes::Bytes;

    fn partition() -> Partition {
        Partition { source: Source::new("log"), number: 3 }
    }

    fn message(inbound: Inbound) -> Message {
        let claim = ClaimKey { scope: Scope::new("shop").unwrap(), id: MessageId::new("e-102").unwrap() };
        Message::new(claim, Fingerprint::off(), inbound)
    }

    fn full() -> Message {
        let mut inbound = Inbound::new(partition(), Some(r#"{"value":12500}"#.into()));
        inbound.key = Some("k".into());
        inbound.position = Some(Position { at: 8, next: 9 });
        inbound.timestamp_ms = Some(-1);
        inbound.headers.push("trace", Some("abc".into()));
        message(inbound)
    }

    fn tombstone() -> Message {
        message(Inbound::new(partition(), None))
    }

    fn take<T: FromMessage<u8>>(message: &Message) -> Result<T, Undecodable> {
        let group = Group::new("billing").unwrap();
        T::from_message(&Context { message, group: &group, attempt: 2, app: &7 })
    }

    fn refusal<T: FromMessage<u8>>(message: &Message) -> String {
        take::<T>(message).err().unwrap().to_string()
    }

    #[derive(Debug, PartialEq, serde::Deserialize)]
    struct Attempted {
        value: u64,
    }

    #[test]
    fn a_payload_is_taken_as_bytes_or_json() {
        let full = full();
        assert_eq!(take::<Json<Attempted>>(&full).unwrap().0, Attempted { value: 12500 });
        assert_eq!(take::<Option<Json<Attempted>>>(&full).unwrap(), Some(Json(Attempted { value: 12500 })));
        assert_eq!(take::<Bytes>(&full).unwrap(), r#"{"value":12500}"#);
        assert_eq!(take::<Option<Bytes>>(&full).unwrap().unwrap(), r#"{"value":12500}"#);
        assert_eq!(
            refusal::<Json<u8>>(&full),
            "undecodable: invalid type: map, expected u8 at line 1 column 0"
        );
        assert!(take::<Option<Json<u8>>>(&full).is_err());
    }

    #[test]
    fn a_tombstone_has_no_payload_and_all_the_rest() {
        let tombstone = tombstone();
        assert_eq!(refusal::<Json<Attempted>>(&tombstone), "undecodable: there is no payload");
        assert_eq!(refusal::<Bytes>(&tombstone), "undecodable: there is no payload");
        assert_eq!(take::<Option<Json<Attempted>>>(&tombstone).unwrap(), None);
        assert_eq!(take::<Option<Bytes>>(&tombstone).unwrap(), None);
        assert_eq!(take::<Message>(&tombstone).unwrap().id(), "e-102");
        assert_eq!(take::<MessageId>(&tombstone).unwrap().as_str(), "e-102");
    }

    #[test]
    fn an_empty_payload_is_no_tombstone() {
        let empty = message(Inbound::new(partition(), Some(Bytes::new())));
        assert_eq!(take::<Option<Bytes>>(&empty).unwrap(), Some(Bytes::new()));
        assert!(take::<Option<Json<Attempted>>>(&empty).is_err());
    }

    #[test]
    fn what_stands_beside_the_payload_is_taken() {
        let full = full();
        assert_eq!(take::<Headers>(&full).unwrap().get("trace").unwrap(), "abc");
        assert_eq!(take::<Key>(&full).unwrap(), Key(Some("k".into())));
        assert_eq!(take::<TimestampMs>(&full).unwrap(), TimestampMs(-1));
        assert_eq!(take::<Option<TimestampMs>>(&full).unwrap(), Some(TimestampMs(-1)));
        assert_eq!(take::<Position>(&full).unwrap().at, 8);
        assert_eq!(take::<Option<Position>>(&full).unwrap().unwrap().next, 9);
        assert_eq!(take::<Partition>(&full).unwrap(), partition());
        assert_eq!(take::<ClaimKey>(&full).unwrap(), *full.claim_key());
    }

    #[test]
    fn what_is_not_there_is_none_or_refused() {
        let bare = tombstone();
        assert!(take::<Headers>(&bare).unwrap().is_empty());
        assert_eq!(take::<Key>(&bare).unwrap(), Key(None));
        assert_eq!(take::<Option<TimestampMs>>(&bare).unwrap(), None);
        assert_eq!(take::<Option<Position>>(&bare).unwrap(), None);
        assert_eq!(refusal::<TimestampMs>(&bare), "undecodable: there is no timestamp");
        assert_eq!(refusal::<Position>(&bare), "undecodable: there is no position");
    }

    #[test]
    fn the_run_gives_group_attempt_state_and_idempotency_key() {
        let full = full();
        assert_eq!(take::<Group>(&full).unwrap().as_str(), "billing");
        assert_eq!(take::<Attempt>(&full).unwrap(), Attempt(2));
        assert_eq!(take::<State<u8>>(&full).unwrap(), State(7));
        let key = take::<IdempotencyKey>(&full).unwrap();
        assert_eq!(key.0, full.idempotency_key(&Group::new("billing").unwrap()));
        // `printf '\0\0\0\0\0\0\0\007billing\0\0\0\0\0\0\0\004shop\0\0\0\0\0\0\0\005e-102' | sha256sum`
        assert_eq!(key.0, "8dae4fc50f8852f57ff845e02d2efd169b5f8dd5c69cc9820d6f3660e17b4d96");
    }
}
