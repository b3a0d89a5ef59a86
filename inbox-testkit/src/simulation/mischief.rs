//! What goes wrong outside of the processes: broker, database and network, each in its own time.

use super::{Source, input::Input, tally::Tally};
use crate::{FakeQueue, History, LostAnswer, MemoryDatabase};
use fastrand::Rng;
use std::time::Duration;
use tokio::time::sleep;

/// Who does it, and to whom.
pub(super) struct Mischief {
    pub(super) source: Source,
    pub(super) queue: FakeQueue,
    pub(super) database: MemoryDatabase,
    pub(super) history: History,
    pub(super) tally: Tally,
    pub(super) rng: Rng,
}

fn ms(rng: &mut Rng, max: u64) -> Duration {
    Duration::from_millis(rng.u64(1..=max))
}

impl Mischief {
    /// A random number of things, then peace.
    pub(super) async fn make(mut self) {
        for _ in 0..self.rng.usize(0..12) {
            sleep(ms(&mut self.rng, 2500)).await;
            let in_log = self.source != Source::Queue;
            match self.rng.usize(0..if in_log { 9 } else { 5 }) {
                0 => {
                    self.note("connections to the broker cut");
                    self.queue.sever();
                }
                1 => {
                    self.note("settlements lost");
                    let answer = if self.rng.bool() { LostAnswer::Well } else { LostAnswer::Failed };
                    self.queue.lose_settlements(self.rng.usize(1..4), answer);
                }
                2 => {
                    self.note("everything unsettled again");
                    self.queue.redeliver_unsettled();
                }
                3 => {
                    self.note("store outage");
                    self.database.set_available(false);
                    sleep(ms(&mut self.rng, 4000)).await;
                    self.database.set_available(true);
                }
                4 => {
                    self.note("connections to the database cut");
                    self.database.cut_connections();
                }
                5 | 6 => {
                    self.note("another owner");
                    self.queue.rebalance(self.rng.usize(0..3));
                }
                7 => {
                    self.note("partitions revoked");
                    let partitions = self.some_partitions();
                    let wait = ms(&mut self.rng, 3000);
                    self.away(&partitions, |queue| queue.revoke(&partitions, wait)).await;
                }
                _ => {
                    self.note("partitions lost");
                    let partitions = self.some_partitions();
                    self.away(&partitions, |queue| queue.lose(&partitions)).await;
                }
            }
        }
    }

    fn note(&self, what: &'static str) {
        self.tally.add(what, 1);
        self.history.note(what);
    }

    fn some_partitions(&mut self) -> Vec<u32> {
        let mut partitions = Input::partitions();
        self.rng.shuffle(&mut partitions);
        partitions.truncate(self.rng.usize(1..=partitions.len()));
        partitions
    }

    /// Takes partitions away and gives them back, unless somebody else has got them all since.
    async fn away(&mut self, partitions: &[u32], take: impl FnOnce(&FakeQueue)) {
        let Some(owner) = self.queue.owner() else { return };
        take(&self.queue);
        sleep(ms(&mut self.rng, 3000)).await;
        if self.queue.owner() == Some(owner) {
            self.queue.assign(partitions);
        }
    }
}
