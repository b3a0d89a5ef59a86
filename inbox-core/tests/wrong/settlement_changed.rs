//! A settlement that gives a delivery back does not become one that acknowledges it.

use inbox_core::{Received, Settlement, Verdict};

fn acknowledge<R>(received: Received<R>) -> Settlement<R> {
    let mut settlement = received.release(None);
    settlement.verdict = Verdict::Applied;
    settlement
}

fn main() {}
