//! Lost replies, lost connections and lost servers, through a proxy.

#![allow(clippy::unwrap_used)]

mod common;

use common::Database;
use inbox_core::{
    Backoff, Claim, ClaimKey, ClaimRequest, CommitError, Disposition, Failure, FaultClass, Fingerprint,
    Group, InboxStore, Message, MessageId, Observed, Resolution, Runner, Scope, StoreError, TxLimits,
};
use inbox_postgres::{PostgresStore, PostgresTx, Tx, sqlx::query};
use inbox_testkit::{
    FakeOptions, FakeQueue, Publish,
    servers::{Cut, PostgresServer, TcpProxy},
};
use std::{sync::Arc, time::Duration};
use tokio::sync::Semaphore;

fn group() -> Group {
    Group::new("billing").unwrap()
}

fn key(id: &str) -> ClaimKey {
    ClaimKey { scope: Scope::default(), id: MessageId::new(id).unwrap() }
}

fn request(id: &str) -> ClaimRequest {
    ClaimRequest { key: key(id), fingerprint: Fingerprint::of_payload(Some(b"x")) }
}

struct Proxied {
    database: Database,
    proxy: TcpProxy,
    store: PostgresStore,
}

impl Proxied {
    async fn new(server: &PostgresServer) -> Self {
        let database = Database::on(server).await;
        let proxy = TcpProxy::to_port(server.port());
        let url = database.test.url_through(&proxy.address());
        let options = PostgresStore::options(&url).unwrap().connect_timeout(Duration::from_secs(2));
        let store = options.connect().await.unwrap();
        Self { database, proxy, store }
    }

    /// A transaction with a claim and its effect.
    async fn open(&self, id: &str) -> PostgresTx {
        let mut tx = self.store.begin(&TxLimits::default()).await.unwrap();
        assert_eq!(self.store.claim(&mut tx, &group(), &[request(id)]).await.unwrap(), [Claim::Fresh]);
        query("INSERT INTO effects (what) VALUES ($1)").bind(id).execute(&mut *tx).await.unwrap();
        tx
    }

    async fn resolve(&self, id: &str) -> Result<Resolution, StoreError> {
        self.store.resolve(&group(), &[key(id)]).await.map(|mut all| all.remove(0))
    }
}

