//! What the strategies without claims promise.

use super::{
    Expected, Fate, FinalState, Guarantee, Violation,
    invariants::{Checked, counts, ensure},
};
use crate::{Call, Entry, Evidence, Reaction};
use inbox_core::{Disposition, Fingerprint, Settled, Verdict};
use std::collections::{BTreeMap, HashMap};

type Delivered = (String, Fingerprint);

fn refuse(id: &str, verdict: Verdict, why: &str) -> Checked {
    Err(Violation::new(Guarantee::G2, format!("{id} was acknowledged as {verdict:?}: {why}")))
}

/// G2, at least once: each acknowledgement comes after the commit of an effect of its own, or of a letter.
pub(super) fn acknowledged_with_effect(history: &[Entry]) -> Checked {
    let mut acknowledged: HashMap<Delivered, usize> = HashMap::new();
    history.iter().try_for_each(|entry| {
        let Entry::Settled { id, content, verdict, evidence, .. } = entry else { return Ok(()) };
        let Evidence { claim, letter, effects, .. } = *evidence;
        match *verdict {
            Verdict::Released { .. } => Ok(()),
            Verdict::Applied => {
                let told = acknowledged.entry((id.clone(), *content)).or_default();
                *told += 1;
                ensure(effects >= *told, Guarantee::G2, || {
                    format!("{id} was acknowledged {told} times, and {effects} effects of it were committed")
                })
            }
            Verdict::Discarded | Verdict::Found => {
                let is_dead = matches!(claim, Some((Disposition::Dead, _))) && letter;
                ensure(is_dead, Guarantee::G8, || {
                    format!("{id} was acknowledged as {verdict:?}: it is not dead with a letter")
                })
            }
            other => refuse(id, other, "nothing allows that"),
        }
    })
}

/// G2, at most once: the broker is told before any work, and nothing else.
pub(super) fn acknowledged_before_work(history: &[Entry]) -> Checked {
    history.iter().try_for_each(|entry| match entry {
        Entry::Settled { id, verdict, .. } if verdict.is_acknowledgement() && *verdict != Verdict::Waived => {
            refuse(id, *verdict, "it must be told before the work is known")
        }
        _ => Ok(()),
    })
}

/// How often the broker confirmed that it has forgotten a delivery.
#[derive(Default)]
struct Confirmed(HashMap<Delivered, usize>);

impl Confirmed {
    fn hear(&mut self, entry: &Entry) {
        if let Entry::Answered { id, content, verdict: Verdict::Waived, settled: Some(Settled::Confirmed) } =
            entry
        {
            *self.0.entry((id.clone(), *content)).or_default() += 1;
        }
    }

    fn of(history: &[Entry]) -> Self {
        let mut confirmed = Self::default();
        history.iter().for_each(|entry| confirmed.hear(entry));
        confirmed
    }

    fn count(&self, id: &str, content: Fingerprint) -> usize {
        self.0.get(&(id.to_owned(), content)).copied().unwrap_or_default()
    }
}

/// G2, at most once: a handler starts only for a delivery that the broker has forgotten for certain and
/// that has no effect yet.
pub(super) fn handled_after_confirmation(history: &[Entry]) -> Checked {
    let mut confirmed = Confirmed::default();
    history.iter().try_for_each(|entry| {
        confirmed.hear(entry);
        let Entry::HandlerStarted { id, content, evidence } = entry else { return Ok(()) };
        let (told, done) = (confirmed.count(id, *content), evidence.effects);
        ensure(done < told, Guarantee::G2, || {
            format!("the handler ran for {id}, of which {told} were confirmed and {done} done")
        })
    })
}

/// G1, at most once: no more effects than the broker has forgotten deliveries.
pub(super) fn applied_at_most_once(history: &[Entry], state: &FinalState) -> Checked {
    let confirmed = Confirmed::of(history);
    let mut effects: HashMap<Delivered, usize> = HashMap::new();
    for row in &state.effects {
        *effects.entry((row.id.clone(), row.content)).or_default() += 1;
    }
    effects.into_iter().try_for_each(|((id, content), found)| {
        let told = confirmed.count(&id, content);
        ensure(found <= told, Guarantee::G1, || format!("{id} has {found} effects of {told} deliveries"))
    })
}

/// At most once: a message is lost by a crash or a lost reply, one by each, and by nothing else. Deliveries
/// of one id whose handlers fail leave one letter together.
pub(super) fn lost_by_faults_only(history: &[Entry], state: &FinalState) -> Checked {
    let loses = |entry: &&Entry| match entry {
        Entry::Crashed => true,
        Entry::Call { call: Call::Handler, reaction: Some(_), .. } => true,
        Entry::Call { call, reaction: Some(Reaction::AnswerLost | Reaction::RequestLost), .. } => {
            matches!(call, Call::Settle | Call::Commit)
        }
        _ => false,
    };
    let faults = history.iter().filter(loses).count();
    let effects = counts(state.effects.iter().map(|row| row.id.as_str()));
    let letters = counts(state.letters.iter().map(String::as_str));
    let mut lost = BTreeMap::new();
    for ((id, _), told) in Confirmed::of(history).0 {
        *lost.entry(id).or_default() += told;
    }
    for (id, lost) in &mut lost {
        let done = [&effects, &letters].map(|all| all.get(id.as_str()).copied().unwrap_or_default());
        *lost = usize::saturating_sub(*lost, done.iter().sum());
    }
    let sum: usize = lost.values().sum();
    ensure(sum <= faults, Guarantee::G1, || format!("{faults} faults, and lost are {lost:?}"))
}

/// Other content under a known id is another effect.
pub(super) fn no_conflicts(expected: &Expected, state: &FinalState) -> Checked {
    // Only the dead have claims, which other content can be in conflict with.
    let is_dead = |id: &str| state.letters.iter().any(|letter| letter == id);
    let recorded: Vec<_> = state.conflicts.iter().filter(|(id, _)| !is_dead(id)).collect();
    ensure(recorded.is_empty(), Guarantee::G5, || format!("recorded without claims: {recorded:?}"))?;
    if expected.strategy() != inbox_core::Strategy::AtLeastOnce {
        return Ok(());
    }
    for (id, contents) in expected.conflicts() {
        for content in contents {
            let is_applied = state.effects.iter().any(|row| row.id == *id && row.content == *content);
            let may_be_dead = expected.fates().get(id) == Some(&Fate::Either);
            let is_applied = is_applied || may_be_dead && state.letters.contains(id);
            ensure(is_applied, Guarantee::G1, || format!("{id} with {content} was never applied"))?;
        }
    }
    Ok(())
}
