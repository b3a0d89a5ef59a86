//! The command line: every option, its default and its limits.

use crate::{exit, source::ParamMapping};
use clap::{Args, Parser, Subcommand, ValueEnum, value_parser};
use inbox_core::{Group, IdFrom, JsonPointer};
use std::path::PathBuf;

#[cfg(feature = "postgres")]
const RUN_INTO: &str = "The database of the effects: sqlite:PATH, which is made when it is not there, or \
    postgres://USER:PASSWORD@HOST:PORT/DATABASE, which has to be there. The password can also come from PGPASSWORD \
    or ~/.pgpass";
#[cfg(not(feature = "postgres"))]
const RUN_INTO: &str = "The database of the effects: sqlite:PATH. It is made when it is not there";

#[cfg(feature = "postgres")]
const LOOK_INTO: &str = "The database: sqlite:PATH or postgres://USER:PASSWORD@HOST:PORT/DATABASE";
#[cfg(not(feature = "postgres"))]
const LOOK_INTO: &str = "The database: sqlite:PATH";

/// The transactional inbox: one effect per message, however often it is delivered.
#[derive(Debug, Parser)]
#[command(name = "inbox", version, after_help = exit::HELP, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run SQL for every message, once, in the transaction that records the message.
    Run(Box<RunArgs>),
    /// Look at dead letters: messages that were given up, with their payload and error.
    #[command(subcommand)]
    Dead(DeadCommand),
    /// Look at conflicts: ids that came again with other content.
    #[command(subcommand)]
    Conflicts(ConflictsCommand),
    /// Look at, or forget, how far a group has read a source.
    #[command(subcommand)]
    Checkpoint(CheckpointCommand),
    /// Count the records of each group.
    Stats(StatsArgs),
}

