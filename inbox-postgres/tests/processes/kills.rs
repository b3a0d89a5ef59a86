//! A consumer is killed at every point of the machine, again and again.

use crate::{
    consumer::Life,
    work::{MESSAGES, Place},
};
use inbox_core::ProbePoint;
use inbox_testkit::servers::PostgresServer;
use std::{collections::BTreeMap, os::unix::process::ExitStatusExt as _};

const KILLS: usize = 60;
const SEED: u64 = 20_261_204;

/// What a run of good messages passes, and whether once per message.
const POINTS: [(ProbePoint, bool); 9] = [
    (ProbePoint::Received, true),
    (ProbePoint::Begun, false),
    (ProbePoint::Claimed, false),
    (ProbePoint::HandlerStarting, true),
    (ProbePoint::Applied, true),
    (ProbePoint::Committing, false),
    (ProbePoint::Committed, false),
    (ProbePoint::Settling, false),
    (ProbePoint::Settled, false),
];

/// So that 60 lives leave something for the last one.
const MESSAGES_A_LIFE_MAX: u64 = MESSAGES / (KILLS as u64 + 10);

pub(crate) fn each_message_has_one_effect_after_60_kills() {
    let place = Place::on(&PostgresServer::shared());
    let mut random = fastrand::Rng::with_seed(SEED);
    let mut points: Vec<(ProbePoint, bool)> = POINTS.into_iter().cycle().take(KILLS).collect();
    random.shuffle(&mut points);
    let mut histogram: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    let mut life = Life {
        url: place.database.url().to_owned(),
        file: place.file(),
        batch: 1,
        lanes: 1,
        source: "file".to_owned(),
        kill_at: None,
    };
    for (point, is_per_message) in points {
        life.batch = [1, 3, 20][random.usize(..3)];
        life.lanes = random.usize(1..=3);
        let messages = if is_per_message { 1 } else { life.batch as u64 };
        let passage = random.u64(1..=MESSAGES_A_LIFE_MAX / messages);
        life.kill_at = Some((point.name().to_owned(), passage));
        let output = life.command().output().unwrap();
        assert_eq!(output.status.signal(), Some(9), "seed {SEED}, {life:?}: {output:?}");
        histogram.entry(point.name()).or_default().push(place.effects(&format!("seed {SEED}, {life:?}")));
    }
    println!("effects committed after each of {KILLS} kills, by point (seed {SEED}):");
    for (point, effects) in &histogram {
        println!("{point:>17} {} {effects:?}", "#".repeat(effects.len()));
    }
    assert_eq!(histogram.len(), POINTS.len());
    let before = place.effects("before the last life");
    assert!(before > 0 && before < MESSAGES, "the last life has something to do: {before}");
    life.kill_at = None;
    let output = life.command().output().unwrap();
    assert!(output.status.success(), "{output:?}");
    place.must_be_done();
    // Everything once more: the rows know all of it, also without the position.
    life.source = "the same file".to_owned();
    let output = life.command().output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(told.contains(&format!("\"applied\":0,\"duplicates\":{MESSAGES},")), "{told}");
    place.must_be_done();
}
