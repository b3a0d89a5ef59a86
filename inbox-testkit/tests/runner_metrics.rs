//! Metrics: counters add up over runs of a group, gauges return to nothing.

use crate::rig::*;
use inbox_testkit::*;
use metrics_util::{
    CompositeKey,
    debugging::{DebugValue, DebuggingRecorder, Snapshotter},
};
use std::{collections::BTreeMap, time::Duration};

/// Values by name, with the outcome behind it where there is one.
type Values = BTreeMap<String, f64>;

fn name_of(key: &CompositeKey) -> String {
    let outcome = key.key().labels().find(|label| label.key() == "outcome");
    let group = key.key().labels().find(|label| label.key() == "group").map(|label| label.value());
    assert_eq!(group, Some("billing"), "{key:?}");
    outcome.map_or(key.key().name().to_owned(), |outcome| format!("{}/{}", key.key().name(), outcome.value()))
}

/// What has been added since the last look (counters), and what is (gauges).
fn look(snapshotter: &Snapshotter) -> Values {
    let values = snapshotter.snapshot().into_vec().into_iter();
    let number = |value| match value {
        // Far below 2^53.
        DebugValue::Counter(count) => count as f64,
        DebugValue::Gauge(level) => level.into_inner(),
        DebugValue::Histogram(_) => panic!("there are no histograms"),
    };
    values.map(|(key, _, _, value)| (name_of(&key), number(value))).collect()
}

/// Lives through `test` with a recorder of its own.
fn recorded<F: Future<Output = ()>>(test: impl FnOnce(Snapshotter) -> F) {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    metrics::with_local_recorder(&recorder, || runtime.unwrap().block_on(test(snapshotter)));
}

const GAUGES: [&str; 5] = [
    "inbox_in_flight_messages",
    "inbox_in_flight_bytes",
    "inbox_queued_messages",
    "inbox_suspended_messages",
    "inbox_busy_lanes",
];

#[test]
fn counters_are_the_summary_and_gauges_return_to_nothing() {
    recorded(|snapshotter| async move {
        let rig = Rig::with(&["a1", "b1", "a1", "c1", "d1"]);
        rig.queue.publish(Publish::new("b1").key("b").payload("other"));
        let script = |id: &str, attempt| match (id, attempt) {
            ("c1", _) => Act::Permanent,
            ("d1", 1) => Act::Fail,
            _ => Act::Apply,
        };
        let summary = rig.run(rig.builder(script).lanes(2).batch_max(2)).await;
        let values = look(&snapshotter);
        for (name, count) in [
            ("inbox_deliveries_total/applied", summary.applied),
            ("inbox_deliveries_total/duplicate", summary.duplicates),
            ("inbox_deliveries_total/conflict", summary.conflicts),
            ("inbox_deliveries_total/dead_letter", summary.dead_letters),
            ("inbox_deliveries_total/stored", 0),
            ("inbox_deliveries_total/ignored", 0),
            ("inbox_deliveries_total/dropped", 0),
            ("inbox_deliveries_total/released", 0),
            ("inbox_failed_attempts_total", summary.failed_attempts),
            ("inbox_commits_total", summary.commits),
        ] {
            assert_eq!(values.get(name), Some(&(count as f64)), "{name}: {values:?}");
        }
        assert_eq!((summary.applied, summary.duplicates, summary.conflicts), (3, 1, 1));
        assert_eq!((summary.dead_letters, summary.failed_attempts), (1, 2));
        GAUGES.iter().for_each(|gauge| assert_eq!(values.get(*gauge), Some(&0.0), "{gauge}"));
    });
}

#[test]
fn a_second_run_of_the_group_goes_on_where_the_first_has_ended() {
    recorded(|snapshotter| async move {
        let rig = Rig::with(&["a1", "b1"]);
        rig.run(rig.builder(|_, _| Act::Apply)).await;
        assert_eq!(look(&snapshotter)["inbox_deliveries_total/applied"], 2.0);
        ["a1", "c1"].iter().for_each(|id| rig.publish(id));
        rig.run(rig.builder(|_, _| Act::Apply)).await;
        // A look takes what was counted: only the second run's is there.
        let values = look(&snapshotter);
        assert_eq!(values["inbox_deliveries_total/applied"], 1.0);
        assert_eq!(values["inbox_deliveries_total/duplicate"], 1.0);
    });
}

#[test]
fn gauges_tell_what_is_open() {
    recorded(|snapshotter| async move {
        let rig = Rig::with(&["a1", "b1", "c1", "c2", "d1"]);
        let gate = Gate::new();
        let at_gate = gate.clone();
        let script = move |id: &str, attempt| match id {
            "a1" if attempt == 1 => Act::FailFor(HOUR),
            "b1" => Act::Wait(at_gate.clone()),
            _ => Act::Apply,
        };
        let (stop, run, _) = start(rig.builder(script).batch_max(1).handler_timeout(HOUR * 100));
        gate.reached().await;
        pass(Duration::from_secs(1)).await;
        let values = look(&snapshotter);
        // a1 waits for its time, b1 has the only lane, and the other three wait for it.
        let levels: Vec<f64> = GAUGES.iter().map(|gauge| values[*gauge]).collect();
        assert_eq!((levels[0], levels[2], levels[3], levels[4]), (5.0, 3.0, 1.0, 1.0));
        assert!(levels[1] > 0.0);
        gate.open();
        stop.send(()).unwrap();
        let summary = balanced(ends(run).await.unwrap().unwrap());
        assert_eq!((summary.applied, summary.released), (1, 4));
        // What was given back is counted, too, and nothing is open behind the end.
        let values = look(&snapshotter);
        assert_eq!(values["inbox_deliveries_total/released"], 4.0);
        GAUGES.iter().for_each(|gauge| assert_eq!(values.get(*gauge), Some(&0.0), "{gauge}"));
    });
}
