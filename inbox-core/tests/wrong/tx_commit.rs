//! A handler cannot commit: the lent transaction has no such method,

use inbox_core::{Failure, InboxStore, Tx};

async fn handler<S: InboxStore>(tx: Tx<S>) -> Result<(), Failure> {
    tx.commit().await?;
    Ok(())
}

/// and the store does not take it.
async fn with_the_store<S: InboxStore>(store: S, tx: Tx<S>) {
    let _ = store.commit(tx).await;
}

fn main() {}
