//! A delivery that was found is settled once.

use inbox_core::{Found, Settlement};

fn twice<R>(found: Found<R>) -> [Settlement<R>; 2] {
    [found.settle(), found.settle()]
}

fn main() {}
