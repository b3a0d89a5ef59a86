//! The promises, one function each. What the strategies without claims promise instead is in
//! [`unclaimed`].

use super::{Expected, Fate, FinalState, Guarantee, Invariant, Violation, unclaimed};
use crate::{Entry, Evidence};
use inbox_core::{Disposition, Fingerprint, Strategy, Verdict};
use std::collections::{BTreeMap, BTreeSet};

/// All invariants by name, the most telling first.
pub const INVARIANTS: [(&str, Invariant); 9] = [
    ("acknowledged_with_proof", acknowledged_with_proof),
    ("duplicates_do_not_run", duplicates_do_not_run),
    ("nothing_covered", nothing_covered),
    ("atomic", atomic),
    ("applied_once", applied_once),
    ("conflicts_recorded", conflicts_recorded),
    ("discarded_with_letter", discarded_with_letter),
    ("nothing_lost", nothing_lost),
    ("order_kept", order_kept),
];

pub(super) type Checked = Result<(), Violation>;

pub(super) fn ensure(holds: bool, guarantee: Guarantee, detail: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(Violation::new(guarantee, detail())) }
}

fn is_unclaimed(expected: &Expected) -> bool {
    matches!(expected.strategy(), Strategy::AtLeastOnce | Strategy::AtMostOnce)
}

pub(super) fn counts<'a>(ids: impl IntoIterator<Item = &'a str>) -> BTreeMap<&'a str, usize> {
    ids.into_iter().fold(BTreeMap::new(), |mut counts, id| {
        *counts.entry(id).or_default() += 1;
        counts
    })
}

/// G2 (and G5, G8): at the moment of every acknowledgement the database has committed what it stands for.
pub fn acknowledged_with_proof(history: &[Entry], expected: &Expected, _: &FinalState) -> Checked {
    match expected.strategy() {
        Strategy::AtLeastOnce => return unclaimed::acknowledged_with_effect(history),
        Strategy::AtMostOnce => return unclaimed::acknowledged_before_work(history),
        _ => {}
    }
    history.iter().try_for_each(|entry| match entry {
        Entry::Settled { id, content, verdict, evidence, receipt } => {
            proven(*content, *verdict, evidence, expected).map_err(|(guarantee, why)| {
                Violation::new(guarantee, format!("{id} ({receipt}) was acknowledged as {verdict:?}: {why}"))
            })
        }
        _ => Ok(()),
    })
}

fn proven(
    content: Fingerprint,
    verdict: Verdict,
    evidence: &Evidence,
    expected: &Expected,
) -> Result<(), (Guarantee, &'static str)> {
    if verdict == Verdict::Waived {
        return if expected.allows_waived() { Ok(()) } else { Err((Guarantee::G2, "nothing allows that")) };
    }
    if !verdict.is_acknowledgement() {
        return Ok(());
    }
    if evidence.conflict {
        let is_applied = verdict == Verdict::Applied;
        return if is_applied { Err((Guarantee::G5, "that content is a recorded conflict")) } else { Ok(()) };
    }
    let Some((disposition, claimed_for)) = evidence.claim else {
        return Err((Guarantee::G2, "no claim, letter or conflict of it was committed"));
    };
    if claimed_for.conflicts_with(content) {
        return Err((Guarantee::G5, "the committed claim is for other content and no conflict is recorded"));
    }
    match verdict {
        Verdict::Applied if disposition != Disposition::Applied => {
            Err((Guarantee::G2, "the committed claim says that it was not applied"))
        }
        Verdict::Discarded if disposition != Disposition::Dead => {
            Err((Guarantee::G8, "the committed claim does not say that it is dead"))
        }
        _ if disposition == Disposition::Dead && !evidence.letter => {
            Err((Guarantee::G8, "it is dead and there is no letter"))
        }
        _ => Ok(()),
    }
}

