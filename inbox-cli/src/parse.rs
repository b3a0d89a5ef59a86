//! Reads the command line, and tells what is wrong with it in one line.

use crate::{args::Cli, error::CliError};
use clap::{CommandFactory as _, Parser as _, error::ErrorKind};
use std::env;

/// What to do.
pub(crate) enum Parsed {
    /// A command.
    Cli(Cli),
    /// To print this: help, or the version.
    Print(String),
}

/// Reads the arguments of the process.
pub(crate) fn parse() -> Result<Parsed, CliError> {
    match Cli::try_parse() {
        Ok(cli) => Ok(Parsed::Cli(cli)),
        Err(error) => {
            let text = error.render().to_string();
            let command = command();
            match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Ok(Parsed::Print(text)),
                ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
                    Err(CliError::usage(format!("{command} needs a command")))
                }
                _ => Err(CliError::usage(short(&text))),
            }
            .map_err(|error| error.hint(&format!("see {command} --help")))
        }
    }
}

/// The command that was given, as far as it is one, such as `inbox dead list`.
fn command() -> String {
    let mut at = Cli::command();
    let mut name = at.get_name().to_owned();
    for word in env::args_os().skip(1) {
        let Some(sub) = at.find_subcommand(word) else { break };
        name = format!("{name} {}", sub.get_name());
        at = sub.clone();
    }
    name
}

/// clap's own words without its frame: what comes before the usage and behind `error:`.
fn short(rendered: &str) -> String {
    let text = rendered.strip_prefix("error: ").unwrap_or(rendered);
    let end = ["\n\nUsage:", "\n\nFor more information"].iter().filter_map(|mark| text.find(mark)).min();
    let lines = text.get(..end.unwrap_or(text.len())).unwrap_or(text).lines().map(str::trim);
    let mut out = String::new();
    for line in lines.filter(|line| !line.is_empty()) {
        // Tips and lists of values stand in lines of their own.
        let between = if out.is_empty() || out.ends_with(':') { "" } else { "; " };
        let space = if out.ends_with(':') { " " } else { "" };
        out.push_str(between);
        out.push_str(space);
        out.push_str(line);
    }
    out
}
