//! Seeded trouble of a broker.

/// Trouble that a seed decides. Chances are from 0.0 to 1.0 and are rolled only when something is
/// delivered or settled, so that calls which are cancelled or find nothing do not change a run.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Chaos {
    /// The source of all decisions.
    pub rng: fastrand::Rng,
    /// After this many faults there is peace, so that every run ends. Reordering does not count.
    pub faults_left: u32,
    /// That what waits is shuffled before a delivery (in a log: which partition comes first).
    pub reorder: f64,
    /// That a delivered message is there once more.
    pub duplicate: f64,
    /// That everything unsettled is delivered again.
    pub redeliver: f64,
    /// That a settlement gets lost, answered well or not.
    pub lose: f64,
    /// That the connection is cut.
    pub sever: f64,
}

impl Chaos {
    /// A little of everything, with so many faults at most.
    pub fn new(rng: fastrand::Rng, faults_max: u32) -> Self {
        Self {
            rng,
            faults_left: faults_max,
            reorder: 0.0,
            duplicate: 0.1,
            redeliver: 0.1,
            lose: 0.1,
            sever: 0.05,
        }
    }

    /// Sets the chance of reordering.
    #[must_use]
    pub fn reorder(self, reorder: f64) -> Self {
        Self { reorder, ..self }
    }

    /// Rolls for a fault and takes it from the budget.
    pub(super) fn strikes(&mut self, chance: f64) -> bool {
        let strikes = self.faults_left > 0 && self.rng.f64() < chance;
        if strikes {
            self.faults_left -= 1;
        }
        strikes
    }
}