/// G3: no handler starts for an id that is already committed; on persist, only for one that is kept.
pub fn duplicates_do_not_run(history: &[Entry], expected: &Expected, _: &FinalState) -> Checked {
    let keeps = match expected.strategy() {
        Strategy::AtLeastOnce => return Ok(()),
        Strategy::AtMostOnce => return unclaimed::handled_after_confirmation(history),
        strategy => strategy == Strategy::OnPersist,
    };
    history.iter().try_for_each(|entry| match entry {
        Entry::HandlerStarted {
            evidence: Evidence { claim: Some((Disposition::Stored, _)), .. }, ..
        } if keeps => Ok(()),
        Entry::HandlerStarted { id, evidence: Evidence { claim: None, .. }, .. } if keeps => {
            Err(Violation::new(Guarantee::G2, format!("the handler ran for {id}, which was not kept yet")))
        }
        Entry::HandlerStarted { id, evidence: Evidence { claim: Some((disposition, _)), .. }, .. } => {
            let detail = format!("the handler ran for {id}, which was already committed as {disposition:?}");
            Err(Violation::new(Guarantee::G3, detail))
        }
        _ => Ok(()),
    })
}

/// G7: the broker has forgotten nothing that was not itself acknowledged.
pub fn nothing_covered(_: &[Entry], _: &Expected, state: &FinalState) -> Checked {
    ensure(state.covered.is_empty(), Guarantee::G7, || {
        format!("acknowledgements of others covered {:?}", state.covered)
    })
}

/// G6: effects and claims of applied messages are there together.
pub fn atomic(_: &[Entry], expected: &Expected, state: &FinalState) -> Checked {
    let claimed: BTreeSet<&str> =
        state.claims.iter().filter(|(_, d)| **d == Disposition::Applied).map(|(id, _)| id.as_str()).collect();
    if is_unclaimed(expected) {
        ensure(claimed.is_empty(), Guarantee::G6, || format!("claims, and there must be none: {claimed:?}"))?;
        return whole_effects(state);
    }
    let effects: BTreeSet<&str> = state.effects.iter().map(|row| row.id.as_str()).collect();
    let alone: Vec<_> = claimed.difference(&effects).collect();
    ensure(alone.is_empty(), Guarantee::G6, || format!("claims without an effect: {alone:?}"))?;
    let alone: Vec<_> = effects.difference(&claimed).collect();
    ensure(alone.is_empty(), Guarantee::G6, || format!("effects without a claim: {alone:?}"))?;
    whole_effects(state)
}

/// The two halves of the effect are there equally often.
fn whole_effects(state: &FinalState) -> Checked {
    let (rows, counter) = (state.effects.len(), state.counter);
    ensure(i64::try_from(rows) == Ok(counter), Guarantee::G6, || {
        format!("{rows} rows were appended and the counter was raised to {counter}: half an effect")
    })
}

/// G1: one effect for each message that must be applied, none for any other. At least once, one or
/// more; at most once, no more than the broker was told of.
pub fn applied_once(history: &[Entry], expected: &Expected, state: &FinalState) -> Checked {
    let (at_least, at_most) =
        (expected.strategy() == Strategy::AtLeastOnce, expected.strategy() == Strategy::AtMostOnce);
    if at_most {
        unclaimed::applied_at_most_once(history, state)?;
    }
    let counts = counts(state.effects.iter().map(|row| row.id.as_str()));
    for (id, fate) in expected.fates() {
        let found = counts.get(id.as_str()).copied().unwrap_or_default();
        let is_right = match fate {
            Fate::Dead => found == 0,
            _ if at_most => true,
            Fate::Applied => found == 1 || at_least && found > 1,
            Fate::Either => found <= 1 || at_least,
        };
        ensure(is_right, Guarantee::G1, || format!("{id} must be {fate:?} and has {found} effects"))?;
    }
    let stranger = counts.keys().find(|id| !expected.fates().contains_key(**id));
    ensure(stranger.is_none(), Guarantee::G1, || format!("an effect of {stranger:?}, never published"))
}

/// G5: every conflict is recorded once, no other is, and no refused content was applied. Without claims
/// there are no conflicts: that content is applied, too.
pub fn conflicts_recorded(_: &[Entry], expected: &Expected, state: &FinalState) -> Checked {
    if is_unclaimed(expected) {
        return unclaimed::no_conflicts(expected, state);
    }
    for (id, contents) in expected.conflicts() {
        for content in contents {
            let found = state.conflicts.iter().filter(|(i, c)| i == id && c == content).count();
            ensure(found == 1, Guarantee::G5, || format!("{id} with {content} is recorded {found} times"))?;
        }
    }
    let is_expected =
        |id: &String, content| expected.conflicts().get(id).is_some_and(|all| all.contains(content));
    let stranger = state.conflicts.iter().find(|(id, content)| !is_expected(id, content));
    ensure(stranger.is_none(), Guarantee::G5, || format!("{stranger:?} is recorded and is no conflict"))?;
    let applied = state.effects.iter().find(|row| is_expected(&row.id, &row.content));
    ensure(applied.is_none(), Guarantee::G5, || format!("refused content was applied: {applied:?}"))
}

