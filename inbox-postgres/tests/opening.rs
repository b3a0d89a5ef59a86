//! Connecting: tables, names, rolling deploys, servers that cannot be used, roles with few privileges.

#![allow(clippy::unwrap_used)]

mod common;

use common::Database;
use inbox_core::{
    Claim, ClaimKey, ClaimRequest, FaultClass, Fingerprint, Group, InboxStore, MessageId, Scope, TxLimits,
};
use inbox_postgres::{
    Isolation, OpenError, PostgresStore, StatementError,
    sqlx::{Connection as _, query, query_scalar},
};
use inbox_testkit::servers::PostgresServer;

fn request(id: &str) -> ClaimRequest {
    let key = ClaimKey { scope: Scope::default(), id: MessageId::new(id).unwrap() };
    ClaimRequest { key, fingerprint: Fingerprint::of_payload(Some(b"x")) }
}

fn group() -> Group {
    Group::new("billing").unwrap()
}

async fn deliver(store: &PostgresStore, id: &str) -> Claim {
    let mut tx = store.begin(&TxLimits::default()).await.unwrap();
    let answer = store.claim(&mut tx, &group(), &[request(id)]).await.unwrap().remove(0);
    store.commit(tx).await.unwrap();
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn several_processes_make_the_tables_at_once() {
    let database = Database::new().await;
    let opened = (0..8).map(|_| {
        let url = database.test.url().to_owned();
        tokio::spawn(async move { PostgresStore::connect(&url).await.unwrap() })
    });
    for store in opened.collect::<Vec<_>>() {
        drop(store.await.unwrap());
    }
    assert_eq!(database.texts("SELECT count(*)::text FROM inbox_schema").await, ["1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn schemas_and_prefixes_are_apart_and_checked() {
    let database = Database::new().await;
    let options = || PostgresStore::options(database.test.url()).unwrap();
    for store in
        [options(), options().prefix("other_"), options().schema("own").prefix("x"), options().schema("own")]
    {
        let store = store.connect().await.unwrap();
        assert_eq!(deliver(&store, "a").await, Claim::Fresh);
        assert_eq!(deliver(&store, "a").await, Claim::Applied);
    }
    for wrong in [options().prefix("a\"b"), options().schema("A"), options().prefix("")] {
        assert!(matches!(wrong.connect().await, Err(OpenError::Name { .. })));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_script_for_people_makes_the_same_tables() {
    let database = Database::new().await;
    let options = || PostgresStore::options(database.test.url()).unwrap().schema("own").migrate(false);
    let error = options().connect().await.unwrap_err();
    assert!(matches!(error, OpenError::OldSchema { found: 0, .. }), "{error}");
    database.test.query(&options().schema_sql().unwrap());
    assert_eq!(deliver(&options().connect().await.unwrap(), "a").await, Claim::Fresh);
    let columns = |schema: &str| {
        database.test.query(&format!(
            "SELECT table_name, column_name, data_type, is_nullable, collation_name \
             FROM information_schema.columns WHERE table_schema = '{schema}' AND table_name LIKE 'inbox%' ORDER BY 1, 2"
        ))
    };
    drop(PostgresStore::connect(database.test.url()).await.unwrap());
    assert_eq!(columns("own"), columns("public"));
}

/// While a rolling deploy is under way, old programs meet newer tables.
#[tokio::test(flavor = "multi_thread")]
async fn newer_tables_are_used_when_they_say_so() {
    let database = Database::new().await;
    drop(database.open().await);
    database.test.query("INSERT INTO inbox_schema (version, compatible_with) VALUES (1000, 1)");
    assert_eq!(deliver(&database.open().await, "a").await, Claim::Fresh);
    database.test.query("INSERT INTO inbox_schema (version, compatible_with) VALUES (1001, 1001)");
    let error = PostgresStore::connect(database.test.url()).await.unwrap_err();
    assert!(matches!(error, OpenError::NewerSchema { found: 1001, .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_forgets_commits_is_refused() {
    let server = PostgresServer::start_with(&["fsync = off"]);
    let database = Database::on(&server).await;
    let error = PostgresStore::connect(database.test.url()).await.unwrap_err().to_string();
    assert!(error.contains("fsync is off"), "{error}");
    let options = PostgresStore::options(database.test.url()).unwrap().accept_lost_commits(true);
    assert_eq!(deliver(&options.connect().await.unwrap(), "a").await, Claim::Fresh);
    let name = database.test.name();
    database.test.query(&format!("ALTER DATABASE {name} SET default_transaction_read_only = on"));
    let options = PostgresStore::options(database.test.url()).unwrap().accept_lost_commits(true);
    let error = options.connect().await.unwrap_err().to_string();
    assert!(error.contains("default_transaction_read_only"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_of_connecting_are_one_line_without_secrets() {
    for url in [
        "postgres://me:s3cret@127.0.0.1:1/none",
        "postgres://me:s3cret@no-such-host.invalid/none",
        "postgres://me:s3cret@[::1/none",
    ] {
        let error = match PostgresStore::options(url) {
            Ok(options) => options.connect().await.unwrap_err(),
            Err(error) => error,
        };
        let text = format!("{error} {error:?}");
        assert!(!text.contains("s3cret") && !error.to_string().contains('\n'), "{text}");
    }
}

/// A script that is wrong is told from a server that went away.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_goes_away_under_a_script_is_an_outage() {
    let database = Database::new().await;
    let store = database.open().await;
    for (script, class) in [
        ("SELECT nothing", FaultClass::Permanent),
        ("SELECT pg_terminate_backend(pg_backend_pid())", FaultClass::Outage),
    ] {
        assert_eq!(store.apply_init(script).await.unwrap_err().class(), Some(class), "{script}");
    }
}

/// The words of the server, and the same meaning.
#[tokio::test(flavor = "multi_thread")]
async fn a_statement_error_is_what_the_drivers_error_is() {
    let database = Database::new().await;
    let store = database.open().await;
    let failed = query("INSERT INTO effects (what) VALUES (NULL)").execute(&mut database.look().await).await;
    let error = StatementError::from(failed.unwrap_err());
    assert_eq!(store.classify(&error), store.classify(error.driver()));
    assert_eq!(store.classify(&error), FaultClass::Permanent);
    let told = "null value in column \"what\" of relation \"effects\" violates not-null constraint (23502)";
    assert_eq!(error.to_string(), told);
}

/// What docs/postgres.md grants is enough, and makes no tables.
#[tokio::test(flavor = "multi_thread")]
async fn a_role_with_few_privileges_is_enough() {
    let database = Database::new().await;
    drop(database.open().await);
    let role = format!("{}_role", database.test.name());
    let page = include_str!("../../docs/postgres.md");
    let grants = page.split("```sql\n").find(|block| block.starts_with("CREATE ROLE")).unwrap();
    let grants = grants.split("```").next().unwrap().replace("billing_service", &role);
    database.test.query(&grants);
    let url = database.test.url().replace("postgres@", &format!("{role}@"));
    let options = PostgresStore::options(&url).unwrap().migrate(false);
    let store = options.connect().await.unwrap();
    assert_eq!(deliver(&store, "a").await, Claim::Fresh);
    assert_eq!(deliver(&store, "a").await, Claim::Applied);
    database.test.query(&format!("DROP OWNED BY {role}; DROP ROLE {role}"));
}

/// As behind a pooler in transaction mode: nothing of a session is relied on.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_depends_on_sessions_with_transaction_pooling() {
    let database = Database::new().await;
    let options = PostgresStore::options(database.test.url()).unwrap().transaction_pooling(true);
    let store = options.connect().await.unwrap();
    for id in ["a", "b"] {
        let mut tx = store.begin(&TxLimits::default()).await.unwrap();
        store.claim(&mut tx, &group(), &[request(id)]).await.unwrap();
        let named: i64 = query_scalar("SELECT count(*) FROM pg_prepared_statements")
            .persistent(false)
            .fetch_one(&mut *tx)
            .await
            .unwrap();
        assert_eq!(named, 0, "prepared statements with a name belong to a session");
        store.commit(tx).await.unwrap();
    }
    assert_eq!(deliver(&store, "a").await, Claim::Applied);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_isolation_level_claims_once() {
    let database = Database::new().await;
    for (number, isolation) in
        [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Serializable].into_iter().enumerate()
    {
        let options = PostgresStore::options(database.test.url()).unwrap().isolation(isolation);
        let store = options.connect().await.unwrap();
        let id = number.to_string();
        assert_eq!(deliver(&store, &id).await, Claim::Fresh, "{isolation:?}");
        assert_eq!(deliver(&store, &id).await, Claim::Applied, "{isolation:?}");
    }
}

/// The library mode, in a transaction of sqlx's own.
#[tokio::test(flavor = "multi_thread")]
async fn claims_in_a_transaction_of_ones_own() {
    let database = Database::new().await;
    let store = database.open().await;
    let ClaimRequest { key, fingerprint } = request("a");
    let mut connection = database.look().await;
    for (commits, expected) in [(false, Claim::Fresh), (true, Claim::Fresh), (true, Claim::Applied)] {
        let mut tx = connection.begin().await.unwrap();
        assert_eq!(store.claim_in(&mut tx, &group(), &key, fingerprint).await.unwrap(), expected);
        if expected == Claim::Fresh {
            query("INSERT INTO effects (what) VALUES ('a')").execute(&mut *tx).await.unwrap();
        }
        if commits {
            tx.commit().await.unwrap();
        } else {
            tx.rollback().await.unwrap();
        }
    }
    assert_eq!(database.effects().await, ["a"]);
    assert_eq!(deliver(&store, "a").await, Claim::Applied);
    let other = Fingerprint::of_payload(Some(b"other"));
    let mut tx = connection.begin().await.unwrap();
    let conflict = Claim::Conflict { stored: fingerprint };
    assert_eq!(store.claim_in(&mut tx, &group(), &key, other).await.unwrap(), conflict);
}

/// Bytes per message with all indexes, for ids of 36 bytes in any order: at most 130.
#[tokio::test(flavor = "multi_thread")]
async fn claims_are_small() {
    const ROWS: u64 = 100_000;
    let database = Database::new().await;
    let store = database.open().await;
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..ROWS / 1000 {
        let ids: Vec<String> = (0..1000)
            .map(|_| {
                let hex = format!("{:032x}", random.u128(..));
                [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
            })
            .collect();
        let requests: Vec<ClaimRequest> = ids.iter().map(|id| request(id)).collect();
        let mut tx = store.begin(&TxLimits::default()).await.unwrap();
        store.claim(&mut tx, &group(), &requests).await.unwrap();
        store.commit(tx).await.unwrap();
    }
    let bytes = database.texts("SELECT pg_total_relation_size('inbox_claims')::text").await;
    let per_row = bytes[0].parse::<u64>().unwrap() as f64 / ROWS as f64;
    println!("{per_row:.1} bytes per claim with its index, {ROWS} rows");
    assert!(per_row <= 130.0, "{per_row}");
}
