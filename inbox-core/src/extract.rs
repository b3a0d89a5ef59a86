//! The extractors: what a handler can ask for.

use crate::{Context, FromMessage, Message, Undecodable};
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

impl<App> FromMessage<App> for Message {
    fn from_message(context: &Context<'_, App>) -> Result<Self, Undecodable> {
        Ok(context.message.clone())
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