/// G8: one letter and a dead claim for each message that must die, none for any other.
pub fn discarded_with_letter(_: &[Entry], expected: &Expected, state: &FinalState) -> Checked {
    let letters = counts(state.letters.iter().map(String::as_str));
    for (id, fate) in expected.fates() {
        let found = letters.get(id.as_str()).copied().unwrap_or_default();
        let is_dead = state.claims.get(id) == Some(&Disposition::Dead);
        let must_be_dead = match fate {
            // Lost, or failed in its only attempt.
            _ if expected.strategy() == Strategy::AtMostOnce => is_dead,
            Fate::Applied => false,
            Fate::Dead => true,
            Fate::Either => is_dead,
        };
        ensure(found == usize::from(must_be_dead) && is_dead == must_be_dead, Guarantee::G8, || {
            let claim = state.claims.get(id);
            format!("{id} must be {fate:?}, has {found} letters and the claim {claim:?}")
        })?;
    }
    let stranger = letters.keys().find(|id| !expected.fates().contains_key(**id));
    ensure(stranger.is_none(), Guarantee::G8, || format!("a letter about {stranger:?}, never published"))
}

/// G1, the other half: the broker is left with nothing, every message was dealt with and acknowledged.
pub fn nothing_lost(history: &[Entry], expected: &Expected, state: &FinalState) -> Checked {
    ensure(state.unsettled.is_empty(), Guarantee::G1, || {
        format!("the run ended and the broker still has {:?}", state.unsettled)
    })?;
    if expected.strategy() == Strategy::AtMostOnce {
        return unclaimed::lost_by_faults_only(history, state);
    }
    let kept: Vec<_> = state.claims.iter().filter(|(_, d)| **d == Disposition::Stored).collect();
    ensure(kept.is_empty(), Guarantee::G1, || format!("still kept, and nothing looks after them: {kept:?}"))?;
    let acknowledged = |id: &str| {
        let is_ack = |e: &Entry| matches!(e, Entry::Settled { id: i, verdict, .. } if i == id && verdict.is_acknowledgement());
        history.iter().any(is_ack)
    };
    for id in expected.fates().keys() {
        let is_known = state.claims.contains_key(id) || is_unclaimed(expected);
        ensure(is_known, Guarantee::G1, || format!("{id} left no claim: it is lost"))?;
        let is_passed = acknowledged(id) || state.skipped.contains(id);
        ensure(is_passed, Guarantee::G1, || format!("{id} was never acknowledged"))?;
    }
    Ok(())
}

/// G9: effects of one key are in the order in which their messages were first published. Where a message
/// runs again its first effect counts; on persist and at most once no order is promised behind a failure.
pub fn order_kept(_: &[Entry], expected: &Expected, state: &FinalState) -> Checked {
    let is_promised = matches!(expected.strategy(), Strategy::ExactlyOnce | Strategy::AtLeastOnce);
    if !expected.is_ordered() || !is_promised {
        return Ok(());
    }
    let mut seen = BTreeSet::new();
    let place: BTreeMap<&str, usize> =
        expected.order().iter().enumerate().map(|(place, (id, _))| (id.as_str(), place)).collect();
    let mut last: BTreeMap<&str, (usize, &str)> = BTreeMap::new();
    for row in &state.effects {
        let (Some(key), Some(&at)) = (row.key.as_deref(), place.get(row.id.as_str())) else { continue };
        if !seen.insert(&row.id) && expected.strategy() == Strategy::AtLeastOnce {
            continue;
        }
        if let Some((before, earlier)) = last.insert(key, (at, &row.id)) {
            ensure(before <= at, Guarantee::G9, || {
                format!("key {key}: {} was applied after {earlier}, published before it", row.id)
            })?;
        }
    }
    Ok(())
}