#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub(crate) struct RunArgs {
    /// Where messages come from: file:PATH, a file of JSON lines.
    #[arg(long, value_name = "URL")]
    pub(crate) from: String,
    #[arg(long, value_name = "URL", help = RUN_INTO)]
    pub(crate) into: String,
    /// The consumer group: each group gets every message once.
    #[arg(long, value_name = "NAME", value_parser = group)]
    pub(crate) group: Group,
    /// The message id: a JSON pointer into the payload, or header:NAME.
    #[arg(long, value_name = "POINTER", default_value = "/id", value_parser = id_from)]
    pub(crate) id: IdFrom,
    /// The ordering key, a JSON pointer: messages with the same key are handled one after the other.
    #[arg(long, value_name = "POINTER", value_parser = pointer)]
    pub(crate) key: Option<JsonPointer>,
    /// SQL that makes the tables, run first, in one transaction, and only once for each content of the
    /// file.
    #[arg(long, value_name = "FILE")]
    pub(crate) init: Option<PathBuf>,
    /// A statement to run for every message. Several are one transaction, in this order. :name is the
    /// payload's field of that name, always bound as a value; NULL when there is none. On SQLite, a number
    /// that neither a 64-bit integer nor a double can hold exactly is bound as text; INTEGER and REAL
    /// columns would round it, so give such a column the type TEXT. On PostgreSQL, a value gets the type that
    /// the statement has for it there; a message whose value cannot get it becomes a dead letter.
    #[arg(long, value_name = "SQL", required = true, allow_hyphen_values = true)]
    pub(crate) sql: Vec<String>,
    /// Takes parameter :NAME from elsewhere. SOURCE is a JSON pointer (/a/b, or nothing for the whole
    /// payload), header:NAME, or message:PART with PART one of id, key, position, partition, source,
    /// timestamp, payload, type, idempotency_key.
    #[arg(long = "param", value_name = "NAME=SOURCE")]
    pub(crate) params: Vec<ParamMapping>,
    /// The most messages in one transaction, 1 to 10000.
    #[arg(long, value_name = "COUNT", default_value_t = 100, value_parser = value_parser!(u32).range(1..=10_000))]
    pub(crate) batch: u32,
    /// How many transactions may be at work at the same time, 1 to 64. SQLite writes one at a time; with
    /// two, the next one is ready when it has written. PostgreSQL is asked for a connection for each, and for
    /// two beside them.
    #[arg(long, value_name = "COUNT", default_value_t = 2, value_parser = value_parser!(u32).range(1..=64))]
    pub(crate) lanes: u32,
    /// How often a failing message is tried, 1 to 1000.
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = value_parser!(u32).range(1..=1_000))]
    pub(crate) attempts: u32,
    /// What becomes of a message that fails that often.
    #[arg(long, value_name = "ACTION", default_value = "dead-letter")]
    pub(crate) on_failure: OnFailure,
    /// How long the SQL of one message may take, in seconds, 1 to 3600.
    #[arg(long = "handler-timeout", value_name = "SECONDS", default_value_t = 30, value_parser = value_parser!(u64).range(1..=3_600))]
    pub(crate) handler_timeout_s: u64,
    /// How long a stop waits for what has begun, in seconds, 0 to 3600.
    #[arg(long = "shutdown-timeout", value_name = "SECONDS", default_value_t = 30, value_parser = value_parser!(u64).range(0..=3_600))]
    pub(crate) shutdown_timeout_s: u64,
    /// The longest line that is read whole, in bytes, 1 to 1073741824; longer ones become dead letters.
    #[arg(long, value_name = "BYTES", default_value_t = 1_048_576, value_parser = value_parser!(u32).range(1..=1_073_741_824))]
    pub(crate) line_bytes_max: u32,
    /// The report at the end, on standard output.
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) report: ReportFormat,
    /// No progress, and no log lines but errors.
    #[arg(long, conflicts_with = "log")]
    pub(crate) quiet: bool,
    /// The log lines on standard error: this level and what is graver.
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    pub(crate) log: LogLevel,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnFailure {
    /// Keep it as a dead letter, and go on.
    DeadLetter,
    /// Stop the run with exit code 1, also at a line that would become a letter for any other reason.
    /// Other messages of the same transaction are rolled back, and read again by the next run.
    Halt,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportFormat {
    /// Two lines.
    Text,
    /// One JSON object as the last line.
    Json,
    /// Nothing.
    None,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogLevel {
    Off,
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

/// The database to look into.
#[derive(Debug, Args)]
pub(crate) struct IntoArgs {
    #[arg(long, value_name = "URL", help = LOOK_INTO)]
    pub(crate) into: String,
}

#[derive(Debug, Args)]
pub(crate) struct OutputArgs {
    /// A table, or one JSON object per line.
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub(crate) output: OutputFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    Table,
    Json,
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    pub(crate) database: IntoArgs,
    /// Only this group; all groups otherwise.
    #[arg(long, value_name = "NAME", value_parser = group)]
    pub(crate) group: Option<Group>,
    /// At most this many, 1 to 100000.
    #[arg(long, value_name = "COUNT", default_value_t = 100, value_parser = value_parser!(u32).range(1..=100_000))]
    pub(crate) limit: u32,
    /// Only those numbered above this one: the last number of the list before.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub(crate) after: i64,
    #[command(flatten)]
    pub(crate) format: OutputArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DeadCommand {
    /// List dead letters.
    List(ListArgs),
    /// Show one dead letter whole.
    Show {
        /// Its number in the list.
        #[arg(value_name = "NUMBER")]
        letter_id: i64,
        #[command(flatten)]
        database: IntoArgs,
        #[command(flatten)]
        format: OutputArgs,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConflictsCommand {
    /// List conflicts. `--output json` shows whole payloads.
    List(ListArgs),
}

#[derive(Debug, Subcommand)]
pub(crate) enum CheckpointCommand {
    /// Show how far the group has read.
    Show {
        #[command(flatten)]
        of: CheckpointArgs,
        #[command(flatten)]
        format: OutputArgs,
    },
    /// Forget it: the next run reads from the start, and finds what was applied.
    Reset {
        #[command(flatten)]
        of: CheckpointArgs,
    },
}

#[derive(Debug, Args)]
pub(crate) struct CheckpointArgs {
    /// The source, as it was given to run.
    #[arg(long, value_name = "URL")]
    pub(crate) from: String,
    #[command(flatten)]
    pub(crate) database: IntoArgs,
    /// The consumer group.
    #[arg(long, value_name = "NAME", value_parser = group)]
    pub(crate) group: Group,
}

#[derive(Debug, Args)]
pub(crate) struct StatsArgs {
    #[command(flatten)]
    pub(crate) database: IntoArgs,
    #[command(flatten)]
    pub(crate) format: OutputArgs,
}

fn group(text: &str) -> Result<Group, String> {
    Group::new(text).map_err(|error| error.to_string())
}

fn pointer(text: &str) -> Result<JsonPointer, String> {
    JsonPointer::new(text).map_err(|error| error.to_string())
}

fn id_from(text: &str) -> Result<IdFrom, String> {
    match text.strip_prefix("header:") {
        Some("") => Err("the name behind header: is missing".to_owned()),
        Some(name) => Ok(IdFrom::Header(name.into())),
        None => pointer(text).map(IdFrom::JsonPointer),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_options_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn sql_may_begin_with_a_comment() {
        let args = [
            "inbox",
            "run",
            "--from",
            "file:a",
            "--into",
            "sqlite:b",
            "--group",
            "g",
            "--sql",
            "-- c\nSELECT 1",
        ];
        let Command::Run(run) = Cli::try_parse_from(args).unwrap().command else { panic!("not a run") };
        assert_eq!(run.sql, ["-- c\nSELECT 1"]);
    }

    #[test]
    fn defaults_are_as_documented() {
        let least =
            ["inbox", "run", "--from", "file:a", "--into", "sqlite:b", "--group", "g", "--sql", "SELECT 1"];
        let Command::Run(run) = Cli::try_parse_from(least).unwrap().command else { panic!("not a run") };
        assert_eq!(run.id, IdFrom::JsonPointer(JsonPointer::field("id")));
        assert_eq!((run.batch, run.lanes, run.attempts), (100, 2, 5));
        assert_eq!((run.handler_timeout_s, run.shutdown_timeout_s, run.line_bytes_max), (30, 30, 1_048_576));
        assert_eq!((run.on_failure, run.report), (OnFailure::DeadLetter, ReportFormat::Text));
    }
}
