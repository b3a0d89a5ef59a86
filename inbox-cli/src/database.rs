//! What the command needs of a database, whatever its kind.

use crate::{error::CliError, params::Undecodable};
use inbox_core::{Checkpoints, Group, InboxStore, Inspect, Message, StoreError, Tx};
use std::{error::Error, time::Duration};

/// What to do when there is no database, or none with the tables of inbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    /// Make them.
    Create,
    /// Say so.
    Refuse,
}

/// A store that can be written into by a run and looked into by the other commands.
pub(crate) trait Database: InboxStore + Inspect + Checkpoints {
    /// Runs a script unless it was run on this database before, and tells whether it was run now.
    fn apply_init(&self, script: &str) -> impl Future<Output = Result<bool, StoreError>> + Send;
}

/// What every message does to the database, as the `--sql` options say: statements that were checked, and what
/// is bound to their parameters.
pub(crate) trait Sink: Send + Sync + 'static {
    /// Where the statements are run.
    type Store: Database;
    /// A value on its way from a message into the SQL.
    type Value: Send + Sync + 'static;

    /// How much longer than the SQL may take a handler is waited for, where the sink itself stops the SQL and
    /// tells which statement it was.
    const GRACE: Duration;

    /// Reads what is to be bound from a message.
    fn values(&self, message: &Message, group: &Group) -> Result<Vec<Self::Value>, Undecodable>;

    /// Runs every statement, in order, in the transaction that is lent.
    fn apply(
        &self,
        values: &[Self::Value],
        tx: Tx<Self::Store>,
    ) -> impl Future<Output = Result<(), StatementFailed>> + Send;
}

/// A statement that failed for a message.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StatementFailed {
    /// The source is the driver's error, which tells what kind it is.
    #[error("--sql {number}")]
    Driver {
        /// Which of the `--sql` options, counted from 1.
        number: usize,
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// It was stopped. What the driver says of that ("interrupted") tells nothing more.
    #[error(
        "--sql {number}: stopped: the SQL of the message ran longer than --handler-timeout ({limit_s} s)"
    )]
    TooLong {
        /// Which of the `--sql` options, counted from 1.
        number: usize,
        /// The limit.
        limit_s: u64,
    },
}

/// Why a statement is refused before a run, whatever the database.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("it is empty; write one statement, such as INSERT")]
    Empty,
    #[error("it has more than one statement; give each its own --sql")]
    Several,
    #[error("the parameter {0} has no name; write :name, the name of a payload field")]
    Unnamed(String),
    #[error("the parameter {parameter} is no name of letters, digits and _{advice}")]
    Misnamed { parameter: String, advice: String },
    /// What would end the transaction that holds the claim, or change what a commit is worth.
    #[error("{0} is not allowed: inbox opens and commits the transaction itself")]
    Transaction(&'static str),
    #[error(
        "VACUUM is not allowed: it cannot run in a transaction; run it between runs, with another program"
    )]
    Vacuum,
    #[error("load_extension is not allowed: extensions cannot be loaded here")]
    Extension,
    #[error("it changes {0}: tables whose names begin with inbox_ are inbox's own and can only be read")]
    OwnTable(String),
    #[cfg(feature = "postgres")]
    #[error("{0} is not allowed: it is not for single messages; write it into the file of --init")]
    NotForMessages(String),
}

impl Refusal {
    /// The error for one of the `--sql` options, counted from 1.
    pub(crate) fn of_statement(&self, number: usize) -> CliError {
        CliError::usage(format!("--sql {number}: {self}"))
    }
}

/// `[A-Za-z_][A-Za-z0-9_]*`, as parameters are named.
pub(crate) fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The tables that the stores make.
pub(crate) fn is_own_table(name: &str) -> bool {
    name.get(..6).is_some_and(|start| start.eq_ignore_ascii_case("inbox_"))
}

/// The numbers of names, each of which stands once in `known`; a new one is added.
pub(crate) fn number_of<T: PartialEq>(known: &mut Vec<T>, one: T) -> usize {
    known.iter().position(|other| *other == one).unwrap_or_else(|| {
        known.push(one);
        known.len() - 1
    })
}
