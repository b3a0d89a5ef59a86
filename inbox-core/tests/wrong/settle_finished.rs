//! A handler that ended well is no commit yet.

use inbox_core::{Claimed, Settlement};

fn acknowledge<R>(claimed: Claimed<R>) -> Settlement<R> {
    claimed.applied().settle()
}

fn main() {}
