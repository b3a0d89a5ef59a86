//! What every store has to pass: the contracts of [`InboxStore`](inbox_core::InboxStore),
//! [`Letters`](inbox_core::Letters), [`Inspect`](inbox_core::Inspect) and
//! [`Checkpoints`](inbox_core::Checkpoints), a function per promise.
//!
//! Implement [`StoreHarness`] and call [`store_suite!`](crate::store_suite).

mod checkpoints;
mod claims;
mod contention;
mod harness;
mod help;
mod inspect;
mod letters;
mod transactions;

pub use checkpoints::*;
pub use claims::*;
pub use contention::*;
pub use harness::{EffectError, StoreHarness, StoreTraits, TxOf, Writers};
pub use inspect::*;
pub use letters::*;
pub use transactions::*;

/// The one list of cases; calls `$then` with it.
#[doc(hidden)]
#[macro_export]
macro_rules! __store_cases {
    ($then:ident, $($rest:tt)*) => {
        $crate::$then! {
            [
                commit_is_atomic commit_is_durable rollback_leaves_nothing drop_leaves_nothing drop_frees
                empty_transaction_commits hidden_failure rolled_back_by_hand
                writes_after_a_rollback_by_hand committed_by_hand deferred_constraint connection_cut
                unknown_errors_are_the_handlers unit_runs_to_its_end large_effect
                fresh_once duplicate_found_after_reopen found_rows_stay conflict_tells_what_is_stored
                fingerprints_of_other_versions groups_are_separate scopes_are_separate
                answers_in_the_order_of_requests a_thousand_keys_in_one_call ids_are_exact dead_is_found
                undecided_is_busy rollback_lets_the_other_have_it waiting_ends_with_the_other
                one_of_many_is_fresh crossing_batches other_keys_are_not_in_the_way
                resolve_tells_what_is_committed resolve_does_not_guess
                letters_with_the_transaction buried_is_dead burying_spares_the_others letter_kept_once
                letters_of_groups_are_separate conflict_kept_once_and_counted records_read_back_whole
                absent_is_not_empty large_payload nul_in_texts_is_survived large_numbers_in_letters
                pages_cover_everything_once letter_by_number rows_are_counted_by_group
                checkpoint_with_the_transaction forward_never_goes_back from_is_compare_and_swap
                take_over_fences_the_owner_before hold_excludes_others checkpoint_answers_in_order
                list_and_forget marks_read_back large_numbers_in_checkpoints
            ]
            $($rest)*
        }
    };
}

crate::__store_cases!(__suite_lists, StoreHarness);
