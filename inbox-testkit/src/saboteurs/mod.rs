//! Planted faults: stores and brokers that break their contracts, to which neither the oracle nor the
//! conformance suites must be blind.

mod broker_faults;
mod claim_elsewhere;
mod lying_commit;
mod store_faults;
mod twisted_claims;

pub use broker_faults::{BrokerFault, SpoiltAck, SpoiltBroker};
pub use claim_elsewhere::ClaimElsewhere;
pub use lying_commit::{Late, LyingCommit};
pub use store_faults::{SpoiltStore, StoreFault};
pub use twisted_claims::TwistedClaims;
