//! Checkpoints need a store that keeps them.

use inbox_core::{Broker, InboxStore, RunnerBuilder, StoreParts};

fn build<B: Broker, S: InboxStore>(builder: RunnerBuilder<B>, bare: S) -> RunnerBuilder<B, StoreParts<S>> {
    builder.store_without_letters(bare).checkpoints()
}

fn main() {}
