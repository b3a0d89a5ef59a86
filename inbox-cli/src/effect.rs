//! The handler: binds a message's values and runs the statements in the transaction that is lent.

use crate::database::{Sink, StatementFailed};
use inbox_core::{Context, FromMessage, Tx, Undecodable};
use std::sync::Arc;

/// The values of one message. They are read before a transaction is opened: a message that does not
/// have them becomes a letter without one.
#[derive(Debug)]
pub(crate) struct Bound<S: Sink> {
    sink: Arc<S>,
    values: Vec<S::Value>,
}

impl<S: Sink> FromMessage<Arc<S>> for Bound<S> {
    fn from_message(context: &Context<'_, Arc<S>>) -> Result<Self, Undecodable> {
        let sink = Arc::clone(context.app);
        match sink.values(context.message, context.group) {
            Ok(values) => Ok(Self { sink, values }),
            Err(error) => Err(Undecodable::new(error.to_string())),
        }
    }
}

/// What is done for every message.
pub(crate) async fn apply<S: Sink>(bound: Bound<S>, tx: Tx<S::Store>) -> Result<(), StatementFailed> {
    bound.sink.apply(&bound.values, tx).await
}
