//! The end of a unit of work: the fence and the commit, in one round trip.
//!
//! PostgreSQL answers `ROLLBACK` to the `COMMIT` of an aborted transaction, without an error, and a handler
//! can have ended the transaction by itself. So a fence goes before the commit: a statement that fails
//! unless the transaction is open, not aborted, and the one that was begun. The server stops at the first
//! statement that fails, so the commit is only reached through the fence.

use crate::{
    PostgresTx,
    error::{advice, class_of, database_error, is_lost, one_line, state},
    pool::Conn,
};
use futures_util::TryStreamExt as _;
use inbox_core::{CommitError, FaultClass};
use sqlx::{Either, Error, raw_sql};
use std::time::Duration;
use tokio::time::timeout;

/// What makes a transaction a unit of work. The cursor is what the fence looks for: the end of the transaction
/// takes it away. The setting is what the trigger looks for when somebody commits.
pub(crate) const OPEN: &str = "SET LOCAL inbox.unit = 'open'; DECLARE inbox_unit CURSOR FOR SELECT";

/// The fence, the word for the trigger, and the commit.
const CLOSE: &str = "CLOSE inbox_unit; SET LOCAL inbox.unit = 'done'; COMMIT";
const CLOSE_STATEMENTS: usize = 3;

/// How long the clean-up after a commit that was refused may take.
const CLEAN_UP_WAIT: Duration = Duration::from_secs(1);

/// How far the server came.
#[derive(Debug, Default)]
struct Progress {
    /// Statements that were completed.
    done: usize,
}

pub(crate) async fn commit(store: &str, tx: PostgresTx) -> Result<(), CommitError> {
    let patience = tx.patience();
    let statements = CLOSE_STATEMENTS;
    let Some(mut conn) = tx.take() else {
        return Err(CommitError::rolled_back(FaultClass::HandlerFault, "the transaction has ended before"));
    };
    let mut progress = Progress::default();
    let ended = timeout(patience, run(&mut conn, &mut progress)).await;
    let error = match ended {
        Ok(Ok(())) if progress.done == statements => {
            conn.give_back();
            return Ok(());
        }
        // Nobody can say what these answers were for.
        Ok(Ok(())) => {
            return Err(in_doubt(store, "the server answered other statements than were sent"));
        }
        Ok(Err(_late)) if progress.done == statements => return Ok(()),
        Ok(Err(error)) => error,
        Err(_) => {
            let waited_s = patience.as_secs();
            conn.abandon();
            return Err(in_doubt(store, &format!("no answer within {waited_s} s")));
        }
    };
    let is_before_commit = progress.done + 1 < statements;
    if database_error(&error).is_none() || (is_lost(&error) && !is_before_commit) {
        return Err(in_doubt(store, &one_line(&error)));
    }
    let refused = if progress.done == 0 { fenced(store, &error) } else { refused(store, &error) };
    if !is_lost(&error) {
        if is_before_commit {
            let _closed_instead = conn.rollback(CLEAN_UP_WAIT).await;
        } else {
            // The failed commit was the end of the transaction.
            conn.give_back();
        }
    }
    Err(refused.caused_by(error))
}

async fn run(conn: &mut Conn, progress: &mut Progress) -> Result<(), Error> {
    let mut answers = raw_sql(CLOSE).fetch_many(&mut conn.driver);
    while let Some(answer) = answers.try_next().await? {
        if let Either::Left(_completed) = answer {
            progress.done += 1;
        }
    }
    Ok(())
}

fn in_doubt(store: &str, why: &str) -> CommitError {
    CommitError::InDoubt { message: format!("{store}: {why}") }
}

/// The fence did not let the transaction through.
fn fenced(store: &str, error: &Error) -> CommitError {
    let (class, why) = match state(error) {
        Some("25P02") => (
            FaultClass::Aborted,
            "a statement failed, and its error was hidden, so the server had aborted the transaction".to_owned(),
        ),
        // There is no such cursor.
        Some("34000") => (
            FaultClass::HandlerFault,
            "the transaction was ended before the unit of work, by a COMMIT or ROLLBACK that the handler sent"
                .to_owned(),
        ),
        Some("25P03") => (
            FaultClass::Aborted,
            "the transaction was idle for longer than idle_timeout, and the server ended it".to_owned(),
        ),
        _ => (class_of(error), format!("{}{}", one_line(error), advice(error))),
    };
    CommitError::rolled_back(class, format!("{store}: {why}; nothing is stored"))
}

/// The commit itself failed.
fn refused(store: &str, error: &Error) -> CommitError {
    let message =
        format!("committing in {store} failed: {}{}; nothing is stored", one_line(error), advice(error));
    CommitError::rolled_back(class_of(error), message)
}
