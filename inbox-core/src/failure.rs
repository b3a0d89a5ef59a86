//! What a handler returns when it fails, and what is done about it.

use std::{error::Error, fmt, time::Duration};

/// A failed attempt. Any standard error converts into it with `?`.
///
/// It is no `std::error::Error` itself (as with anyhow's error), or that conversion could not exist.
pub struct Failure {
    error: Box<dyn Error + Send + Sync>,
    permanent: bool,
    retry_after: Option<Duration>,
}

impl Failure {
    /// A failure with a text of its own.
    pub fn message(text: impl Into<String>) -> Self {
        Self { error: text.into().into(), permanent: false, retry_after: None }
    }

    /// Trying again cannot help: no further attempt is made.
    #[must_use]
    pub fn permanent(self) -> Self {
        Self { permanent: true, ..self }
    }

    /// The next attempt is made no sooner than after this time, instead of the policy's back-off.
    #[must_use]
    pub fn retry_after(self, delay: Duration) -> Self {
        Self { retry_after: Some(delay), ..self }
    }

    /// Whether it was marked as permanent.
    pub fn is_permanent(&self) -> bool {
        self.permanent
    }

    /// When the next attempt may be made, if the handler said so.
    pub fn delay(&self) -> Option<Duration> {
        self.retry_after
    }

    /// The error and its causes, outermost first.
    pub fn chain(&self) -> impl Iterator<Item = &(dyn Error + 'static)> {
        let mut next: Option<&(dyn Error + 'static)> = Some(&*self.error);
        std::iter::from_fn(move || {
            let error = next?;
            next = error.source();
            Some(error)
        })
    }
}

impl<E: Error + Send + Sync + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        Self { error: Box::new(error), permanent: false, retry_after: None }
    }
}

impl fmt::Display for Failure {
    /// The whole chain, joined by colons; a cause that its error already quotes is not repeated.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&chain_text(&*self.error))
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Failure")
            .field("error", &self.error)
            .field("permanent", &self.permanent)
            .field("retry_after", &self.retry_after)
            .finish()
    }
}

/// An error and its causes in one text; a cause that the text already ends with is left out.
pub fn chain_text(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.ends_with(&next) {
            text.push_str(": ");
            text.push_str(&next);
        }
        cause = error.source();
    }
    text
}

/// How long to wait between attempts: it grows by a factor up to a limit, and each time a random half
/// is taken off, so that those who failed together do not come back together.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Backoff {
    /// Before the second attempt.
    pub initial: Duration,
    /// Never longer than this.
    pub max: Duration,
    /// What the time is multiplied with after each attempt.
    pub factor: f64,
}

impl Default for Backoff {
    /// 100 ms, doubled up to 30 s.
    fn default() -> Self {
        Self { initial: Duration::from_millis(100), max: Duration::from_secs(30), factor: 2.0 }
    }
}

impl Backoff {
    /// From `initial`, doubled up to `max`.
    pub fn new(initial: Duration, max: Duration) -> Self {
        Self { initial, max, factor: 2.0 }
    }

    /// The time to wait after `failures` failures in a row: between half of the grown time and all of it.
    pub fn delay(&self, failures: u32, random: &mut fastrand::Rng) -> Duration {
        let exponent = i32::try_from(failures.saturating_sub(1)).unwrap_or(i32::MAX);
        let seconds = self.initial.as_secs_f64() * self.factor.powi(exponent);
        // A product that is not finite, or beyond the limit, is the limit.
        let grown = Duration::try_from_secs_f64(seconds).map_or(self.max, |grown| grown.min(self.max));
        grown.mul_f64(0.5 + random.f64() / 2.0)
    }
}

/// What is done with a message whose attempts are used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Exhausted {
    /// It becomes a letter, later messages of its key flow on.
    DeadLetter,
    /// The run ends with an error; the message is not acknowledged. So it does at a message that would
    /// become a letter for another reason (no id, undecodable, too large, no route): nothing leaves
    /// without being applied. Letters that were written before are found.
    Halt,
}

/// How failures of handlers are dealt with.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RetryPolicy {
    /// How many attempts a message has, the first included; at least 1. Permanent failures have one.
    pub attempts_max: u32,
    /// How long to wait between them.
    pub backoff: Backoff,
    /// What comes after the last one.
    pub exhausted: Exhausted,
    /// How often a suspect is started: a message during whose handling the process ended, or the
    /// connection to the store was lost. Then comes what comes after the last attempt. At least 1; it needs
    /// an attempt log.
    pub starts_max: u32,
}

impl Default for RetryPolicy {
    /// Five attempts, three starts of a suspect, then a letter.
    fn default() -> Self {
        Self { attempts_max: 5, backoff: Backoff::default(), exhausted: Exhausted::DeadLetter, starts_max: 3 }
    }
}

impl RetryPolicy {
    /// Sets the number of attempts.
    #[must_use]
    pub fn attempts_max(self, attempts_max: u32) -> Self {
        Self { attempts_max, ..self }
    }

    /// Sets the time between attempts.
    #[must_use]
    pub fn backoff(self, backoff: Backoff) -> Self {
        Self { backoff, ..self }
    }

    /// Sets how often a suspect is started.
    #[must_use]
    pub fn starts_max(self, starts_max: u32) -> Self {
        Self { starts_max, ..self }
    }

    /// Sets what comes after the last attempt.
    #[must_use]
    pub fn exhausted(self, exhausted: Exhausted) -> Self {
        Self { exhausted, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn back_off_grows_to_its_limit_and_never_below_half() {
        let backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(1));
        let mut random = fastrand::Rng::with_seed(1);
        for (failures, full_ms) in [(1, 100), (2, 200), (3, 400), (4, 800), (5, 1000), (u32::MAX, 1000)] {
            let delay = backoff.delay(failures, &mut random);
            assert!(delay >= Duration::from_millis(full_ms / 2), "{failures}: {delay:?}");
            assert!(delay <= Duration::from_millis(full_ms), "{failures}: {delay:?}");
        }
    }

    #[test]
    fn the_chain_is_told_in_one_text_without_repeats() {
        #[derive(Debug, thiserror::Error)]
        #[error("outer")]
        struct Outer(#[source] std::num::ParseIntError);
        let inner = "x".parse::<i32>().unwrap_err();
        let failure = Failure::from(Outer(inner));
        assert_eq!(failure.to_string(), "outer: invalid digit found in string");
        assert_eq!(failure.chain().count(), 2);
        assert!(!failure.is_permanent());
        assert!(failure.permanent().is_permanent());
    }
}
