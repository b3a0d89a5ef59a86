//! There is no claim without a unit of work.

use inbox_core::{Claimed, Received};

fn claim<R>(received: Received<R>) -> Claimed<R> {
    Claimed { received, unit: 1, has_row: true }
}

fn main() {}
