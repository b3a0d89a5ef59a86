//! A transaction that a handler got is not the caller's any more.

use inbox_core::{InboxStore, Tx};

async fn use_after<S, H, F>(tx: Tx<S>, handler: H)
where
    S: InboxStore,
    H: FnOnce(Tx<S>) -> F,
    F: Future<Output = ()>,
{
    handler(tx).await;
    drop(tx);
}

fn main() {}
