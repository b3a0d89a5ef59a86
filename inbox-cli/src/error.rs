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

    /// Appends the cause and the causes of the cause.
    #[must_use]
    pub(crate) fn caused_by(mut self, cause: &(dyn Error + 'static)) -> Self {
        let mut next = Some(cause);
        while let Some(error) = next {
            let text = error.to_string();
            // Many errors repeat their source in their own text.
            if !self.message.contains(&text) {
                self.message.push_str(": ");
                self.message.push_str(&text);
            }
            next = error.source();
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

    #[test]
    fn nothing_steers_the_terminal() {
        assert_eq!(one_line("a\u{1b}[2Jb\u{202e}c\té"), "a\\u{1b}[2Jb\\u{202e}c\\té");
    }
}
