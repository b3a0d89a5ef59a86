#![allow(clippy::unwrap_used)]
use inbox_core::*;
use inbox_testkit::*;
use std::time::{Duration, Instant};
struct Memory(MemoryDatabase);
impl World for Memory {
    type Store = MemoryStore;
    fn open(&self) -> MemoryStore { self.0.store() }
    fn witness(&self, group: &Group) -> Witness { self.0.witness(group) }
    fn state(&self, group: &Group) -> FinalState { assert_eq!(self.0.open_transactions(), 0); FinalState::of(&self.0, group) }
    fn apply(c: &mut MemoryConnection, m: &Message) -> Result<(), Failure> { Ok(apply_effect(c, m)?) }
}
fn new() -> Memory { Memory(MemoryDatabase::new()) }
fn cases() -> Vec<Enumeration> {
    let mut all = vec![];
    for s in [Strategy::ExactlyOnce, Strategy::AtLeastOnce, Strategy::OnPersist, Strategy::AtMostOnce] {
        for b in [1, 4] {
            let run = |o: FakeOptions| Enumeration::of_everything(o, b).under(s);
            all.push(run(FakeOptions::queue()));
            all.push(run(FakeOptions::log()));
            let re = FakeOptions::rebalancing_log().deliveries_max(3);
            all.push(run(re.clone().revoke_after(3, Duration::from_secs(60))));
            all.push(run(re.clone().revoke_after(3, Duration::ZERO)));
            if s != Strategy::AtMostOnce {
                all.push(run(FakeOptions::rebalancing_log()).with_checkpoints());
                all.push(run(re.clone().revoke_after(3, Duration::from_secs(60))).with_checkpoints());
                all.push(run(re.clone().revoke_after(3, Duration::ZERO)).with_checkpoints());
            }
            if s == Strategy::ExactlyOnce { all.push(run(FakeOptions::queue()).with_rival()); }
        }
    }
    all
}
#[test]
fn singles() {
    for run in cases() {
        let t = Instant::now();
        let r = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run.every_single_fault(new)));
        match r { Ok(n) => println!("OK {run}: {n} {:?}", t.elapsed()), Err(e) => {
            let text = e.downcast_ref::<String>().cloned().unwrap_or_default();
            println!("BAD {run}: {}", text.lines().take(2).collect::<Vec<_>>().join("|").chars().take(400).collect::<String>());
            std::fs::write(format!("/tmp/enum_{}.txt", run.to_string().replace([' ', ','], "_")), text).unwrap();
        } }
    }
}
#[test]
fn pairs() {
    let pick = std::env::var("PICK").unwrap_or_default();
    let all = std::env::var("ALL").is_ok();
    for run in cases().into_iter().filter(|r| r.to_string().contains(&pick)) {
        let t = Instant::now();
        let r = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run.every_pair(new, |r| all || r.is_crash())));
        match r { Ok(n) => println!("OK {run}: {n} {:?}", t.elapsed()), Err(e) => {
            let text = e.downcast_ref::<String>().cloned().unwrap_or_default();
            println!("BAD {run}: {} {:?}", text.lines().take(2).collect::<Vec<_>>().join("|").chars().take(400).collect::<String>(), t.elapsed());
            std::fs::write(format!("/tmp/pair_{}.txt", run.to_string().replace([' ', ','], "_")), text).unwrap();
        } }
    }
}
