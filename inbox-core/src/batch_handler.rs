//! Handlers of whole batches, for set-based SQL.

use crate::{
    Context, Failure, FromMessage, Group, InboxStore, Message, Tx,
    handler::{AnyHandler, Prepared, Refusal},
};
use futures_util::future::BoxFuture;
use std::{any::Any, future::Future, marker::PhantomData};

/// A message and what was taken from it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Item<T> {
    /// The message.
    pub message: Message,
    /// The extractor's value.
    pub value: T,
}

/// Gets the freshly claimed messages of a unit of work at once, in the order of their arrival, at least
/// one. Async functions and closures of `(Vec<Item<T>>, Tx<S>)` are batch handlers, where `T` is an
/// extractor.
///
/// When it fails, the batch is halved until the messages at fault are alone; only those are charged.
pub trait BatchHandler<S: InboxStore, T>: Send + Sync + 'static {
    /// Handles them.
    fn handle(&self, items: Vec<Item<T>>, tx: Tx<S>) -> BoxFuture<'static, Result<(), Failure>>;
}

impl<S, T, F, Fut, E> BatchHandler<S, T> for F
where
    S: InboxStore,
    F: Fn(Vec<Item<T>>, Tx<S>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), E>> + Send + 'static,
    E: Into<Failure> + 'static,
{
    fn handle(&self, items: Vec<Item<T>>, tx: Tx<S>) -> BoxFuture<'static, Result<(), Failure>> {
        let outcome = self(items, tx);
        Box::pin(async move { outcome.await.map_err(Into::into) })
    }
}

pub(crate) struct Batched<H, T> {
    pub(crate) handler: H,
    pub(crate) value: PhantomData<fn() -> T>,
}

impl<S, T, H> AnyHandler<S> for Batched<H, T>
where
    S: InboxStore,
    T: FromMessage<()>,
    H: BatchHandler<S, T>,
{
    fn prepare(&self, message: &Message, group: &Group, attempt: u32) -> Result<Prepared<S>, Refusal> {
        let value = T::from_message(&Context { message, group, attempt, app: &() })?;
        Ok(Prepared::Item(Box::new(Item { message: message.clone(), value })))
    }

    fn run_batch(
        &self,
        items: Vec<Box<dyn Any + Send>>,
        tx: Tx<S>,
    ) -> BoxFuture<'static, Result<(), Failure>> {
        // Made by `prepare` above, so of this type.
        let items =
            items.into_iter().filter_map(|item| item.downcast::<Item<T>>().ok()).map(|item| *item).collect();
        self.handler.handle(items, tx)
    }
}
