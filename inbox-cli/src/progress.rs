//! What a run shows while it runs: a line that changes on a terminal, log lines elsewhere.

use crate::report::{Counts, rate};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::time::{Duration, Instant};
use tokio::{task::JoinHandle, time};

const BAR_EVERY: Duration = Duration::from_millis(100);
const LOG_EVERY: Duration = Duration::from_secs(5);

/// How progress is shown.
#[derive(Debug, Clone)]
pub(crate) enum Progress {
    /// As a line on the terminal.
    Bar(ProgressBar),
    /// As log lines.
    Log,
    /// Not at all.
    Hidden,
}

/// How far a run has come.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    /// What it has done.
    pub(crate) counts: Counts,
    /// How much of the source is read, in bytes.
    pub(crate) done: u64,
    /// How much there is to read, in bytes.
    pub(crate) total: u64,
}

/// Shows progress until it is [finished](Showing::finish) or dropped.
#[derive(Debug)]
pub(crate) struct Showing {
    task: Option<JoinHandle<()>>,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Chooses by whether standard error is a terminal.
    pub(crate) fn choose(quiet: bool, terminal: bool) -> Self {
        match (quiet, terminal) {
            (true, _) => Self::Hidden,
            (false, true) => Self::Bar(new_bar()),
            (false, false) => Self::Log,
        }
    }

    /// The line that log lines have to stay clear of.
    pub(crate) fn bar(&self) -> Option<ProgressBar> {
        match self {
            Self::Bar(bar) => Some(bar.clone()),
            Self::Log | Self::Hidden => None,
        }
    }

    /// Begins to show what `look` sees, again and again.
    pub(crate) fn show(self, look: impl Fn() -> Seen + Send + 'static) -> Showing {
        let bar = self.bar();
        let task = match self {
            Self::Hidden => None,
            Self::Bar(bar) => Some(tokio::spawn(async move {
                let mut meter = Meter::start();
                let mut ticks = time::interval(BAR_EVERY);
                loop {
                    ticks.tick().await;
                    let Seen { counts, done, total } = look();
                    bar.set_length(total);
                    bar.set_position(done);
                    bar.set_message(meter.line(counts));
                }
            })),
            Self::Log => Some(tokio::spawn(async move {
                let mut meter = Meter::start();
                let mut ticks = time::interval(LOG_EVERY);
                // The first tick comes at once.
                ticks.tick().await;
                loop {
                    ticks.tick().await;
                    let Seen { counts, done, total } = look();
                    tracing::info!("{}%: {}", percent(done, total), meter.line(counts));
                }
            })),
        };
        Showing { task, bar }
    }
}

impl Showing {
    /// Ends it and clears the line.
    pub(crate) fn finish(self) {}
}

impl Drop for Showing {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn new_bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    // The template is constant; should it ever be refused, the default one shows as much.
    if let Ok(style) = ProgressStyle::with_template("{bar:10} {percent:>3}% {wide_msg}") {
        bar.set_style(style);
    }
    bar
}

/// The rate over the last moments, smoothed, so that it follows a change and does not flicker.
struct Meter {
    at: Instant,
    received: u64,
    smooth: Option<u64>,
}

impl Meter {
    fn start() -> Self {
        Self { at: Instant::now(), received: 0, smooth: None }
    }

    fn line(&mut self, counts: Counts) -> String {
        let now = Instant::now();
        let elapsed = now.duration_since(self.at);
        // Too short a moment says nothing.
        if elapsed >= BAR_EVERY / 2 {
            let rate = rate(counts.received.saturating_sub(self.received), elapsed);
            self.smooth = Some(self.smooth.map_or(rate, |before| before.midpoint(rate)));
            self.at = now;
            self.received = counts.received;
        }
        line(counts, self.smooth.unwrap_or(0))
    }
}

fn percent(done: u64, total: u64) -> u128 {
    u128::from(done) * 100 / u128::from(total.max(1))
}

fn line(counts: Counts, rate: u64) -> String {
    let Counts { received, applied, duplicates, conflicts, dead_letters, failed_attempts } = counts;
    // The most telling first: a narrow terminal cuts the end off.
    let mut line =
        format!("{received} ({rate}/s): applied {applied}, duplicates {duplicates}, letters {dead_letters}");
    // Usually none: they then only take room.
    if conflicts > 0 {
        line += &format!(", conflicts {conflicts}");
    }
    if failed_attempts > 0 {
        line += &format!(", failed attempts {failed_attempts}");
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_rate_duplicates_and_letters() {
        let mut counts =
            Counts { received: 36, applied: 24, duplicates: 3, dead_letters: 8, ..Counts::default() };
        assert_eq!(line(counts, 7), "36 (7/s): applied 24, duplicates 3, letters 8");
        counts.conflicts = 1;
        counts.failed_attempts = 2;
        assert!(line(counts, 7).ends_with("letters 8, conflicts 1, failed attempts 2"));
    }

    #[test]
    fn a_terminal_gets_a_bar_and_a_file_gets_lines() {
        assert!(matches!(Progress::choose(false, true), Progress::Bar(_)));
        assert!(matches!(Progress::choose(false, false), Progress::Log));
        assert!(matches!(Progress::choose(true, true), Progress::Hidden));
    }
}
