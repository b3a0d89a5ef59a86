//! Every invariant, with a run that keeps it and one that breaks it and nothing else.

use crate::common::{content, message};
use inbox_core::{Disposition, Fingerprint, Settled, Strategy, Verdict};
use inbox_testkit::*;

fn settled(id: &str, of: Fingerprint, verdict: Verdict, evidence: Evidence) -> Entry {
    let receipt = format!("receipt of {id}");
    Entry::Settled { id: id.to_owned(), content: of, receipt, verdict, evidence }
}

fn claimed(disposition: Disposition, id: &str) -> Evidence {
    Evidence { claim: Some((disposition, content(id))), ..Evidence::default() }
}

fn effect(id: &str, key: &str) -> EffectRow {
    EffectRow { id: id.to_owned(), key: Some(key.to_owned()), content: content(id), seq: 0 }
}

/// Two applied, one dead, one conflict.
fn good() -> (Vec<Entry>, Expected, FinalState) {
    let applied = |id| settled(id, content(id), Verdict::Applied, claimed(Disposition::Applied, id));
    let dead = Evidence { letter: true, ..claimed(Disposition::Dead, "3") };
    let conflict = Evidence { conflict: true, ..claimed(Disposition::Applied, "1") };
    let history = vec![
        Entry::HandlerStarted { id: "1".to_owned(), content: content("1"), evidence: Evidence::default() },
        applied("1"),
        settled("1", content("1"), Verdict::Found, claimed(Disposition::Applied, "1")),
        settled("2", content("2"), Verdict::Released { after: None }, Evidence::default()),
        applied("2"),
        settled("3", content("3"), Verdict::Discarded, dead),
        settled("1", content("other"), Verdict::Discarded, conflict),
    ];
    let expected = Expected::new()
        .applied("1", Some("k"))
        .applied("2", Some("k"))
        .dead("3", Some("k"))
        .conflict("1", content("other"));
    let claims = [("1", Disposition::Applied), ("2", Disposition::Applied), ("3", Disposition::Dead)];
    let state = FinalState {
        effects: vec![effect("1", "k"), effect("2", "k")],
        counter: 2,
        claims: claims.into_iter().map(|(id, disposition)| (id.to_owned(), disposition)).collect(),
        letters: vec!["3".to_owned()],
        conflicts: vec![("1".to_owned(), content("other"))],
        ..FinalState::default()
    };
    (history, expected, state)
}

/// Spoils the good run and gives what the oracle says.
fn spoilt(spoil: impl FnOnce(&mut Vec<Entry>, &mut FinalState)) -> Vec<String> {
    let (mut history, expected, mut state) = good();
    spoil(&mut history, &mut state);
    let violations = Oracle::violations(&history, &expected, &state);
    assert_eq!(Oracle::check(&history, &expected, &state).err(), violations.first().cloned());
    violations.iter().map(ToString::to_string).collect()
}

/// Puts one acknowledgement in front and gives what the oracle says.
fn acknowledged(of: Fingerprint, verdict: Verdict, evidence: Evidence) -> String {
    let said = spoilt(|history, _| history.insert(0, settled("1", of, verdict, evidence)));
    assert_eq!(said.len(), 1, "{said:?}");
    said.into_iter().next().unwrap()
}

#[test]
fn a_good_run_is_good() {
    assert_eq!(spoilt(|_, _| {}), Vec::<String>::new());
}

#[test]
fn an_acknowledgement_needs_its_proof() {
    let one = content("1");
    let nothing = acknowledged(one, Verdict::Applied, Evidence::default());
    assert_eq!(
        nothing,
        "G2: 1 (receipt of 1) was acknowledged as Applied: no claim, letter or conflict of it was committed"
    );
    let dead = Evidence { letter: true, ..claimed(Disposition::Dead, "1") };
    assert!(acknowledged(one, Verdict::Applied, dead).starts_with("G2"));
    assert!(acknowledged(one, Verdict::Waived, dead).starts_with("G2"));
    let unlettered = claimed(Disposition::Dead, "1");
    assert!(acknowledged(one, Verdict::Discarded, unlettered).starts_with("G8"));
    assert!(acknowledged(one, Verdict::Found, unlettered).starts_with("G8"));
    let applied = claimed(Disposition::Applied, "1");
    assert!(acknowledged(one, Verdict::Discarded, applied).starts_with("G8"));
    assert!(acknowledged(content("other"), Verdict::Found, applied).starts_with("G5"));
    let conflict = Evidence { conflict: true, ..applied };
    assert!(acknowledged(content("other"), Verdict::Applied, conflict).starts_with("G5"));
}

