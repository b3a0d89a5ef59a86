//! Handlers that do what they must not: each is a failed attempt with an error of its own, nothing of it is
//! stored or acknowledged as applied, and the others of its batch are applied once.

#![allow(clippy::unwrap_used)]

mod common;

use common::Database;
use inbox_core::{
    ClaimKey, ClaimRequest, Failure, Fingerprint, Group, InboxStore, Inspect, Message, MessageId, Page,
    RetryPolicy, Runner, Scope, TxLimits,
};
use inbox_postgres::{
    Tx,
    sqlx::{AssertSqlSafe, Connection as _, query, query_scalar, raw_sql},
};
use inbox_testkit::{FakeOptions, FakeQueue, Publish};
use std::time::{Duration, Instant};

/// What the wrong handler does; its errors are hidden.
const SLEEP_IDLE: &str = "sleep without a statement";
/// As that, and the error of the statement is given back.
const HONEST: &str = "honest: ";

async fn handle(message: Message, mut tx: Tx) -> Result<(), Failure> {
    let payload = String::from_utf8_lossy(message.payload().map_or(&[][..], |payload| payload)).into_owned();
    if payload == SLEEP_IDLE {
        tokio::time::sleep(Duration::from_millis(900)).await;
        return Ok(());
    }
    if let Some(sql) = payload.strip_prefix(HONEST) {
        raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut *tx).await?;
    } else if payload != message.id() {
        let _hidden = raw_sql(AssertSqlSafe(payload)).execute(&mut *tx).await;
    }
    let written = query("INSERT INTO effects (what) VALUES ($1)").bind(message.id()).execute(&mut *tx).await;
    let is_good = message.id() != "b";
    if is_good {
        written?;
    }
    Ok(())
}

struct Lived {
    error: String,
    effects: Vec<String>,
    took: Duration,
}

/// Four messages in a batch, of which `b` is wrong; with one attempt whoever is charged becomes a letter.
async fn with_wrong_handler(wrong: &str) -> Lived {
    let database = Database::new().await;
    let store = database.open().await;
    let queue = FakeQueue::new(FakeOptions::queue());
    for id in ["a", "b", "c", "d"] {
        queue.publish(Publish::new(id).payload(if id == "b" { wrong } else { id }));
    }
    let mut limits = TxLimits::default();
    (limits.statement_timeout, limits.idle_timeout) = (Duration::from_secs(2), Duration::from_millis(400));
    let started = Instant::now();
    let summary = Runner::builder("billing")
        .broker(queue.connect())
        .store(store.clone())
        .handler(handle)
        .tx_limits(limits)
        .handler_timeout(Duration::from_secs(1))
        .retry(RetryPolicy::default().attempts_max(1))
        .build()
        .unwrap()
        .run()
        .await
        .unwrap();
    let took = started.elapsed();
    assert_eq!((summary.applied, summary.dead_letters, summary.failed_attempts), (3, 1, 1), "{wrong}");
    let letters = store.letters(&Page::first(None, 10)).await.unwrap();
    assert_eq!(letters.len(), 1, "{wrong}");
    assert_eq!(letters[0].claim.id.as_str(), "b", "{wrong}");
    let claims =
        database.texts("SELECT id || ' ' || disposition FROM inbox_claims_readable ORDER BY id").await;
    assert_eq!(claims, ["a applied", "b dead", "c applied", "d applied"], "{wrong}");
    let mut effects = database.effects().await;
    effects.sort();
    Lived { error: letters[0].error.clone(), effects, took }
}

