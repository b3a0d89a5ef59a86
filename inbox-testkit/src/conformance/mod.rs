//! What every store has to do, as tests that its own crate calls. A clause that is not kept panics.

mod stored_faults;
pub mod stored_inbox;

pub use stored_faults::every_single_fault_of_a_stored_run;
