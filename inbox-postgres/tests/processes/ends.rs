//! One consumer, whose server is killed or restarted, or whose connections are cut around the commit.

use crate::work::{MESSAGES, Place, consumer};
use async_trait::async_trait;
use inbox_core::{Message, Probe, ProbePoint, Summary};
use inbox_postgres::PostgresStore;
use inbox_testkit::servers::{Cut, PostgresServer, TcpProxy};
use std::{
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

/// Does something at chosen passages, and lets the run wait for it.
struct At<F> {
    /// Points, and after how many messages each of them is next.
    plan: Mutex<Vec<(ProbePoint, u64)>>,
    received: AtomicU64,
    act: F,
}

#[async_trait]
impl<F: Fn(usize) + Send + Sync + 'static> Probe for At<F> {
    async fn reached(&self, point: ProbePoint, _: Option<&Message>) {
        if point == ProbePoint::Applied {
            self.received.fetch_add(1, Relaxed);
        }
        let mut plan = self.plan.lock().unwrap();
        if plan.last().is_some_and(|next| next.0 == point && next.1 <= self.received.load(Relaxed)) {
            plan.pop();
            let left = plan.len();
            // Under the lock: nobody else ends the server at the same time.
            tokio::task::block_in_place(|| (self.act)(left));
        }
    }
}

/// Each of `points` in turn, `count` times in all, spread over the messages.
fn plan(points: &[ProbePoint], count: u64) -> Mutex<Vec<(ProbePoint, u64)>> {
    let points = points.iter().copied().cycle();
    let mut plan: Vec<_> = points.zip((0..count).map(|n| n * MESSAGES / (count + 1))).collect();
    plan.reverse();
    Mutex::new(plan)
}

fn run(
    place: &Place,
    url: &str,
    plan: Mutex<Vec<(ProbePoint, u64)>>,
    act: impl Fn(usize) + Send + Sync + 'static,
) -> Summary {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let options = PostgresStore::options(url).unwrap().connect_timeout(Duration::from_secs(5));
        let store = options.connect().await.unwrap();
        let probe = At { plan, received: AtomicU64::new(0), act };
        consumer(place.file(), "file", store)
            .batch_max(7)
            .lanes(3)
            .probe(probe)
            .build()
            .unwrap()
            .run()
            .await
            .unwrap()
    })
}

pub(crate) fn whatever_ends_the_server() {
    let server = PostgresServer::start();
    let place = Place::on(&server);
    let url = place.database.url().to_owned();
    let points = [
        ProbePoint::Claimed,
        ProbePoint::Applied,
        ProbePoint::Committing,
        ProbePoint::Committed,
        ProbePoint::Begun,
    ];
    let own = server.clone();
    let summary = run(&place, &url, plan(&points, 10), move |left| {
        if left % 2 == 0 {
            own.kill();
        } else {
            own.stop();
        }
        own.start_again();
    });
    println!("server killed 5 times and stopped 5 times: {summary:?}");
    assert!(summary.outages > 0, "{summary:?}");
    place.must_be_done();
}

pub(crate) fn whatever_the_proxy_cuts() {
    let server = PostgresServer::shared();
    let place = Place::on(&server);
    let proxy = std::sync::Arc::new(TcpProxy::to_port(server.port()));
    let url = place.database.url_through(&proxy.address());
    let own = std::sync::Arc::clone(&proxy);
    let summary = run(&place, &url, plan(&[ProbePoint::Committing], 40), move |left| {
        // The bytes of any commit: that of this lane, or of another one.
        let commit = b"COMMIT".to_vec();
        own.cut_at(if left % 4 == 0 { Cut::BeforeRequest(commit) } else { Cut::ReplyTo(commit) });
    });
    println!("{} connections cut around COMMIT: {summary:?}", proxy.cuts_done());
    assert!(summary.doubts > 0, "{summary:?}");
    place.must_be_done();
}
