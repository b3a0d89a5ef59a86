//! Every planted fault is caught by the cases that are named for it, and honest ones pass all.

use crate::harness::{broker::OverFake, store::OverMemory};
use inbox_core::{Broker, Checkpoints, InboxStore, Inspect};
use inbox_testkit::{
    suite::{Pace, broker, failing, store},
    *,
};

/// Fails unless these catch it, and prints them and how many did in all.
fn caught(saboteur: &str, failed: &[suite::Failed], must: &[&str]) {
    let names: Vec<&str> = failed.iter().map(|failed| failed.case).collect();
    // The table of the run, shown with `--nocapture`.
    #[allow(clippy::print_stdout)]
    {
        println!("| {saboteur} | {} | {} |", must.join(", "), names.len());
    }
    for case in must {
        assert!(store::CASES.contains(case) || broker::CASES.contains(case), "no case is called {case}");
        assert!(names.contains(case), "{saboteur} passes {case}; it fails {names:?}");
    }
}

fn judge_store<S>(saboteur: &str, wrap: fn(MemoryStore) -> S, must: &[&str])
where
    S: Inspect + Checkpoints + InboxStore<Tx = MemoryTx>,
{
    let failed = failing(Pace::Paused, &store::cases(), || async { OverMemory::new(wrap) });
    caught(saboteur, &failed, must);
}

fn judge_broker<B>(saboteur: &str, options: &FakeOptions, wrap: fn(FakeBroker) -> B, must: &[&str])
where
    B: Broker<Receipt = FakeReceipt>,
{
    let failed = failing(Pace::Paused, &broker::cases(), || async { OverFake::new(options.clone(), wrap) });
    caught(saboteur, &failed, must);
}

#[test]
fn honest_ones_fail_nothing() {
    let failed = failing(Pace::Paused, &store::cases(), || async { OverMemory::new(|store| store) });
    assert_eq!(failed, []);
    let options = FakeOptions::log();
    let failed =
        failing(Pace::Paused, &broker::cases(), || async { OverFake::new(options.clone(), |broker| broker) });
    assert_eq!(failed, []);
}

#[test]
fn stores_that_claim_or_commit_wrongly() {
    judge_store("claims in its own transaction", ClaimElsewhere::new, &["rollback_leaves_nothing"]);
    judge_store("never commits", |s| LyingCommit::new(s, Late::Never), &["commit_is_atomic"]);
    judge_store("commits later", |s| LyingCommit::new(s, Late::AtNextBegin), &["commit_is_durable"]);
    let must = ["fresh_once", "duplicate_found_after_reopen"];
    judge_store("forgets what was applied", TwistedClaims::forgetful, &must);
    let must = ["conflict_tells_what_is_stored"];
    judge_store("takes conflicts for duplicates", TwistedClaims::silent_conflicts, &must);
}

macro_rules! spoilt_stores {
    ($($fault:ident: $($case:literal),+;)+) => {$(
        judge_store(
            stringify!($fault),
            |store| SpoiltStore::new(store, StoreFault::$fault),
            &[$($case),+],
        );
    )+};
}

#[test]
fn stores_with_one_fault() {
    spoilt_stores! {
        AnswersSorted: "answers_in_the_order_of_requests", "a_thousand_keys_in_one_call";
        IdsWithoutCase: "ids_are_exact";
        IdsTrimmed: "ids_are_exact";
        ScopeIgnored: "scopes_are_separate";
        GroupIgnored: "groups_are_separate";
        LocksUnsorted: "crossing_batches";
        BusyIsFound: "undecided_is_busy", "rollback_lets_the_other_have_it";
        ResolveGuesses: "resolve_does_not_guess";
        RollbackIsOk: "hidden_failure", "deferred_constraint", "connection_cut";
        BuriedIsApplied: "buried_is_dead", "dead_is_found";
        LettersTwice: "letter_kept_once";
        ConflictsUncounted: "conflict_kept_once_and_counted";
        AbsentHeadersLost: "records_read_back_whole";
        PagesRepeat: "pages_cover_everything_once";
        ForwardGoesBack: "forward_never_goes_back";
        FenceIgnored: "from_is_compare_and_swap", "take_over_fences_the_owner_before";
        EpochKept: "take_over_fences_the_owner_before";
        HoldOnlyReads: "hold_excludes_others";
        PositionsCut: "large_numbers_in_checkpoints";
        UnitsDropped: "unit_runs_to_its_end";
        UnknownIsPermanent: "unknown_errors_are_the_handlers";
    }
}

macro_rules! spoilt_brokers {
    ($($fault:ident on $options:expr => $($case:literal),+;)+) => {$(
        judge_broker(
            stringify!($fault),
            &$options,
            |broker| SpoiltBroker::new(broker, BrokerFault::$fault),
            &[$($case),+],
        );
    )+};
}

#[test]
fn brokers_with_one_fault() {
    let rebalancing = FakeOptions::log().mode(Mode::Log { rebalances: true });
    spoilt_brokers! {
        AcknowledgesAtDelivery on FakeOptions::queue() => "unsettled_comes_again", "close_gives_back";
        AcknowledgesAtDelivery on FakeOptions::log() => "unsettled_comes_again";
        LosesWhenCancelled on FakeOptions::queue() => "cancelled_next_loses_nothing";
        CreditIgnored on FakeOptions::queue() => "credit_counts_messages", "credit_counts_bytes";
        EmptyCreditIgnored on FakeOptions::queue() => "no_credit_no_deliveries";
        OrderForgotten on FakeOptions::queue() => "order_is_kept";
        OrderForgotten on FakeOptions::log() => "order_is_kept", "positions_rise";
        ReleasedDropped on FakeOptions::queue() => "released_comes_again";
        AnswersFewer on FakeOptions::queue() => "one_answer_per_settlement";
        SettlementsLost on FakeOptions::queue() => "acknowledged_does_not_come_again";
        StaleConfirmed on FakeOptions::queue() => "stale_receipts_change_nothing";
        EndedOnce on FakeOptions::queue() => "ended_stays_ended";
        CloseKeeps on FakeOptions::queue() => "close_gives_back";
        TombstonesFilled on FakeOptions::queue() => "tombstones";
        PayloadsTrimmed on FakeOptions::queue() => "payloads_are_exact";
        HeadersOnce on FakeOptions::queue() => "headers";
        KeysLost on FakeOptions::queue() => "keys";
        AssignmentsAnswered on rebalancing => "nothing_before_the_assignment";
        CountsNothing on FakeOptions::queue() => "deliveries_are_counted";
    }
    let highest = FakeOptions::log().cumulative(Cumulative::PlantedHighest);
    let must = ["settling_covers_nothing_else", "settling_in_one_call_covers_nothing_else"];
    judge_broker("PlantedHighest", &highest, |broker| broker, &must);
}
