//! The reference store and the fake broker under the suites, plain and wrapped.
// Every test program has its own copy and uses a part of it.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

pub mod broker;
pub mod store;
