//! Handlers: plain async functions whose arguments are taken from the message.

use crate::{Failure, Group, InboxStore, Message, Tx};
use futures_util::future::BoxFuture;
use std::{any::Any, future::Future, marker::PhantomData, sync::Arc};

/// What extractors read from.
#[derive(Debug)]
pub struct Context<'a, App> {
    /// The message to be handled.
    pub message: &'a Message,
    /// The consumer group it is handled for.
    pub group: &'a Group,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    /// The application's state.
    pub app: &'a App,
}

/// Why an argument could not be taken from a message. Such a message goes straight to a letter: the
/// same bytes will not decode the next time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("undecodable: {why}")]
pub struct Undecodable {
    why: String,
}

impl Undecodable {
    /// With the decoder's message.
    pub fn new(why: impl Into<String>) -> Self {
        Self { why: why.into() }
    }
}

/// An argument of a handler, taken from the message before a transaction is opened.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be taken from a message",
    label = "not an extractor for the state `{App}`",
    note = "the lent transaction `Tx` is the last argument, and the state is given with `with_state`"
)]
pub trait FromMessage<App>: Sized + Send + 'static {
    /// Takes it.
    ///
    /// # Errors
    /// [`Undecodable`] when the message does not hold it.
    fn from_message(context: &Context<'_, App>) -> Result<Self, Undecodable>;
}

/// A handler whose arguments are taken: it needs only the transaction.
pub type Call<S> = Box<dyn FnOnce(Tx<S>) -> BoxFuture<'static, Result<(), Failure>> + Send>;

/// What a runner calls for each message. Implemented for async functions and closures of up to eight
/// extractors followed by the lent transaction:
///
/// ```
/// # use inbox_core::{Failure, InboxStore, Json, Tx};
/// # struct Order;
/// # impl<'de> serde::Deserialize<'de> for Order {
/// #     fn deserialize<D: serde::Deserializer<'de>>(_: D) -> Result<Self, D::Error> { Ok(Order) }
/// # }
/// # fn is_handler<S: InboxStore>() {
/// async fn create_invoice<S: InboxStore>(Json(order): Json<Order>, tx: Tx<S>) -> Result<(), Failure> {
///     // INSERT INTO invoices … through `tx`
///     Ok(())
/// }
/// # inbox_core::with_state((), create_invoice::<S>);
/// # }
/// ```
///
/// `Args` only tells the implementations apart.
#[diagnostic::on_unimplemented(
    message = "this is not a handler for the store `{S}`",
    note = "a handler is an async function whose last argument is `Tx<{S}>`, whose other arguments are \
            extractors (`FromMessage`), and which returns `Result<(), E>` with `E: Into<Failure>`",
    note = "its future has to be `Send`"
)]
pub trait Handler<S: InboxStore, App, Args>: Send + Sync + 'static {
    /// Takes the arguments.
    ///
    /// # Errors
    /// [`Undecodable`] when the message does not hold one of them.
    fn prepare(self: &Arc<Self>, context: &Context<'_, App>) -> Result<Call<S>, Undecodable>;
}

macro_rules! handler_of {
    ($($arg:ident),*) => {
        impl<S, App, F, Fut, E, $($arg),*> Handler<S, App, (Fut, $($arg,)*)> for F
        where
            S: InboxStore,
            F: Fn($($arg,)* Tx<S>) -> Fut + Send + Sync + 'static,
            Fut: Future<Output = Result<(), E>> + Send + 'static,
            E: Into<Failure> + 'static,
            $($arg: FromMessage<App>,)*
        {
            #[allow(non_snake_case, unused_variables)]
            fn prepare(self: &Arc<Self>, context: &Context<'_, App>) -> Result<Call<S>, Undecodable> {
                $(let $arg = $arg::from_message(context)?;)*
                let function = Arc::clone(self);
                Ok(Box::new(move |tx| {
                    let outcome = function($($arg,)* tx);
                    Box::pin(async move { outcome.await.map_err(Into::into) })
                }))
            }
        }
    };
}

handler_of!();
handler_of!(A1);
handler_of!(A1, A2);
handler_of!(A1, A2, A3);
handler_of!(A1, A2, A3, A4);
handler_of!(A1, A2, A3, A4, A5);
handler_of!(A1, A2, A3, A4, A5, A6);
handler_of!(A1, A2, A3, A4, A5, A6, A7);
handler_of!(A1, A2, A3, A4, A5, A6, A7, A8);

/// Gives a handler the application's state, which its [`State`](crate::State) arguments are taken from.
pub fn with_state<App, H>(app: App, handler: H) -> WithState<App, H> {
    WithState { app, handler: Arc::new(handler) }
}

/// A handler with its state, made by [`with_state`].
#[derive(Debug)]
pub struct WithState<App, H> {
    app: App,
    handler: Arc<H>,
}

impl<S, App, H, Args> Handler<S, (), (App, Args)> for WithState<App, H>
where
    S: InboxStore,
    App: Send + Sync + 'static,
    H: Handler<S, App, Args>,
{
    fn prepare(self: &Arc<Self>, context: &Context<'_, ()>) -> Result<Call<S>, Undecodable> {
        let Context { message, group, attempt, app: () } = *context;
        self.handler.prepare(&Context { message, group, attempt, app: &self.app })
    }
}

/// What a handler, or the router, makes of a message.
pub(crate) enum Prepared<S: InboxStore> {
    /// To be called with the transaction.
    Call(Call<S>),
    /// To be handed to [`AnyHandler::run_batch`] together with others.
    Item(Box<dyn Any + Send>),
    /// To be acknowledged without a row.
    Ignore,
}

/// Why a message is not handled.
#[derive(Debug)]
pub(crate) enum Refusal {
    Undecodable(Undecodable),
    /// Its type has no route.
    UnknownType {
        message_type: Option<String>,
        halt: bool,
    },
}

impl From<Undecodable> for Refusal {
    fn from(undecodable: Undecodable) -> Self {
        Self::Undecodable(undecodable)
    }
}

/// A handler of which only the store is known.
pub(crate) trait AnyHandler<S: InboxStore>: Send + Sync + 'static {
    fn prepare(&self, message: &Message, group: &Group, attempt: u32) -> Result<Prepared<S>, Refusal>;

    /// Handles what was prepared as [`Prepared::Item`]; only batch handlers prepare such.
    fn run_batch(
        &self,
        items: Vec<Box<dyn Any + Send>>,
        tx: Tx<S>,
    ) -> BoxFuture<'static, Result<(), Failure>> {
        drop((items, tx));
        Box::pin(async { Err(Failure::message("this handler takes no batches")) })
    }
}

pub(crate) fn erase<S: InboxStore, Args: 'static, H: Handler<S, (), Args>>(
    handler: H,
) -> Arc<dyn AnyHandler<S>> {
    Arc::new(Erased { handler: Arc::new(handler), args: PhantomData::<fn() -> Args> })
}

struct Erased<H, Args> {
    handler: Arc<H>,
    args: PhantomData<fn() -> Args>,
}

impl<S: InboxStore, Args: 'static, H: Handler<S, (), Args>> AnyHandler<S> for Erased<H, Args> {
    fn prepare(&self, message: &Message, group: &Group, attempt: u32) -> Result<Prepared<S>, Refusal> {
        let call = self.handler.prepare(&Context { message, group, attempt, app: &() })?;
        Ok(Prepared::Call(call))
    }
}
