//! One delivery is settled once.

use inbox_core::Settlement;

fn twice<R: Clone>(settlement: Settlement<R>) -> [Settlement<R>; 2] {
    [settlement.clone(), settlement]
}

fn main() {}
