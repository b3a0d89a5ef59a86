//! What is done around every handler.

use crate::{Call, Failure, InboxStore, Message, Tx};
use async_trait::async_trait;
use futures_util::future::BoxFuture;
use std::{future::Future, sync::Arc};

/// Runs around handlers, inside the transaction: it may write through it, refuse, or time what comes
/// behind it. Async functions and closures of `(Message, Tx<S>, Next<S>)` are middleware.
///
/// ```
/// use inbox_core::{Failure, InboxStore, Message, Next, Tx};
///
/// async fn only_with_payload<S: InboxStore>(message: Message, tx: Tx<S>, next: Next<S>) -> Result<(), Failure> {
///     if message.payload().is_none() {
///         return Err(Failure::message("a tombstone").permanent());
///     }
///     next.run(tx).await
/// }
/// ```
#[async_trait]
pub trait Middleware<S: InboxStore>: Send + Sync + 'static {
    /// Handles a message, with `next` for what comes behind. Not calling it skips the handler; returning
    /// `Ok` then counts as applied.
    ///
    /// # Errors
    /// The attempt failed, as if the handler had.
    async fn around(&self, message: Message, tx: Tx<S>, next: Next<S>) -> Result<(), Failure>;
}

#[async_trait]
impl<S, F, Fut> Middleware<S> for F
where
    S: InboxStore,
    F: Fn(Message, Tx<S>, Next<S>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), Failure>> + Send + 'static,
{
    async fn around(&self, message: Message, tx: Tx<S>, next: Next<S>) -> Result<(), Failure> {
        self(message, tx, next).await
    }
}

/// The handler, or the middleware in front of it.
#[must_use = "without `run` the handler is skipped"]
pub struct Next<S: InboxStore> {
    call: Call<S>,
}

impl<S: InboxStore> Next<S> {
    /// Goes on with the transaction.
    ///
    /// # Errors
    /// The handler's.
    pub async fn run(self, tx: Tx<S>) -> Result<(), Failure> {
        (self.call)(tx).await
    }
}

impl<S: InboxStore> std::fmt::Debug for Next<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Next")
    }
}

/// Puts `layers` around `call`, the first one outermost.
pub(crate) fn wrap<S: InboxStore>(
    layers: &[Arc<dyn Middleware<S>>],
    message: &Message,
    call: Call<S>,
) -> Call<S> {
    layers.iter().rev().fold(call, |call, layer| {
        let (layer, message) = (Arc::clone(layer), message.clone());
        Box::new(move |tx| -> BoxFuture<'static, Result<(), Failure>> {
            Box::pin(async move { layer.around(message, tx, Next { call }).await })
        })
    })
}
