//! Judges a run by what happened and what is left.

mod expected;
mod final_state;
mod invariants;
mod unclaimed;
mod violation;

pub use expected::{Expected, Fate};
pub use final_state::FinalState;
pub use invariants::{
    INVARIANTS, acknowledged_with_proof, applied_once, atomic, conflicts_recorded, discarded_with_letter,
    duplicates_do_not_run, nothing_covered, nothing_lost, order_kept,
};
pub use violation::{Guarantee, Violation};

use crate::Entry;

/// One promise, checked.
pub type Invariant = fn(&[Entry], &Expected, &FinalState) -> Result<(), Violation>;

/// The judge. It knows neither store nor broker: only plain data.
#[derive(Debug, Clone, Copy)]
pub struct Oracle;

impl Oracle {
    /// Checks every invariant and gives the first violation.
    ///
    /// # Errors
    /// The [`Violation`].
    pub fn check(history: &[Entry], expected: &Expected, state: &FinalState) -> Result<(), Violation> {
        INVARIANTS.iter().try_for_each(|(_, invariant)| invariant(history, expected, state))
    }

    /// Checks every invariant and gives all violations.
    pub fn violations(history: &[Entry], expected: &Expected, state: &FinalState) -> Vec<Violation> {
        INVARIANTS.iter().filter_map(|(_, invariant)| invariant(history, expected, state).err()).collect()
    }
}
