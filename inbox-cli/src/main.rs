//! The `inbox` command: runs a sink without a line of Rust, and looks after the tables.

mod admin;
mod args;
mod database;
mod decimal;
mod effect;
mod endpoint;
mod error;
mod exit;
#[cfg(feature = "probe-kill")]
mod kill;
mod listing;
mod logging;
mod output;
mod params;
mod parse;
mod payload;
#[cfg(feature = "postgres")]
mod postgres;
mod prepare;
mod progress;
mod records;
mod redact;
mod report;
mod run;
mod schema;
mod signals;
mod source;
mod sqlite;
mod tables;

use args::{Cli, Command};
use error::CliError;
use exit::Exit;
use parse::Parsed;
use std::process::ExitCode;
use tables::Look;

fn main() -> ExitCode {
    let exit = run().unwrap_or_else(|error| {
        output::complain(&error.to_string());
        error.exit()
    });
    exit.into()
}

fn run() -> Result<Exit, CliError> {
    let cli = match parse::parse()? {
        Parsed::Cli(cli) => cli,
        Parsed::Print(text) => return output::print(&text).map(|()| Exit::Done),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| CliError::failed("starting the threads of the runtime").caused_by(&error))?;
    runtime.block_on(dispatch(cli))
}

async fn dispatch(cli: Cli) -> Result<Exit, CliError> {
    match cli.command {
        Command::Run(args) => run::run(*args).await,
        Command::Dead(command) => tables::look(Look::Dead(command)).await,
        Command::Conflicts(command) => tables::look(Look::Conflicts(command)).await,
        Command::Checkpoint(command) => tables::look(Look::Checkpoint(command)).await,
        Command::Stats(args) => tables::look(Look::Stats(args)).await,
    }
}
