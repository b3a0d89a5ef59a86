//! The cases: strategies, brokers and batches.

use super::Enumeration;
use crate::FakeOptions;
use inbox_core::Strategy;
use std::time::Duration;

/// The strategies, strongest first.
pub const STRATEGIES: [Strategy; 4] =
    [Strategy::ExactlyOnce, Strategy::OnPersist, Strategy::AtLeastOnce, Strategy::AtMostOnce];

/// So many deliveries come before a planned rebalance: half of them.
const BEFORE_REBALANCE: u64 = 3;

impl Enumeration {
    /// Every case of a strategy with batches of 1 and 4: from a queue and from a log; from a log that is
    /// revoked in the middle in order, or taken away at once; and those with checkpoints, which are read
    /// only where partitions are assigned; and, where a message comes again after a crash, with an attempt log. At most once there are neither batches nor checkpoints.
    pub fn cases(strategy: Strategy) -> Vec<Self> {
        let in_order = Duration::from_secs(60);
        let rebalanced = |wait| {
            let log = FakeOptions::rebalancing_log().deliveries_max(BEFORE_REBALANCE as usize);
            log.revoke_after(BEFORE_REBALANCE, wait)
        };
        let brokers =
            [FakeOptions::queue(), FakeOptions::log(), rebalanced(in_order), rebalanced(Duration::ZERO)];
        let assigned = [FakeOptions::rebalancing_log(), rebalanced(in_order), rebalanced(Duration::ZERO)];
        let is_lossy = strategy == Strategy::AtMostOnce;
        let batches: &[usize] = if is_lossy { &[1] } else { &[1, 4] };
        let mut cases = Vec::new();
        for &batch_max in batches {
            let run = |broker: FakeOptions| Self::of_everything(broker, batch_max).under(strategy);
            cases.extend(brokers.iter().cloned().map(run));
            if !is_lossy {
                cases.extend(assigned.iter().cloned().map(|broker| run(broker).with_checkpoints()));
            }
            if strategy == Strategy::ExactlyOnce {
                cases.push(run(FakeOptions::queue()).with_rival());
            }
            if matches!(strategy, Strategy::ExactlyOnce | Strategy::AtLeastOnce) {
                cases.push(run(FakeOptions::queue()).with_attempt_log());
                cases.push(run(rebalanced(Duration::ZERO)).with_checkpoints().with_attempt_log());
            }
        }
        cases
    }
}
