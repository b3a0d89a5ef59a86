//! `inbox dead`, `conflicts`, `checkpoint` and `stats`: opens the database and says what was found.

use crate::{
    admin,
    args::{CheckpointArgs, CheckpointCommand, ConflictsCommand, DeadCommand, StatsArgs},
    endpoint::{Origin, Target},
    error::CliError,
    exit::Exit,
    output,
    store::{self, Missing},
};
use inbox_core::Source;
use inbox_sqlite::SqliteStore;

/// `inbox dead`.
pub(crate) async fn dead(command: DeadCommand) -> Result<Exit, CliError> {
    let text = match command {
        DeadCommand::List(args) => admin::dead_list(&open(&args.database.into).await?, &args).await?,
        DeadCommand::Show { letter_id, database, format } => {
            admin::dead_show(&open(&database.into).await?, letter_id, format.output).await?
        }
    };
    done(&text)
}

/// `inbox conflicts`.
pub(crate) async fn conflicts(command: ConflictsCommand) -> Result<Exit, CliError> {
    let ConflictsCommand::List(args) = command;
    done(&admin::conflicts_list(&open(&args.database.into).await?, &args).await?)
}

/// `inbox checkpoint`.
pub(crate) async fn checkpoint(command: CheckpointCommand) -> Result<Exit, CliError> {
    let text = match command {
        CheckpointCommand::Show { of, format } => {
            let source = source(&of)?;
            admin::checkpoint_show(&open(&of.database.into).await?, &of.group, &source, format.output).await?
        }
        CheckpointCommand::Reset { of } => {
            let source = source(&of)?;
            admin::checkpoint_reset(&open(&of.database.into).await?, &of.group, &source).await?
        }
    };
    done(&text)
}

/// `inbox stats`.
pub(crate) async fn stats(args: StatsArgs) -> Result<Exit, CliError> {
    done(&admin::stats(&open(&args.database.into).await?, args.format.output).await?)
}

fn done(text: &str) -> Result<Exit, CliError> {
    output::print(text).map(|()| Exit::Done)
}

fn source(of: &CheckpointArgs) -> Result<Source, CliError> {
    Origin::parse(&of.from).map_err(|error| CliError::usage(error.to_string()))?.source()
}

/// Opens a database that is there: looking must not make an empty one.
async fn open(into: &str) -> Result<SqliteStore, CliError> {
    let Target::Sqlite(path) = Target::parse(into).map_err(|error| CliError::usage(error.to_string()))?;
    store::open(path, Missing::Refuse).await
}
