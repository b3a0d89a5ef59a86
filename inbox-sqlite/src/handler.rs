//! Handlers that block, as SQLite's driver does.

use crate::SqliteStore;
use inbox_core::{Call, Context, Failure, FromMessage, Handler, Tx, Undecodable};
use rusqlite::Connection;
use std::sync::Arc;

/// Makes a handler of a plain function or closure: the connection first, parts of the message behind it.
///
/// ```
/// use inbox_core::{Failure, Json};
/// # #[derive(serde::Deserialize)] struct Order { order_id: i64, amount: i64 }
/// fn create_invoice(tx: &rusqlite::Connection, Json(order): Json<Order>) -> Result<(), Failure> {
///     tx.execute("INSERT INTO invoices VALUES (?1, ?2)", (order.order_id, order.amount))?;
///     Ok(())
/// }
/// let handler = inbox_sqlite::blocking(create_invoice);
/// ```
///
/// It runs on the store's own thread, inside the unit of work's transaction, which it cannot end. The
/// runner's time-out cannot interrupt it between statements;
/// [`TxLimits::statement_timeout`](inbox_core::TxLimits::statement_timeout) ends a statement.
pub fn blocking<F>(function: F) -> Blocking<F> {
    Blocking { function }
}

/// A blocking handler, made by [`blocking`].
#[derive(Debug, Clone, Copy)]
pub struct Blocking<F> {
    function: F,
}

macro_rules! blocking_handler_of {
    ($($arg:ident),*) => {
        impl<App, F, E, $($arg),*> Handler<SqliteStore, App, (E, $($arg,)*)> for Blocking<F>
        where
            F: Fn(&Connection, $($arg),*) -> Result<(), E> + Send + Sync + 'static,
            E: Into<Failure> + 'static,
            $($arg: FromMessage<App>,)*
        {
            #[allow(non_snake_case, unused_variables)]
            fn prepare(self: &Arc<Self>, context: &Context<'_, App>) -> Result<Call<SqliteStore>, Undecodable> {
                $(let $arg = $arg::from_message(context)?;)*
                let handler = Arc::clone(self);
                Ok(Box::new(move |tx: Tx<SqliteStore>| {
                    Box::pin(async move { (handler.function)(&tx, $($arg),*).map_err(Into::into) })
                }))
            }
        }
    };
}

blocking_handler_of!();
blocking_handler_of!(A1);
blocking_handler_of!(A1, A2);
blocking_handler_of!(A1, A2, A3);
blocking_handler_of!(A1, A2, A3, A4);
blocking_handler_of!(A1, A2, A3, A4, A5);
blocking_handler_of!(A1, A2, A3, A4, A5, A6);
blocking_handler_of!(A1, A2, A3, A4, A5, A6, A7);
