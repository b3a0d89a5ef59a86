//! A claim that is not committed settles nothing.

use inbox_core::{Claimed, Settlement};

fn acknowledge<R>(claimed: Claimed<R>) -> Settlement<R> {
    claimed.settle()
}

fn main() {}