#[test]
fn waiving_is_good_only_where_it_is_allowed() {
    let (mut history, expected, state) = good();
    history.push(settled("1", content("1"), Verdict::Waived, Evidence::default()));
    assert!(Oracle::check(&history, &expected, &state).is_err());
    assert_eq!(Oracle::check(&history, &expected.waived(), &state), Ok(()));
}

#[test]
fn a_duplicate_must_not_run() {
    let evidence = claimed(Disposition::Applied, "1");
    let said = spoilt(|history, _| {
        history.push(Entry::HandlerStarted { id: "1".to_owned(), content: content("1"), evidence })
    });
    assert_eq!(said, ["G3: the handler ran for 1, which was already committed as Applied"]);
}

#[test]
fn nothing_may_be_covered() {
    let said = spoilt(|_, state| state.covered.push("2".to_owned()));
    assert_eq!(said, ["G7: acknowledgements of others covered [\"2\"]"]);
}

#[test]
fn row_and_effect_go_together() {
    let said = spoilt(|_, state| state.counter = 3);
    assert_eq!(said, ["G6: 2 rows were appended and the counter was raised to 3: half an effect"]);
    let said = spoilt(|_, state| {
        state.effects.pop();
        state.counter = 1;
    });
    assert_eq!(said, ["G6: claims without an effect: [\"2\"]", "G1: 2 must be Applied and has 0 effects"]);
    let said = spoilt(|_, state| {
        state.claims.remove("2");
    });
    assert_eq!(said, ["G6: effects without a claim: [\"2\"]", "G1: 2 left no claim: it is lost"]);
}

#[test]
fn an_effect_is_there_once() {
    let said = spoilt(|_, state| {
        state.effects.push(effect("2", "k"));
        state.counter = 3;
    });
    assert_eq!(said, ["G1: 2 must be Applied and has 2 effects"]);
    let said = spoilt(|_, state| {
        state.effects.push(effect("9", "k"));
        state.claims.insert("9".to_owned(), Disposition::Applied);
        state.counter = 3;
    });
    assert_eq!(said, ["G1: an effect of Some(\"9\"), never published"]);
    let said = spoilt(|_, state| {
        state.effects.push(effect("3", "k"));
        state.counter = 3;
    });
    assert!(said.contains(&"G1: 3 must be Dead and has 1 effects".to_owned()), "{said:?}");
}

#[test]
fn conflicts_are_recorded_once_and_never_applied() {
    let said = spoilt(|_, state| state.conflicts.clear());
    assert_eq!(said.len(), 1);
    assert!(said[0].starts_with("G5: 1 with") && said[0].ends_with("is recorded 0 times"), "{said:?}");
    assert!(spoilt(|_, state| state.conflicts.push(("1".to_owned(), content("other"))))[0].starts_with("G5"));
    assert!(spoilt(|_, state| state.conflicts.push(("2".to_owned(), content("x"))))[0].starts_with("G5"));
    assert!(spoilt(|_, state| state.effects[0].content = content("other"))[0].starts_with("G5"));
}

#[test]
fn letters_are_there_once_for_the_dead() {
    assert!(spoilt(|_, state| state.letters.clear())[0].starts_with("G8: 3 must be Dead, has 0 letters"));
    assert!(
        spoilt(|_, state| state.letters.push("3".to_owned()))[0].starts_with("G8: 3 must be Dead, has 2")
    );
    assert!(spoilt(|_, state| state.letters.push("1".to_owned()))[0].starts_with("G8: 1 must be Applied"));
    assert!(spoilt(|_, state| state.letters.push("9".to_owned()))[0].starts_with("G8: a letter about"));
}

#[test]
fn nothing_is_lost() {
    let said = spoilt(|_, state| state.unsettled.push("2".to_owned()));
    assert_eq!(said, ["G1: the run ended and the broker still has [\"2\"]"]);
    let said = spoilt(|history, _| {
        history.remove(4);
    });
    assert_eq!(said, ["G1: 2 was never acknowledged"]);
}

#[test]
fn order_is_kept_within_a_key() {
    let said = spoilt(|_, state| state.effects.reverse());
    assert_eq!(said, ["G9: key k: 1 was applied after 2, published before it"]);
    let (history, expected, mut state) = good();
    state.effects.reverse();
    assert_eq!(Oracle::check(&history, &expected.unordered(), &state), Ok(()));
    state.effects[0].key = Some("another".to_owned());
    let (_, expected, _) = good();
    assert_eq!(Oracle::check(&history, &expected, &state), Ok(()));
}

#[test]
fn either_fate_is_one_of_both() {
    let (history, _, state) = good();
    let expected = Expected::new()
        .message("1", None, Fate::Either)
        .message("2", None, Fate::Either)
        .message("3", None, Fate::Either)
        .conflict("1", content("other"));
    assert_eq!(Oracle::check(&history, &expected, &state), Ok(()));
}