fn is_in_doubt(outcome: Result<(), CommitError>) -> bool {
    matches!(outcome, Err(CommitError::InDoubt { .. }))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_reply_to_a_commit_is_resolved() {
    let it = Proxied::new(&PostgresServer::shared()).await;
    let tx = it.open("a").await;
    it.proxy.cut_at(Cut::ReplyTo(b"COMMIT".to_vec()));
    assert!(is_in_doubt(it.store.commit(tx).await));
    assert_eq!(it.proxy.cuts_done(), 1);
    let fingerprint = request("a").fingerprint;
    assert_eq!(
        it.resolve("a").await.unwrap(),
        Resolution::Committed { disposition: Disposition::Applied, fingerprint }
    );
    assert_eq!(it.database.effects().await, ["a"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_never_arrived_is_resolved() {
    let it = Proxied::new(&PostgresServer::shared()).await;
    let tx = it.open("a").await;
    it.proxy.cut_at(Cut::BeforeRequest(b"COMMIT".to_vec()));
    assert!(is_in_doubt(it.store.commit(tx).await));
    assert_eq!(it.resolve("a").await.unwrap(), Resolution::Absent);
    assert_eq!(it.database.effects().await, [""; 0]);
    it.store.commit(it.open("a").await).await.unwrap();
}

/// The commit is still under way while somebody asks: no answer, rather than a wrong one.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_is_under_way_is_not_guessed_about() {
    let it = Proxied::new(&PostgresServer::shared()).await;
    let slow = it.open("a").await;
    let other = it.database.open().await;
    let (group, keys) = (group(), [key("a")]);
    let asked = tokio::time::timeout(Duration::from_millis(300), other.resolve(&group, &keys)).await;
    assert!(asked.is_err(), "{asked:?}");
    it.store.commit(slow).await.unwrap();
    let resolved = other.resolve(&group, &keys).await.unwrap();
    assert!(matches!(resolved[..], [Resolution::Committed { .. }]));
}

/// What changes a row that is there, and not only what makes one, is waited for, too.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_somebody_is_changing_is_not_guessed_about() {
    let it = Proxied::new(&PostgresServer::shared()).await;
    it.store.commit(it.open("a").await).await.unwrap();
    let mut tx = it.store.begin(&TxLimits::default()).await.unwrap();
    query("UPDATE inbox_claims SET disposition = 2").execute(&mut *tx).await.unwrap();
    let other = it.database.open().await;
    let (group, keys) = (group(), [key("a")]);
    let asked = tokio::time::timeout(Duration::from_millis(300), other.resolve(&group, &keys)).await;
    assert!(asked.is_err(), "{asked:?}");
    it.store.commit(tx).await.unwrap();
    let resolved = other.resolve(&group, &keys).await.unwrap();
    assert!(matches!(resolved[..], [Resolution::Committed { disposition: Disposition::Dead, .. }]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_does_not_answer_is_an_outage_and_nobody_hangs() {
    let it = Proxied::new(&PostgresServer::shared()).await;
    it.store.commit(it.open("a").await).await.unwrap();
    it.proxy.drop_replies(true);
    let error = it.store.begin(&TxLimits::default()).await.unwrap_err();
    assert_eq!(error.class(), Some(FaultClass::Outage), "{error}");
    it.proxy.drop_replies(false);
    it.proxy.refuse(true);
    it.proxy.cut();
    let error = it.store.begin(&TxLimits::default()).await.unwrap_err();
    assert_eq!(error.class(), Some(FaultClass::Outage), "{error}");
    it.proxy.refuse(false);
    it.store.commit(it.open("b").await).await.unwrap();
}

/// A `begin` that is dropped at any moment leaves no transaction open behind it.
#[tokio::test(flavor = "multi_thread")]
async fn a_begin_that_is_cancelled_leaves_nothing_open() {
    let it = Proxied::new(&PostgresServer::shared()).await;
    it.proxy.delay(Duration::from_millis(1));
    for microseconds in (0..12_000).step_by(500) {
        let limits = TxLimits::default();
        let begun = tokio::time::timeout(Duration::from_micros(microseconds), it.store.begin(&limits)).await;
        drop(begun);
    }
    it.proxy.delay(Duration::ZERO);
    it.store.commit(it.open("a").await).await.unwrap();
    // The server sees the end of a connection a moment later.
    let open = "SELECT count(*)::text FROM pg_stat_activity WHERE state LIKE 'idle in%' \
         AND datname = current_database()";
    for _ in 0..200 {
        if it.database.texts(open).await == ["0"] {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("a transaction stayed open");
}

async fn effect(message: Message, mut tx: Tx) -> Result<(), Failure> {
    query("INSERT INTO effects (what) VALUES ($1)").bind(message.id()).execute(&mut *tx).await?;
    Ok(())
}

/// A runner whose connections are cut around commits and elsewhere applies everything once.
#[tokio::test(flavor = "multi_thread")]
async fn a_runner_survives_cuts_around_its_commits() {
    const MESSAGES: usize = 400;
    const CUTS: u32 = 12;
    let it = Proxied::new(&PostgresServer::shared()).await;
    let queue = FakeQueue::new(FakeOptions::queue());
    for number in 0..MESSAGES {
        queue.publish(Publish::new(format!("m-{number:03}")));
    }
    let runner = Runner::builder("billing").broker(queue.connect()).store(it.store.clone()).handler(effect);
    let runner = runner.outage_backoff(Backoff::new(Duration::from_millis(5), Duration::from_millis(50)));
    let runner = runner.batch_max(5).lanes(4).build().unwrap();
    let running = tokio::spawn(runner.run());
    for cut in 0..CUTS {
        match cut % 3 {
            0 => it.proxy.cut_at(Cut::ReplyTo(b"COMMIT".to_vec())),
            1 => it.proxy.cut_at(Cut::BeforeRequest(b"COMMIT".to_vec())),
            _ => it.proxy.cut(),
        }
        while it.proxy.cuts_done() <= cut && !running.is_finished() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    let summary = running.await.unwrap().unwrap();
    assert_eq!(it.proxy.cuts_done(), CUTS, "the run was over too soon");
    assert_eq!((summary.dead_letters, summary.failed_attempts), (0, 0), "nobody is charged");
    let mut effects = it.database.effects().await;
    effects.sort();
    assert_eq!(effects, (0..MESSAGES).map(|number| format!("m-{number:03}")).collect::<Vec<_>>());
}

/// A runner whose server is killed and started again, twice, applies everything once.
#[tokio::test(flavor = "multi_thread")]
async fn a_runner_survives_its_server() {
    const MESSAGES: usize = 2000;
    let server = PostgresServer::start();
    let database = Database::on(&server).await;
    let queue = FakeQueue::new(FakeOptions::queue());
    for number in 0..MESSAGES {
        queue.publish(Publish::new(format!("m-{number:04}")));
    }
    let store = database.open().await;
    let runner = Runner::builder("billing").broker(queue.connect()).store(store).handler(effect);
    let applied = Arc::new(Semaphore::new(0));
    let tell = Arc::clone(&applied);
    let runner = runner.observer(move |_: &Message, observed: Observed<'_>| {
        tell.add_permits(usize::from(matches!(observed, Observed::Applied)));
    });
    let runner = runner.batch_max(2).lanes(4).build().unwrap();
    let counters = runner.counters();
    let running = tokio::spawn(runner.run());
    for _ in 0..2 {
        // In the middle of the work, and not before any of it.
        applied.acquire_many(200).await.unwrap().forget();
        assert!(!running.is_finished(), "the run was over too soon");
        let server = server.clone();
        tokio::task::spawn_blocking(move || {
            server.kill();
            server.start_again();
        })
        .await
        .unwrap();
    }
    let summary = running.await.unwrap().unwrap();
    assert!(counters.read().outages >= 2, "a kill went unnoticed: {summary:?}");
    assert_eq!((summary.dead_letters, summary.failed_attempts), (0, 0), "nobody is charged");
    let mut effects = database.effects().await;
    effects.sort();
    assert_eq!(effects, (0..MESSAGES).map(|number| format!("m-{number:04}")).collect::<Vec<_>>());
}
