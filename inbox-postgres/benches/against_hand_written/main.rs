//! Messages into PostgreSQL: inbox against hand-written loops with the same driver and statements, all of them
//! durable, interleaved in one run, median of five.
//!
//! `cargo bench -p inbox-postgres --bench against_hand_written [-- WORD]`, where the rows are those whose name
//! holds the word.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod hand;
mod inbox;
mod work;

use hand::{Incoming, Loop};
use inbox_postgres::{
    PostgresStore,
    sqlx::{Connection as _, PgConnection},
};
use inbox_testkit::servers::{PostgresServer, TestDatabase};
use std::time::Instant;
use work::Outcome;

const ROUNDS: usize = 5;

/// Who does the work of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Contender {
    Naive,
    Without,
    Hand,
    Inbox,
}

const CONTENDERS: [Contender; 4] = [Contender::Naive, Contender::Without, Contender::Hand, Contender::Inbox];

/// A kind of work.
#[derive(Debug, Clone, Copy)]
struct Row {
    batch: usize,
    lanes: usize,
    set_based: bool,
    /// About a second of it for the slower ones.
    messages: u64,
}

impl Row {
    fn name(&self) -> String {
        let work = match (self.batch, self.set_based) {
            (1, _) => "per message".to_owned(),
            (batch, false) => format!("batches of {batch}, single effects"),
            (batch, true) => format!("batches of {batch}, set-based effects"),
        };
        format!("{work}, {} lane{}", self.lanes, if self.lanes == 1 { "" } else { "s" })
    }

    async fn by_hand(
        &self,
        database: &TestDatabase,
        contender: Contender,
        messages: &[Incoming],
    ) -> Outcome<f64> {
        let work =
            Loop { batch: self.batch, claims: contender == Contender::Hand, set_based: self.set_based };
        let mut connections = Vec::new();
        for _ in 0..self.lanes {
            connections.push(PgConnection::connect(database.url()).await?);
        }
        let begun = Instant::now();
        let shares: Vec<Vec<Incoming>> =
            messages.chunks(messages.len().div_ceil(self.lanes)).map(<[Incoming]>::to_vec).collect();
        let mut tasks = tokio::task::JoinSet::new();
        for (mut connection, share) in connections.into_iter().zip(shares) {
            tasks.spawn(async move {
                match contender {
                    Contender::Naive => hand::naive(&mut connection, &share).await,
                    _ => work.run(&mut connection, &share).await,
                }
            });
        }
        while let Some(done) = tasks.join_next().await {
            done??;
        }
        Ok(begun.elapsed().as_secs_f64())
    }

    async fn by_inbox(&self, database: &TestDatabase, messages: u64) -> Outcome<f64> {
        let options = PostgresStore::options(database.url())?;
        let store = options.connections_max(self.lanes as u32 + 2).connect().await?;
        let begun = Instant::now();
        inbox::run(store, messages, self.batch, self.lanes, self.set_based).await?;
        Ok(begun.elapsed().as_secs_f64())
    }

    /// Messages per second.
    async fn rate(&self, server: &PostgresServer, contender: Contender) -> Outcome<f64> {
        let database = server.database();
        let mut connection = PgConnection::connect(database.url()).await?;
        work::make_tables(&mut connection).await?;
        // The naive one is slower than the rest.
        let count = if contender == Contender::Naive { self.messages.min(6_000) } else { self.messages };
        let messages: Vec<Incoming> = (0..count).map(|n| (work::id(n), work::payload(n))).collect();
        let seconds = match contender {
            Contender::Inbox => self.by_inbox(&database, count).await?,
            _ => self.by_hand(&database, contender, &messages).await?,
        };
        let effects = database.query("SELECT count(*) || ' ' || count(DISTINCT order_id) FROM invoices");
        assert_eq!(effects, format!("{count} {count}"), "every message has one effect");
        Ok(count as f64 / seconds)
    }

    async fn compare(&self, server: &PostgresServer) -> Outcome<()> {
        let mut rates: [Vec<f64>; 4] = Default::default();
        for _ in 0..ROUNDS {
            for (contender, rates) in CONTENDERS.iter().zip(&mut rates) {
                rates.push(self.rate(server, *contender).await?);
            }
        }
        let [naive, without, hand, inbox] = &rates;
        let ratio = |to: &[f64]| median(inbox.iter().zip(to).map(|(inbox, to)| inbox / to).collect());
        println!(
            "{}: naive {:.0}/s, without claims {:.0}/s, with claims {:.0}/s, inbox {:.0}/s; \
             inbox is {:.2} of the loop with claims, {:.2} of that without, {:.1} times the naive one",
            self.name(),
            median(naive.clone()),
            median(without.clone()),
            median(hand.clone()),
            median(inbox.clone()),
            ratio(hand),
            ratio(without),
            ratio(naive),
        );
        Ok(())
    }
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

const ROWS: [(usize, bool, [u64; 2]); 5] = [
    (1, false, [3_000, 6_000]),
    (100, false, [20_000, 40_000]),
    (1000, false, [20_000, 40_000]),
    (100, true, [100_000, 200_000]),
    (1000, true, [100_000, 200_000]),
];

fn main() -> Outcome<()> {
    let word = std::env::args().skip(1).find(|word| !word.starts_with("--"));
    let server = PostgresServer::start();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    for (place, lanes) in [1, 8].into_iter().enumerate() {
        for (batch, set_based, messages) in ROWS {
            let row = Row { batch, lanes, set_based, messages: messages[place] };
            if word.as_ref().is_none_or(|word| row.name().contains(word)) {
                runtime.block_on(row.compare(&server))?;
            }
        }
    }
    Ok(())
}
