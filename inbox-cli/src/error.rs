//! The error that ends the command: one line for people, and an exit code for scripts.

use crate::{exit::Exit, redact::redact};
use std::{error::Error, fmt};

/// Why the command ended early.
#[derive(Debug)]
pub(crate) struct CliError {
    exit: Exit,
    message: String,
}

impl CliError {
    /// It was called wrongly. `message` says what was being done, to what, and what to do next.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, message: message.into() }
    }

    /// It failed while running.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self { exit: Exit::Failed, message: message.into() }
    }

    /// Appends the cause and the causes of the cause, each only where it adds something.
    #[must_use]
    pub(crate) fn caused_by(mut self, cause: &(dyn Error + 'static)) -> Self {
        let mut told: Option<String> = None;
        let mut next = Some(cause);
        while let Some(error) = next {
            next = error.source();
            let text = error.to_string();
            // Many errors repeat their source in their own text; and behind SQLite's words its number
            // with the general words for it tells nothing.
            if contains(&self.message, &text) || (told.is_some() && error.is::<rusqlite::ffi::Error>()) {
                continue;
            }
            // A cause that repeats what was told last, and more, takes its place.
            let repeated = told.as_deref().filter(|told| contains(&text, told));
            let shorter = repeated.and_then(|told| self.message.strip_suffix(told)).map(str::len);
            match shorter {
                Some(bytes) => self.message.truncate(bytes),
                None => self.message.push_str(": "),
            }
            self.message.push_str(&text);
            told = Some(text);
        }
        self
    }

    /// Appends a cause whose text already holds its own causes, as the texts of stores and brokers do.
    #[must_use]
    pub(crate) fn because(mut self, cause: &dyn fmt::Display) -> Self {
        self.message = format!("{}: {cause}", self.message);
        self
    }

    /// Appends what to do next.
    #[must_use]
    pub(crate) fn hint(mut self, hint: &str) -> Self {
        self.message.push_str("; ");
        self.message.push_str(hint);
        self
    }

    /// The exit code.
    pub(crate) fn exit(&self) -> Exit {
        self.exit
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&one_line(&redact(&self.message)))
    }
}

impl Error for CliError {}

fn contains(text: &str, part: &str) -> bool {
    text.to_lowercase().contains(&part.to_lowercase())
}

/// Joins lines and neutralises control characters, which could steer a terminal.
pub(crate) fn one_line(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if !out.is_empty() {
            out.push(' ');
        }
        push_visible(&mut out, line);
    }
    out
}

/// Appends `text`; what a terminal would obey instead of show is written as an escape.
pub(crate) fn push_visible(out: &mut String, text: &str) {
    for c in text.chars() {
        if is_unprintable(c) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
}

/// Control characters, and the marks that turn the direction of text around.
fn is_unprintable(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_line_with_its_causes_and_without_passwords() {
        let cause = std::io::Error::other("line one\n  line two");
        let error = CliError::failed("opening postgres://a:b@c/d").caused_by(&cause).hint("try again");
        assert_eq!(error.to_string(), "opening postgres://a:***@c/d: line one line two; try again");
        assert_eq!(error.exit().code(), 1);
    }

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Layer(&'static str, #[source] Box<dyn Error>);

    #[test]
    fn a_cause_is_told_when_it_adds_something() {
        let full = || {
            let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_FULL);
            Box::new(rusqlite::Error::SqliteFailure(code, Some("database is full".to_owned())))
        };
        let told = CliError::failed("committing").caused_by(&Layer("Database is full; make room", full()));
        assert_eq!(told.to_string(), "committing: Database is full; make room");
        let told = CliError::failed("committing").caused_by(&*full());
        assert_eq!(told.to_string(), "committing: database is full");

        let cause = || std::io::Error::other("cannot open: no such FILE");
        let told = CliError::failed("reading").caused_by(&Layer("Cannot open", Box::new(cause())));
        assert_eq!(told.to_string(), "reading: cannot open: no such FILE");
        let told = CliError::failed("reading").caused_by(&Layer("it went wrong", Box::new(cause())));
        assert_eq!(told.to_string(), "reading: it went wrong: cannot open: no such FILE");
    }

    #[test]
    fn nothing_steers_the_terminal() {
        assert_eq!(one_line("a\u{1b}[2Jb\u{202e}c\té"), "a\\u{1b}[2Jb\\u{202e}c\\té");
    }
}
