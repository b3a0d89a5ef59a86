//! What every broker has to pass: the contracts of [`Broker`](inbox_core::Broker) and
//! [`Ack`](inbox_core::Ack), a function per promise.
//!
//! Implement [`BrokerHarness`] and call [`broker_suite!`](crate::broker_suite). What is expected follows
//! from the broker's own [`Capabilities`](inbox_core::Capabilities) and from the harness's
//! [`BrokerTraits`].

mod consumer;
mod content;
mod delivery;
mod ending;
mod harness;
mod settlement;
mod settling;

pub use content::*;
pub use delivery::*;
pub use ending::*;
pub use harness::{BrokerHarness, BrokerTraits, Payloads, ReceiptOf, Record};
pub use settlement::*;
pub(crate) use settling::acknowledgement;

/// The one list of cases; calls `$then` with it.
#[doc(hidden)]
#[macro_export]
macro_rules! __broker_cases {
    ($then:ident, $($rest:tt)*) => {
        $crate::$then! {
            [
                unsettled_comes_again acknowledged_does_not_come_again cancelled_next_loses_nothing
                credit_counts_messages credit_counts_bytes no_credit_no_deliveries order_is_kept
                positions_rise nothing_before_the_assignment assignment_begins_at_the_checkpoint
                deliveries_are_counted
                settling_covers_nothing_else settling_in_one_call_covers_nothing_else
                one_answer_per_settlement released_comes_again delayed_release_comes_again
                settling_twice_is_harmless stale_receipts_change_nothing cancelled_settle_loses_nothing
                ended_stays_ended close_gives_back close_without_a_delivery capabilities_stay
                payloads_are_exact large_payload tombstones keys headers
            ]
            $($rest)*
        }
    };
}

crate::__broker_cases!(__suite_lists, BrokerHarness);
