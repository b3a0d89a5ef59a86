//! How fast lines are delivered, beside a hand-written loop over `BufRead::read_until` that makes one
//! `Vec` per line. Interleaved in one run, median of five; ratios say more than numbers.

#![allow(clippy::print_stdout, missing_docs)] // A benchmark prints.

use inbox_core::{Broker, Credit, Event, JsonPointer};
use inbox_file::FileBroker;
use std::{
    error::Error,
    fs::File,
    io::{BufRead, BufReader, BufWriter, Write},
    path::Path,
    time::Instant,
};

const LINES: usize = 2_000_000;

fn by_hand(path: &Path) -> Result<usize, Box<dyn Error>> {
    let mut file = BufReader::with_capacity(64 << 10, File::open(path)?);
    let mut lines = 0;
    loop {
        let mut line = Vec::with_capacity(128);
        if file.read_until(b'\n', &mut line)? == 0 {
            return Ok(lines);
        }
        lines += usize::from(std::hint::black_box(&line).len() > 1);
    }
}

async fn by_broker(path: &Path, key: Option<JsonPointer>) -> Result<usize, Box<dyn Error>> {
    let mut options = FileBroker::options();
    if let Some(key) = key {
        options = options.key(key);
    }
    let mut broker = options.open(path)?;
    let credit = Credit::new(1000, 1 << 20);
    let mut lines = 0;
    loop {
        match broker.next(&credit).await? {
            Event::Deliveries(deliveries) => lines += std::hint::black_box(deliveries).len(),
            Event::Ended => return Ok(lines),
            _ => {}
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("lines.jsonl");
    let mut file = BufWriter::new(File::create(&path)?);
    for n in 0..LINES {
        writeln!(
            file,
            r#"{{"id":"o-{n:09}","order_id":{n:9},"customer":"customer {:07}","amount":{:9},"n":123456}}"#,
            n % 1000,
            n
        )?;
    }
    file.into_inner()?.sync_all()?;
    let bytes = path.metadata()?.len() as usize / LINES;
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let mut rates = [const { Vec::new() }; 3];
    for _ in 0..5 {
        for (which, rates) in rates.iter_mut().enumerate() {
            let begin = Instant::now();
            let lines = match which {
                0 => by_hand(&path)?,
                1 => runtime.block_on(by_broker(&path, None))?,
                _ => runtime.block_on(by_broker(&path, Some(JsonPointer::field("customer"))))?,
            };
            assert_eq!(lines, LINES);
            rates.push(lines as f64 / begin.elapsed().as_secs_f64());
        }
    }
    let median = rates.map(|mut rates| {
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    });
    println!("{LINES} lines of {bytes} bytes, median of five");
    for (what, rate) in ["by hand", "broker", "broker with key"].iter().zip(median) {
        println!("{what:16} {:7.2} million lines/s, {:.2} of by hand", rate / 1e6, rate / median[0]);
    }
    Ok(())
}
