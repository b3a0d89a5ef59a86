//! The commands that look after the tables, for every store that can be looked into.

use crate::{
    args::{ListArgs, OutputFormat},
    error::CliError,
    listing::{render, render_one},
    records::{CheckpointRecord, ConflictRecord, LetterRecord, StatsRecord},
};
use inbox_core::{Checkpoints, Group, Inspect, Page, Source, StoreError};

fn page(args: &ListArgs) -> Page {
    let mut page = Page::first(args.group.clone(), args.limit);
    page.after = args.after;
    page
}

fn failed(doing: &str) -> impl FnOnce(StoreError) -> CliError {
    move |error| CliError::failed(doing).because(&error)
}

/// `inbox dead list`.
pub(crate) async fn dead_list(store: &impl Inspect, args: &ListArgs) -> Result<String, CliError> {
    let letters = store.letters(&page(args)).await.map_err(failed("listing dead letters"))?;
    let letters: Vec<_> = letters.iter().map(LetterRecord::from).collect();
    Ok(render(&letters, args.format.output, "no dead letters"))
}

/// `inbox dead show`.
pub(crate) async fn dead_show(
    store: &impl Inspect,
    letter_id: i64,
    format: OutputFormat,
) -> Result<String, CliError> {
    let letter =
        store.letter(letter_id).await.map_err(failed("reading a dead letter"))?.ok_or_else(|| {
            CliError::usage(format!("there is no dead letter {letter_id}"))
                .hint("inbox dead list shows their numbers")
        })?;
    Ok(render_one(&LetterRecord::from(&letter), format))
}

/// `inbox conflicts list`.
pub(crate) async fn conflicts_list(store: &impl Inspect, args: &ListArgs) -> Result<String, CliError> {
    let conflicts = store.conflicts(&page(args)).await.map_err(failed("listing conflicts"))?;
    let conflicts: Vec<_> = conflicts.iter().map(ConflictRecord::from).collect();
    Ok(render(&conflicts, args.format.output, "no conflicts"))
}

/// `inbox stats`.
pub(crate) async fn stats(store: &impl Inspect, format: OutputFormat) -> Result<String, CliError> {
    let stats = store.group_stats().await.map_err(failed("counting records"))?;
    let stats: Vec<_> = stats.iter().map(StatsRecord::from).collect();
    Ok(render(&stats, format, "no records"))
}

/// `inbox checkpoint show`.
pub(crate) async fn checkpoint_show(
    store: &impl Checkpoints,
    group: &Group,
    source: &Source,
    format: OutputFormat,
) -> Result<String, CliError> {
    let found = store.list_checkpoints(group, source).await.map_err(failed("reading checkpoints"))?;
    let found: Vec<_> = found.iter().map(CheckpointRecord::from).collect();
    Ok(render(&found, format, "no checkpoint: the next run reads from the start"))
}

/// `inbox checkpoint reset`.
pub(crate) async fn checkpoint_reset(
    store: &impl Checkpoints,
    group: &Group,
    source: &Source,
) -> Result<String, CliError> {
    let forgotten = store.forget(group, source).await.map_err(failed("resetting checkpoints"))?;
    Ok(match forgotten {
        0 => "there was no checkpoint: the next run reads from the start as it is\n".to_owned(),
        1 => "1 checkpoint reset: the next run reads from the start\n".to_owned(),
        more => format!("{more} checkpoints reset: the next run reads from the start\n"),
    })
}
