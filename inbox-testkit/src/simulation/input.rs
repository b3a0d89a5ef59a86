//! What a simulated run is fed with, and how its handlers behave.

use crate::{Expected, Fate, MemoryDatabase, Publish, lock::lock};
use fastrand::Rng;
use inbox_core::{Fingerprint, Group, Message};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

/// What a handler does with a message behind its effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    Apply,
    Sleep(Duration),
    Fail,
    FailFor(Duration),
    Permanent,
    Panic,
    Hang,
    FailCommit,
    Abort,
    Leak,
}

/// Ways in which a handler can fail and do better the next time.
const PASSING: [Act; 6] =
    [Act::Fail, Act::FailFor(Duration::from_millis(1500)), Act::Panic, Act::Hang, Act::Abort, Act::Leak];

/// Ways in which a message fails for ever.
const LASTING: [Act; 6] = [Act::Fail, Act::Permanent, Act::Panic, Act::Hang, Act::FailCommit, Act::Abort];

/// A message has more attempts than its handler has failures to come, so that faults kill nobody.
pub(super) const ATTEMPTS_MAX: u32 = 4;

const PARTITIONS: u32 = 3;
const KEYS: u32 = 6;

/// Everything that is published, in order.
#[derive(Debug)]
pub(super) struct Input {
    pub(super) messages: Vec<Publish>,
    /// Ids and keys in the order of first publication.
    order: Vec<(String, Option<String>)>,
    /// The contents of each id in the order of publication.
    contents: BTreeMap<String, Vec<String>>,
    poison: BTreeMap<String, Act>,
    script: Script,
}

/// What the handler still has in store for each message.
#[derive(Debug, Clone, Default)]
pub(super) struct Script(Arc<Mutex<BTreeMap<String, Vec<Act>>>>);

impl Input {
    /// 20 to 40 messages of six keys or none, with duplicates, conflicts and poison among them.
    pub(super) fn new(rng: &mut Rng) -> Self {
        let count = rng.usize(20..=40);
        let mut input = Self {
            messages: Vec::new(),
            order: Vec::new(),
            contents: BTreeMap::new(),
            poison: BTreeMap::new(),
            script: Script::default(),
        };
        // The id, the content, and the place in the order of publication.
        let mut plan: Vec<(u64, usize, String)> = Vec::new();
        let mut acts = BTreeMap::new();
        let mut singles = 0;
        while plan.len() + 1 < count {
            let number = singles;
            singles += 1;
            let at = number as u64 * 1000;
            let id = format!("m{number}");
            let content = if rng.f64() < 0.12 {
                let act = LASTING[rng.usize(..LASTING.len())];
                let content = format!("poison {id}");
                input.poison.insert(content.clone(), act);
                content
            } else {
                id.clone()
            };
            plan.push((at, number, content.clone()));
            while rng.f64() < 0.2 {
                plan.push((at + rng.u64(1..20_000), number, content.clone()));
            }
            if rng.f64() < 0.1 {
                plan.push((at + rng.u64(1..20_000), number, format!("other {id}")));
            }
            let failures = if rng.f64() < 0.25 { rng.usize(1..ATTEMPTS_MAX as usize) } else { 0 };
            let mut script: Vec<Act> = (0..failures).map(|_| PASSING[rng.usize(..PASSING.len())]).collect();
            if rng.f64() < 0.2 {
                script.push(Act::Sleep(Duration::from_millis(rng.u64(1..4000))));
            }
            acts.insert(id, script);
        }
        input.script = Script(Arc::new(Mutex::new(acts)));
        let keys: Vec<u32> = (0..singles).map(|_| rng.u32(..=KEYS)).collect();
        plan.sort();
        for (_, number, content) in plan {
            input.publish(number, keys[number], content);
        }
        input
    }

    fn publish(&mut self, number: usize, key: u32, content: String) {
        let id = format!("m{number}");
        let mut message = Publish::new(id.clone()).payload(&content);
        // The last one means: no key.
        let key_name = (key < KEYS).then(|| format!("k{key}"));
        message = match &key_name {
            Some(name) => message.key(name).partition(key % PARTITIONS),
            None => message.partition(u32::try_from(number).unwrap_or(0) % PARTITIONS),
        };
        self.messages.push(message);
        let contents = self.contents.entry(id.clone()).or_default();
        if contents.is_empty() {
            self.order.push((id, key_name));
        }
        if !contents.contains(&content) {
            contents.push(content);
        }
    }

    /// The numbers of all partitions.
    pub(super) fn partitions() -> Vec<u32> {
        (0..PARTITIONS).collect()
    }

    pub(super) fn script(&self) -> Script {
        self.script.clone()
    }

    /// What the handler does with a message now.
    pub(super) fn act(&self, message: &Message) -> Act {
        let content = message.payload().map(|p| String::from_utf8_lossy(p).into_owned()).unwrap_or_default();
        self.poison.get(&content).copied().unwrap_or_else(|| self.script().next(message.id()))
    }

    /// What has to come out. Of several contents of one id the first in order is the message where order
    /// is kept; elsewhere it is the one that was committed first, which the database tells. All others
    /// are conflicts.
    pub(super) fn expected(&self, database: &MemoryDatabase, group: &Group, ordered: bool) -> Expected {
        let claims: BTreeMap<String, Fingerprint> = database
            .claims(group)
            .into_iter()
            .map(|(key, row)| (key.id.as_str().to_owned(), row.fingerprint))
            .collect();
        let print = |content: &String| Fingerprint::of_payload(Some(content.as_bytes()));
        let mut expected = Expected::new();
        for (id, key) in &self.order {
            let contents = &self.contents[id];
            let claimed = claims.get(id).filter(|_| !ordered);
            let first = contents.iter().find(|c| claimed == Some(&print(c))).unwrap_or(&contents[0]);
            let fate = if self.poison.contains_key(first) { Fate::Dead } else { Fate::Applied };
            expected = expected.message(id, key.as_deref(), fate);
            for refused in contents.iter().filter(|content| *content != first) {
                expected = expected.conflict(id, print(refused));
            }
        }
        if ordered { expected } else { expected.unordered() }
    }
}

impl Script {
    fn next(&self, id: &str) -> Act {
        lock(&self.0).get_mut(id).and_then(Vec::pop).unwrap_or(Act::Apply)
    }
}
