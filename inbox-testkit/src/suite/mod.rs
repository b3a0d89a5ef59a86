//! Conformance suites: what every store and every broker has to pass.
//!
//! One function per promise of a contract, named as the contract's clauses name them. A backend
//! implements a harness and lets [`store_suite!`](crate::store_suite) or
//! [`broker_suite!`](crate::broker_suite) make a test of each. What a backend cannot do changes what a
//! case expects of it; no case is left out, and none knows which driver it runs on.
//!
//! The suites are only worth as much as they catch, so the planted faults of this crate must each fail a
//! case that is named for them.

// A case fails by panicking, as any test does.
#![allow(clippy::panic, clippy::unwrap_used)]

pub mod attempt_log;
pub mod broker;
pub mod store;

mod run;

pub use run::{Case, Failed, Pace, failing, run};

/// Emits one test per case of the [store suite](crate::suite::store). The expression makes a fresh
/// harness on an empty database; it may await.
///
/// With `paused`, time is tokio's paused one: for stores without threads and sockets of their own.
#[macro_export]
macro_rules! store_suite {
    (paused, $harness:expr) => {
        $crate::__store_cases!(__suite_tests, store, Paused, $harness);
    };
    ($harness:expr) => {
        $crate::__store_cases!(__suite_tests, store, Real, $harness);
    };
}

/// Emits one test per case of the [attempt log suite](crate::suite::attempt_log), as
/// [`store_suite!`](crate::store_suite) does for every store.
#[macro_export]
macro_rules! attempt_log_suite {
    (paused, $harness:expr) => {
        $crate::__attempt_log_cases!(__suite_tests, attempt_log, Paused, $harness);
    };
    ($harness:expr) => {
        $crate::__attempt_log_cases!(__suite_tests, attempt_log, Real, $harness);
    };
}

/// Emits one test per case of the [broker suite](crate::suite::broker). The expression makes a fresh
/// harness without messages; it may await.
///
/// With `paused`, time is tokio's paused one: for brokers without threads and sockets of their own.
#[macro_export]
macro_rules! broker_suite {
    (paused, $harness:expr) => {
        $crate::__broker_cases!(__suite_tests, broker, Paused, $harness);
    };
    ($harness:expr) => {
        $crate::__broker_cases!(__suite_tests, broker, Real, $harness);
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __suite_tests {
    ([$($case:ident)*] $suite:ident, $pace:ident, $harness:expr) => {
        // The harness expression is written for a place where tests are.
        $crate::__suite_tests!(@each $suite, $pace, $harness, $($case)*);
    };
    (@each $suite:ident, $pace:ident, $harness:expr, $($case:ident)*) => {
        $(
            #[test]
            fn $case() {
                $crate::suite::run($crate::suite::Pace::$pace, async {
                    let harness = $harness;
                    $crate::suite::$suite::$case(&harness).await;
                });
            }
        )*
    };
}

/// The list of names and the list of functions, from the one list of cases.
#[doc(hidden)]
#[macro_export]
macro_rules! __suite_lists {
    ([$($case:ident)*] $harness:ident) => {
        /// The names of all cases.
        pub const CASES: &[&str] = &[$(stringify!($case)),*];

        /// All cases, for a harness.
        pub fn cases<H: $harness>() -> Vec<$crate::suite::Case<H>> {
            vec![$($crate::suite::Case::new(stringify!($case), |harness| Box::pin($case(harness)))),*]
        }
    };
}
