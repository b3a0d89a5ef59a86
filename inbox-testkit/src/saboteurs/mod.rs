//! Planted faults: stores that break their contract, to which the oracle must not be blind.

mod claim_elsewhere;
mod lying_commit;
mod twisted_claims;

pub use claim_elsewhere::ClaimElsewhere;
pub use lying_commit::{Late, LyingCommit};
pub use twisted_claims::TwistedClaims;
