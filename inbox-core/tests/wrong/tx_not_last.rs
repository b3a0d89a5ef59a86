//! The lent transaction is a handler's last argument.

use inbox_core::{Failure, Handler, InboxStore, Message, Tx};

async fn first<S: InboxStore>(_tx: Tx<S>, _message: Message) -> Result<(), Failure> {
    Ok(())
}

async fn last<S: InboxStore>(_message: Message, _tx: Tx<S>) -> Result<(), Failure> {
    Ok(())
}

fn is_handler<S: InboxStore, Args, H: Handler<S, (), Args>>(_: H) {}

fn check<S: InboxStore>() {
    is_handler::<S, _, _>(last::<S>);
    is_handler::<S, _, _>(first::<S>);
}

fn main() {}
