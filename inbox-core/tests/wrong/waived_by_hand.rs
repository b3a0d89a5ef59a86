//! An acknowledgement without a commit cannot be asked for.

use inbox_core::{Received, Settlement, Verdict};

fn waive<R>(received: Received<R>) -> Settlement<R> {
    received.settle(Verdict::Waived)
}

fn main() {}
