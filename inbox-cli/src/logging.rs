//! Log lines on standard error, above the progress bar when there is one.

use crate::args::LogLevel;
use indicatif::ProgressBar;
use std::io::{self, Write};
use tracing_subscriber::{filter::LevelFilter, fmt::MakeWriter};

/// Sends log lines of this level and graver to standard error.
pub(crate) fn start(level: LogLevel, bar: Option<ProgressBar>, colours: bool) {
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(LevelFilter::from(level))
        .with_ansi(colours)
        .with_target(false)
        // It would tell of a closed stderr on stderr, and panic.
        .log_internal_errors(false)
        .with_writer(BesideBar(bar))
        .finish();
    // Fails only when there is a subscriber already: then that one has the lines.
    let _set = tracing::subscriber::set_global_default(subscriber);
}

impl From<LogLevel> for LevelFilter {
    fn from(level: LogLevel) -> Self {
        match level {
            LogLevel::Off => Self::OFF,
            LogLevel::Error => Self::ERROR,
            LogLevel::Warn => Self::WARN,
            LogLevel::Info => Self::INFO,
            LogLevel::Debug => Self::DEBUG,
            LogLevel::Trace => Self::TRACE,
        }
    }
}

struct BesideBar(Option<ProgressBar>);

impl<'a> MakeWriter<'a> for BesideBar {
    type Writer = LineWriter<'a>;
    fn make_writer(&'a self) -> LineWriter<'a> {
        LineWriter(self.0.as_ref())
    }
}

/// Gets a whole line with each write. A closed stderr loses lines, and never the run.
struct LineWriter<'a>(Option<&'a ProgressBar>);

impl Write for LineWriter<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let print = || {
            let _closed = io::stderr().lock().write_all(line);
        };
        match self.0 {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
