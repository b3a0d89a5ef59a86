//! Order inside a key, when several things go wrong at once. Found by random schedules.

use crate::rig::*;
use inbox_core::*;
use std::time::Duration;

/// a2 fails, so a1 runs again without it; that meets an outage. When it is over a2 is due, and must still
/// wait for a1.
#[tokio::test(start_paused = true)]
async fn a_failed_message_does_not_overtake_one_that_an_outage_held() {
    let rig = Rig::with(&["a1", "a2", "a3", "b1"]);
    let database = rig.database.clone();
    let script = move |id: &str, attempt| match (id, attempt) {
        ("a2", 1) => {
            database.set_available(false);
            Act::Fail
        }
        _ => Act::Apply,
    };
    let soon = Backoff::new(Duration::from_millis(1), Duration::from_millis(1));
    let builder = rig
        .builder(script)
        .retry(RetryPolicy::default().backoff(soon))
        .outage_backoff(Backoff::new(HOUR, HOUR));
    let (_stop, run, counters) = start(builder);
    pass(Duration::from_secs(60)).await;
    assert_eq!((counters.read().outages, counters.read().failed_attempts), (1, 1));
    rig.database.set_available(true);
    balanced(ends(run).await.unwrap().unwrap());
    assert_eq!(rig.applied_of("a"), ["a1", "a2", "a3"]);
    assert_eq!(rig.attempts("a2"), [1, 2]);
}
