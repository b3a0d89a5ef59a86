//! Letters are the default, so a store without them is not taken by `store`.

use inbox_core::{Broker, InboxStore, RunnerBuilder, StoreParts};

fn build<B: Broker, S: InboxStore>(builder: RunnerBuilder<B>, bare: S) -> RunnerBuilder<B, StoreParts<S>> {
    builder.store(bare)
}

fn main() {}
