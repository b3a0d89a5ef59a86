//! Only what was applied, buried or recorded is committed.

use inbox_core::{Claimed, InboxStore, Unit};

async fn skip_the_handler<S: InboxStore, R>(unit: Unit<'_, S>, claimed: Claimed<R>) {
    let _ = unit.commit(vec![claimed]).await;
}

fn main() {}
