//! A unit of work ends with its commit.

use inbox_core::{Claimed, InboxStore, Unit};

async fn twice<S: InboxStore, R>(unit: Unit<'_, S>, first: Claimed<R>, second: Claimed<R>) {
    let _ = unit.commit(vec![first.applied()]).await;
    let _ = unit.commit(vec![second.applied()]).await;
}

fn main() {}
