//! The handler: binds a message's values and runs the statements in the transaction that is lent.

use crate::{
    sink::{Sink, StatementFailed},
    value::Value,
};
use inbox_core::{Context, FromMessage, Tx, Undecodable};
use inbox_sqlite::SqliteStore;
use std::sync::Arc;

/// The values of one message. They are read before a transaction is opened: a message that does not
/// have them becomes a letter without one.
#[derive(Debug)]
pub(crate) struct Bound {
    sink: Arc<Sink>,
    values: Vec<Value>,
}

impl FromMessage<Arc<Sink>> for Bound {
    fn from_message(context: &Context<'_, Arc<Sink>>) -> Result<Self, Undecodable> {
        let sink = Arc::clone(context.app);
        match sink.values(context.message, context.group) {
            Ok(values) => Ok(Self { sink, values }),
            Err(error) => Err(Undecodable::new(error.to_string())),
        }
    }
}

/// What is done for every message.
pub(crate) async fn apply(bound: Bound, tx: Tx<SqliteStore>) -> Result<(), StatementFailed> {
    bound.sink.apply(&tx, &bound.values)
}
