//! What a run did, for people and for scripts.

use serde::Serialize;
use std::time::Duration;

/// The counts of a run, so far or in the end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Counts {
    /// Messages that were delivered, each once.
    pub(crate) received: u64,
    /// Messages whose effect was committed.
    pub(crate) applied: u64,
    /// Messages that were found applied.
    pub(crate) duplicates: u64,
    /// Messages with a known id and other content.
    pub(crate) conflicts: u64,
    /// Messages that are letters, made now or before.
    pub(crate) dead_letters: u64,
    /// Attempts that ended in an error.
    pub(crate) failed_attempts: u64,
}

/// The report of a run. The order of the fields is the order of the JSON object's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Report {
    #[serde(flatten)]
    counts: Counts,
    elapsed_ms: u64,
}

impl Report {
    /// The counts after so long a run.
    pub(crate) fn new(counts: Counts, elapsed: Duration) -> Self {
        Self { counts, elapsed_ms: u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX) }
    }

    /// One JSON object in one line, with the newline.
    pub(crate) fn json(&self) -> String {
        // Seven numbers: serializing them cannot fail.
        let mut line = serde_json::to_string(self).unwrap_or_default();
        line.push('\n');
        line
    }

    /// Two lines for people.
    pub(crate) fn text(&self) -> String {
        let Counts { received, applied, duplicates, conflicts, dead_letters, failed_attempts } = self.counts;
        let rate = match rate(received, Duration::from_millis(self.elapsed_ms)) {
            // Of nothing there is no rate.
            _ if received == 0 => String::new(),
            rate => format!(" ({rate}/s)"),
        };
        format!(
            "received {received}: applied {applied}, duplicates {duplicates}, conflicts {conflicts}, \
             dead letters {dead_letters}\n{} in {}{rate}\n",
            counted(failed_attempts, "failed attempt"),
            seconds(self.elapsed_ms),
        )
    }
}

fn counted(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

fn seconds(ms: u64) -> String {
    format!("{}.{:03} s", ms / 1000, ms % 1000)
}

/// Messages per second, rounded down; a run shorter than a millisecond counts as one.
pub(crate) fn rate(messages: u64, elapsed: Duration) -> u64 {
    let rate = u128::from(messages) * 1000 / elapsed.as_millis().max(1);
    u64::try_from(rate).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let counts = Counts {
            received: 36,
            applied: 24,
            duplicates: 3,
            conflicts: 1,
            dead_letters: 8,
            failed_attempts: 1,
        };
        Report::new(counts, Duration::from_millis(1234))
    }

    #[test]
    fn the_json_has_its_names_in_this_order() {
        assert_eq!(
            report().json(),
            "{\"received\":36,\"applied\":24,\"duplicates\":3,\"conflicts\":1,\"dead_letters\":8,\
             \"failed_attempts\":1,\"elapsed_ms\":1234}\n"
        );
    }

    #[test]
    fn people_read_two_lines() {
        assert_eq!(
            report().text(),
            "received 36: applied 24, duplicates 3, conflicts 1, dead letters 8\n\
             1 failed attempt in 1.234 s (29/s)\n"
        );
        let nothing = Report::new(Counts::default(), Duration::ZERO).text();
        assert!(nothing.ends_with("0 failed attempts in 0.000 s\n"));
    }
}
