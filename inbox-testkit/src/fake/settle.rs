//! Settling: what the broker makes of the answers to its deliveries.

use super::{
    Cumulative, FakeReceipt,
    state::{FakeQueueState, LostAnswer, Place},
};
use inbox_core::{AckError, Settled, Verdict};

impl FakeQueueState {
    pub(super) fn settle(&mut self, receipt: &FakeReceipt, verdict: Verdict) -> Result<Settled, AckError> {
        let Some(out) = self.out.get(&receipt.number) else { return Ok(Settled::Stale) };
        let (record, place) = (out.record, out.place);
        if let Some(answer) = self.loses() {
            return match answer {
                LostAnswer::Well => Ok(Settled::Confirmed),
                LostAnswer::Failed => {
                    Err(AckError::new(self.options.source.as_str(), "the connection is gone"))
                }
            };
        }
        if !verdict.is_acknowledgement() {
            self.give_back(receipt.number);
            return Ok(Settled::Confirmed);
        }
        self.out.remove(&receipt.number);
        self.records[record].acknowledged = true;
        let Place::Log(number, ticket) = place else { return Ok(Settled::Confirmed) };
        let highest = self.options.cumulative == Cumulative::PlantedHighest;
        let Some(partition) = self.log.partitions.get_mut(&number) else { return Ok(Settled::Stale) };
        let mut moved = partition.finish(ticket);
        if highest {
            let behind = partition.records.iter().position(|&r| r == record).map_or(0, |index| index + 1);
            moved |= behind > partition.committed;
            partition.committed = partition.committed.max(behind);
        }
        Ok(if moved { Settled::Confirmed } else { Settled::Deferred })
    }

    fn loses(&mut self) -> Option<LostAnswer> {
        self.losing.pop_front().or_else(|| {
            let chaos = self.options.chaos.as_mut()?;
            let answer = if chaos.rng.bool() { LostAnswer::Well } else { LostAnswer::Failed };
            chaos.strikes(chaos.lose).then_some(answer)
        })
    }
}