#[test]
fn a_history_says_how_to_run_it_again() {
    let database = MemoryDatabase::new();
    let history = History::new(database.witness(&crate::common::group()));
    let one = message("1", "1");
    history.delivered(one.id(), one.fingerprint(), "#1".to_owned());
    history.delivered(one.id(), one.fingerprint(), "#2".to_owned());
    history.handler_started(one.id(), one.fingerprint());
    history.handler_ended(one.id(), true);
    history.note("the end");
    assert_eq!(history.handler_starts("1"), 1);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("history.txt");
    history.write_to(&file, "seed 42").unwrap();
    let text = std::fs::read_to_string(file).unwrap();
    assert!(text.starts_with("# seed 42\n") && text.contains("count: 2") && text.contains("the end"));
    assert_eq!(text.lines().count(), 6);
}

/// What the oracle says about one message under a strategy.
fn said_under(strategy: Strategy, history: Vec<Entry>, state: FinalState) -> Vec<String> {
    let expected = Expected::new().applied("1", None).under(strategy);
    let violations = Oracle::violations(&history, &expected, &state);
    violations.iter().map(ToString::to_string).collect()
}

fn with_effects(effects: usize) -> FinalState {
    FinalState { effects: vec![effect("1", "k"); effects], counter: effects as i64, ..FinalState::default() }
}

#[test]
fn at_least_once_each_acknowledgement_has_an_effect() {
    let told = |effects| {
        let evidence = Evidence { effects, ..Evidence::default() };
        settled("1", content("1"), Verdict::Applied, evidence)
    };
    let said = |history, state| said_under(Strategy::AtLeastOnce, history, state);
    assert_eq!(said(vec![told(1), told(2)], with_effects(2)), Vec::<String>::new());
    let once = said(vec![told(1), told(1)], with_effects(1));
    assert_eq!(once, ["G2: 1 was acknowledged 2 times, and 1 effects of it were committed"]);
    let found = settled("1", content("1"), Verdict::Found, Evidence { effects: 1, ..Evidence::default() });
    assert!(said(vec![found], with_effects(1))[0].starts_with("G8"));
}

#[test]
fn on_persist_nothing_stays_kept() {
    let kept = claimed(Disposition::Stored, "1");
    let history = vec![
        settled("1", content("1"), Verdict::Stored, kept),
        Entry::HandlerStarted { id: "1".to_owned(), content: content("1"), evidence: kept },
    ];
    let state = |disposition, effects| FinalState {
        claims: [("1".to_owned(), disposition)].into_iter().collect(),
        ..with_effects(effects)
    };
    let said = |history, state| said_under(Strategy::OnPersist, history, state);
    assert_eq!(said(history.clone(), state(Disposition::Applied, 1)), Vec::<String>::new());
    assert!(said(history.clone(), state(Disposition::Stored, 0)).iter().any(|v| v.contains("still kept")));
    let mut unkept = history;
    unkept.swap(0, 1);
    unkept[0] =
        Entry::HandlerStarted { id: "1".to_owned(), content: content("1"), evidence: Evidence::default() };
    assert!(said(unkept, state(Disposition::Applied, 1))[0].starts_with("G2"));
}

#[test]
fn at_most_once_only_what_was_confirmed_is_handled_and_only_faults_lose() {
    let waived = settled("1", content("1"), Verdict::Waived, Evidence::default());
    let answered = |settled| Entry::Answered {
        id: "1".to_owned(),
        content: content("1"),
        verdict: Verdict::Waived,
        settled: Some(settled),
    };
    let started = |effects| Entry::HandlerStarted {
        id: "1".to_owned(),
        content: content("1"),
        evidence: Evidence { effects, ..Evidence::default() },
    };
    let said = |history, state| said_under(Strategy::AtMostOnce, history, state);
    let confirmed = || vec![waived.clone(), answered(Settled::Confirmed)];
    let with = |more: Entry| [confirmed(), vec![more]].concat();
    assert_eq!(said(with(started(0)), with_effects(1)), Vec::<String>::new());
    assert!(said(with(started(1)), with_effects(1))[0].starts_with("G2"));
    assert!(said(confirmed(), with_effects(2))[0].starts_with("G1: 1 has 2 effects"));
    let unconfirmed = vec![waived.clone(), answered(Settled::Deferred), started(0)];
    assert!(said(unconfirmed, FinalState::default())[0].starts_with("G2"));
    assert!(said(confirmed(), FinalState::default())[0].starts_with("G1: 0 faults"));
    assert_eq!(said(with(Entry::Crashed), FinalState::default()), Vec::<String>::new());
}
