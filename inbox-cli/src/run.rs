//! `inbox run`: lets the runner work, shows its progress, and reports what it did.

use crate::{
    args::{LogLevel, OnFailure, ReportFormat, RunArgs},
    database::Sink,
    effect,
    endpoint::Target,
    error::CliError,
    exit::Exit,
    logging, output, prepare,
    progress::{Progress, Seen},
    redact::redact_url,
    report::{Counts, Report},
    signals::Signals,
    sqlite,
};
use inbox_core::{
    Exhausted, RetryPolicy, RunError, Runner, RunnerBuilder, Summary, TxLimits, Work, with_state,
};
use inbox_file::{FileBroker, FileProgress};
use std::{
    io::{self, IsTerminal as _},
    sync::Arc,
    time::{Duration, Instant},
};

/// How many transactions' worth of messages are read ahead for each lane.
const READ_AHEAD_BATCHES: usize = 4;
/// The least room for messages that are read and not finished.
const IN_FLIGHT_BYTES_MIN: usize = 16 * 1024 * 1024;

/// Opens both ends, makes the tables, checks the SQL against them, and runs.
pub(crate) async fn run(args: RunArgs) -> Result<Exit, CliError> {
    // The source before the database, which may be made.
    let (broker, target) = prepare::ends(&args)?;
    match target {
        Target::Sqlite(path) => {
            let (store, sink) = sqlite::prepare(&path, &args).await?;
            run_into(args, broker, store, sink).await
        }
        #[cfg(feature = "postgres")]
        Target::Postgres(url) => {
            let (store, sink) = crate::postgres::prepare(&url, &args).await?;
            run_into(args, broker, store, sink).await
        }
    }
}

/// Runs until the source ends, something fails or a signal comes.
async fn run_into<S: Sink>(
    args: RunArgs,
    broker: FileBroker,
    store: S::Store,
    sink: S,
) -> Result<Exit, CliError> {
    let signals =
        Signals::listen().map_err(|error| CliError::failed("listening for signals").caused_by(&error))?;
    let terminal = io::stderr().is_terminal();
    let progress = Progress::choose(args.quiet, terminal);
    logging::start(if args.quiet { LogLevel::Error } else { args.log }, progress.bar(), terminal);

    let file = broker.progress();
    let builder = runner(&args, broker, store, sink);
    #[cfg(feature = "probe-kill")]
    let builder = match crate::kill::KillAt::from_environment()? {
        Some(kill) => builder.probe(kill),
        None => builder,
    };
    let runner = builder.build().map_err(|error| CliError::usage(error.to_string()))?;
    let counters = runner.counters();
    let showing = progress.show({
        let (counters, file) = (Arc::clone(&counters), file.clone());
        move || Seen { counts: counts(counters.read()), done: file.delivered_to(), total: file.total() }
    });
    tracing::info!(
        "reading {} into {} for group {}",
        redact_url(&args.from),
        redact_url(&args.into),
        args.group
    );
    let started = Instant::now();
    let ended = runner.run_until(signals.first()).await;
    showing.finish();

    warn_of_leftover(&file);
    // Also after a failure: what was committed stays.
    let report = Report::new(counts(counters.read()), started.elapsed());
    let printed = match args.report {
        ReportFormat::Text => output::print(&report.text()),
        ReportFormat::Json => output::print(&report.json()),
        ReportFormat::None => Ok(()),
    };
    ended.map_err(|error| failure(&error))?;
    printed?;
    Ok(signals.exit().unwrap_or(Exit::Done))
}

fn runner<S: Sink>(
    args: &RunArgs,
    broker: FileBroker,
    store: S::Store,
    sink: S,
) -> RunnerBuilder<FileBroker, Work<S::Store>> {
    let (batch, lanes) = (size(args.batch), size(args.lanes));
    let timeout = Duration::from_secs(args.handler_timeout_s);
    // Where statements block, only the database itself can stop one.
    let mut limits = TxLimits::default();
    limits.statement_timeout = timeout;
    let exhausted = match args.on_failure {
        OnFailure::DeadLetter => Exhausted::DeadLetter,
        OnFailure::Halt => Exhausted::Halt,
    };
    Runner::builder(args.group.as_str())
        .broker(broker)
        .store(store)
        .checkpoints()
        .handler(with_state(Arc::new(sink), effect::apply::<S>))
        .id_from(args.id.clone())
        .batch_max(batch)
        .lanes(lanes)
        .in_flight_max(batch.saturating_mul(lanes).saturating_mul(READ_AHEAD_BATCHES))
        .in_flight_bytes_max(size(args.line_bytes_max).saturating_mul(2).max(IN_FLIGHT_BYTES_MIN))
        .retry(RetryPolicy::default().attempts_max(args.attempts).exhausted(exhausted))
        .handler_timeout(timeout + S::GRACE)
        .shutdown_timeout(Duration::from_secs(args.shutdown_timeout_s))
        .tx_limits(limits)
}

fn size(option: u32) -> usize {
    usize::try_from(option).unwrap_or(usize::MAX)
}

fn counts(summary: Summary) -> Counts {
    Counts {
        received: summary.received,
        applied: summary.applied,
        duplicates: summary.duplicates,
        conflicts: summary.conflicts,
        dead_letters: summary.dead_letters,
        failed_attempts: summary.failed_attempts,
    }
}

fn failure(error: &RunError) -> CliError {
    match error {
        // Its own text repeats what each of the causes repeats.
        RunError::Store { doing, error } => CliError::failed(doing).caused_by(error),
        other => CliError::failed(other.to_string()),
    }
}

fn warn_of_leftover(file: &FileProgress) {
    if let Some(leftover) = file.leftover() {
        tracing::warn!(
            "the last {} bytes of the file, from byte {}, have no newline and are not JSON: they may still \
             be being written, and are read by the next run once the newline is there",
            leftover.bytes,
            leftover.at,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use inbox_core::{FaultClass, StoreError};

    #[test]
    fn a_failure_of_the_database_is_told_once() {
        let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_FULL);
        let full = rusqlite::Error::SqliteFailure(code, Some("database or disk is full".to_owned()));
        let text = "committing failed: database or disk is full; free some space on its disk";
        let error = StoreError::failed(FaultClass::Outage, text).caused_by(full);
        let error = RunError::Store { doing: "writing to x".to_owned(), error };
        assert_eq!(failure(&error).to_string(), format!("writing to x: {text}"));
    }
}
