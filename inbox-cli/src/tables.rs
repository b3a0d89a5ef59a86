//! `inbox dead`, `conflicts`, `checkpoint` and `stats`: opens the database and says what was found.

use crate::{
    admin,
    args::{CheckpointArgs, CheckpointCommand, ConflictsCommand, DeadCommand, StatsArgs},
    database::{Database, Missing},
    endpoint::{Origin, Target},
    error::CliError,
    exit::Exit,
    output, sqlite,
};
use inbox_core::Source;

/// A command that looks into a database.
#[derive(Debug)]
pub(crate) enum Look {
    Dead(DeadCommand),
    Conflicts(ConflictsCommand),
    Checkpoint(CheckpointCommand),
    Stats(StatsArgs),
}

/// Opens the database, which has to be there: looking must not make an empty one.
pub(crate) async fn look(command: Look) -> Result<Exit, CliError> {
    if let Some(of) = command.checkpoint_args() {
        // Before the database is opened: a mistake in it is told at once.
        source(of)?;
    }
    let target = Target::parse(command.database_url()).map_err(|error| CliError::usage(error.to_string()))?;
    let text = match target {
        Target::Sqlite(path) => command.text(&sqlite::open(path, Missing::Refuse).await?).await?,
        #[cfg(feature = "postgres")]
        Target::Postgres(url) => command.text(&crate::postgres::open_to_look(&url).await?).await?,
    };
    output::print(&text).map(|()| Exit::Done)
}

impl Look {
    fn database_url(&self) -> &str {
        let database = match self {
            Self::Dead(DeadCommand::List(args)) | Self::Conflicts(ConflictsCommand::List(args)) => {
                &args.database
            }
            Self::Dead(DeadCommand::Show { database, .. }) => database,
            Self::Checkpoint(CheckpointCommand::Show { of, .. } | CheckpointCommand::Reset { of }) => {
                &of.database
            }
            Self::Stats(args) => &args.database,
        };
        &database.into
    }

    fn checkpoint_args(&self) -> Option<&CheckpointArgs> {
        match self {
            Self::Checkpoint(CheckpointCommand::Show { of, .. } | CheckpointCommand::Reset { of }) => {
                Some(of)
            }
            _ => None,
        }
    }

    /// What is to be said.
    async fn text(self, store: &impl Database) -> Result<String, CliError> {
        match self {
            Self::Dead(DeadCommand::List(args)) => admin::dead_list(store, &args).await,
            Self::Dead(DeadCommand::Show { letter_id, format, .. }) => {
                admin::dead_show(store, letter_id, format.output).await
            }
            Self::Conflicts(ConflictsCommand::List(args)) => admin::conflicts_list(store, &args).await,
            Self::Checkpoint(CheckpointCommand::Show { of, format }) => {
                admin::checkpoint_show(store, &of.group, &source(&of)?, format.output).await
            }
            Self::Checkpoint(CheckpointCommand::Reset { of }) => {
                admin::checkpoint_reset(store, &of.group, &source(&of)?).await
            }
            Self::Stats(args) => admin::stats(store, args.format.output).await,
        }
    }
}

fn source(of: &CheckpointArgs) -> Result<Source, CliError> {
    Origin::parse(&of.from).map_err(|error| CliError::usage(error.to_string()))?.source()
}