/// The wrong one's effect is not there, and the error says what happened.
async fn fails_alone(wrong: &str, words: &str) -> Lived {
    let lived = with_wrong_handler(wrong).await;
    assert_eq!(lived.effects, ["a", "c", "d"], "{wrong}");
    assert!(lived.error.contains(words), "{wrong}: {}", lived.error);
    lived
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hidden_failure_is_seen() {
    fails_alone("INSERT INTO effects (what) VALUES (NULL)", "its error was hidden").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_ends_the_transaction_has_failed() {
    for wrong in ["COMMIT", "ROLLBACK", "COMMIT; BEGIN", "COMMIT AND CHAIN", "ROLLBACK AND CHAIN"] {
        fails_alone(wrong, "by a COMMIT or ROLLBACK that the handler sent").await;
    }
    // The effect behind it is refused, which aborts what was begun by hand.
    for wrong in ["ROLLBACK; BEGIN", "ROLLBACK; BEGIN; SELECT 1 / 0"] {
        fails_alone(wrong, "its error was hidden").await;
    }
    fails_alone("honest: COMMIT", "a handler must not commit").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_written_outside_of_the_transaction_is_refused() {
    fails_alone("ROLLBACK; INSERT INTO effects (what) VALUES ('x')", "that the handler sent").await;
    fails_alone("honest: ROLLBACK; BEGIN; INSERT INTO effects (what) VALUES ('x')", "read-only").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_constraint_that_fails_at_the_commit_is_told() {
    fails_alone("INSERT INTO children VALUES (7)", "children_parent_fkey").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_idle_for_too_long_has_failed() {
    fails_alone(SLEEP_IDLE, "idle for longer than idle_timeout").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_that_takes_too_long_is_ended() {
    let slow = "honest: SET LOCAL statement_timeout = 100; SELECT pg_sleep(60)";
    fails_alone(slow, "statement timeout").await;
    fails_alone("SET LOCAL statement_timeout = 100; SELECT pg_sleep(60)", "its error was hidden").await;
}

/// The handler is dropped while its statement runs: the rollback does not wait for that.
#[tokio::test(flavor = "multi_thread")]
async fn a_handler_that_takes_too_long_is_left_behind() {
    let lived = fails_alone("SET LOCAL statement_timeout = 0; SELECT pg_sleep(60)", "").await;
    assert!(lived.took < Duration::from_secs(15), "{:?}: {}", lived.took, lived.error);
}

/// A nested transaction is a savepoint, whatever becomes of it.
#[tokio::test(flavor = "multi_thread")]
async fn nested_transactions_are_savepoints() {
    async fn nest(message: Message, mut tx: Tx) -> Result<(), Failure> {
        for (end, what) in [("commit", "kept"), ("rollback", "gone"), ("drop", "gone")] {
            let mut nested = tx.begin().await?;
            let text = format!("{} {what}", message.id());
            query("INSERT INTO effects (what) VALUES ($1)").bind(text).execute(&mut *nested).await?;
            match end {
                "commit" => nested.commit().await?,
                "rollback" => nested.rollback().await?,
                _ => drop(nested),
            }
        }
        if message.id() == "b" {
            return Err(Failure::message("no"));
        }
        Ok(())
    }
    let database = Database::new().await;
    let queue = FakeQueue::new(FakeOptions::queue());
    for id in ["a", "b", "c"] {
        queue.publish(Publish::new(id));
    }
    let runner =
        Runner::builder("billing").broker(queue.connect()).store(database.open().await).handler(nest);
    let runner = runner.batch_max(1).lanes(1).retry(RetryPolicy::default().attempts_max(1));
    let summary = runner.build().unwrap().run().await.unwrap();
    assert_eq!((summary.applied, summary.dead_letters), (2, 1));
    let mut effects = database.effects().await;
    effects.sort();
    assert_eq!(effects, ["a kept", "c kept"]);
}

/// The bound on waiting for claims is not the handler's.
#[tokio::test(flavor = "multi_thread")]
async fn the_lock_timeout_of_claims_does_not_reach_handlers() {
    async fn look(_message: Message, mut tx: Tx) -> Result<(), Failure> {
        let sql = "INSERT INTO effects (what) SELECT current_setting('lock_timeout') || ' ' \
             || current_setting('statement_timeout') || ' ' || current_setting('transaction_isolation')";
        query(sql).execute(&mut *tx).await?;
        Ok(())
    }
    let database = Database::new().await;
    let name = database.test.name();
    database.test.query(&format!("ALTER DATABASE {name} SET lock_timeout = '7s'"));
    let queue = FakeQueue::new(FakeOptions::queue());
    queue.publish(Publish::new("a"));
    let store = database.open().await;
    let runner = Runner::builder("billing").broker(queue.connect()).store(store.clone()).handler(look);
    runner.build().unwrap().run().await.unwrap();
    assert_eq!(database.effects().await, ["7s 30s read committed"]);
    // Whether one or several are claimed, and found or fresh.
    for ids in [&["a"][..], &["b"], &["a", "c"], &["d", "e"], &["d", "e"]] {
        let claim = |id: &&str| ClaimRequest {
            key: ClaimKey { scope: Scope::default(), id: MessageId::new(id).unwrap() },
            fingerprint: Fingerprint::of_payload(Some(id.as_bytes())),
        };
        let requests: Vec<ClaimRequest> = ids.iter().map(claim).collect();
        let mut tx = store.begin(&TxLimits::default()).await.unwrap();
        store.claim(&mut tx, &Group::new("billing").unwrap(), &requests).await.unwrap();
        let timeout: String = query_scalar("SHOW lock_timeout").fetch_one(&mut *tx).await.unwrap();
        assert_eq!(timeout, "7s", "{ids:?}");
        store.commit(tx).await.unwrap();
    }
}
