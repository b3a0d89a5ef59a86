//! Eight processes of one group that are given the same messages.

use crate::{
    consumer::{Life, ROLLED_BACK, Told},
    work::{MESSAGES, Place, limits},
};
use inbox_core::{Claim, ClaimKey, ClaimRequest, Fingerprint, Group, InboxStore, MessageId, Scope};
use inbox_postgres::PostgresStore;
use inbox_testkit::servers::PostgresServer;
use std::{
    io::{BufRead as _, BufReader},
    process::Child,
};

const PROCESSES: usize = 8;

fn deadlocks(server: &PostgresServer, place: &Place) -> String {
    let name = place.database.name();
    server.query(&format!("SELECT deadlocks FROM pg_stat_database WHERE datname = '{name}'"))
}

fn next_line(child: &mut BufReader<std::process::ChildStdout>) -> String {
    let mut line = String::new();
    child.read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

pub(crate) fn apply_each_once() {
    let server = PostgresServer::shared();
    let place = Place::on(&server);
    let deadlocks_before = deadlocks(&server, &place);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    // Somebody holds the claim of the first message, undecided, until each process has met it.
    let store = runtime.block_on(PostgresStore::connect(place.database.url())).unwrap();
    let key = ClaimKey { scope: Scope::default(), id: MessageId::new("m-0").unwrap() };
    let request = ClaimRequest { key, fingerprint: Fingerprint::of_payload(None) };
    let held = runtime.block_on(async {
        let mut tx = store.begin(&limits()).await.unwrap();
        let claimed = store.claim(&mut tx, &Group::new("processes").unwrap(), &[request]).await.unwrap();
        assert_eq!(claimed, [Claim::Fresh]);
        tx
    });
    let mut children: Vec<(Child, BufReader<_>)> = (0..PROCESSES)
        .map(|n| {
            let life = Life {
                url: place.database.url().to_owned(),
                file: place.file(),
                batch: [1, 5, 20, 100][n % 4],
                lanes: 1 + n % 3,
                source: format!("file {n}"),
                kill_at: None,
            };
            let mut child = life.command().spawn().unwrap();
            let told = BufReader::new(child.stdout.take().unwrap());
            (child, told)
        })
        .collect();
    for (_, told) in &mut children {
        assert_eq!(next_line(told), ROLLED_BACK);
    }
    runtime.block_on(store.rollback(held)).unwrap();
    let (mut applied, mut duplicates, mut busy) = (0, 0, 0);
    for (mut child, mut told) in children {
        let told: Told = serde_json::from_str(&next_line(&mut told)).unwrap();
        assert!(child.wait().unwrap().success());
        println!("one of {PROCESSES} processes: {told:?}");
        assert_eq!(told.applied + told.duplicates, MESSAGES);
        assert!(told.busy > 0);
        (applied, duplicates, busy) =
            (applied + told.applied, duplicates + told.duplicates, busy + told.busy);
    }
    println!("{PROCESSES} processes: {applied} applied, {duplicates} duplicates, {busy} times busy");
    assert_eq!(applied, MESSAGES);
    place.must_be_done();
    assert_eq!(deadlocks(&server, &place), deadlocks_before);
}
