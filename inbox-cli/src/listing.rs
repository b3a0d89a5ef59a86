//! Lists of letters, conflicts, checkpoints and counts: as a table, or as lines of JSON.

use crate::{args::OutputFormat, error::push_visible, records::Record};
use comfy_table::{ContentArrangement, Table, presets};

/// The longest cell of a table, in characters; the JSON lines have everything.
const CELL_CHARS_MAX: usize = 60;

/// Renders records, with the newline at the end. `none` is said in place of an empty table.
pub(crate) fn render<R: Record>(records: &[R], format: OutputFormat, none: &str) -> String {
    match format {
        OutputFormat::Json => json_lines(records),
        OutputFormat::Table if records.is_empty() => format!("{none}\n"),
        OutputFormat::Table => table(records),
    }
}

fn json_lines<R: Record>(records: &[R]) -> String {
    // Strings and numbers only: serializing them cannot fail.
    records.iter().map(|record| serde_json::to_string(record).unwrap_or_default() + "\n").collect()
}

fn table<R: Record>(records: &[R]) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(R::COLUMNS);
    for record in records {
        table.add_row(record.cells().iter().map(|cell| shorten(cell)));
    }
    let mut out = String::new();
    for line in table.lines() {
        out.push_str(line.trim());
        out.push('\n');
    }
    out
}

fn shorten(cell: &str) -> String {
    let mut out = String::new();
    let mut chars = cell.chars();
    let head: String = chars.by_ref().take(CELL_CHARS_MAX).collect();
    push_visible(&mut out, &head);
    if chars.next().is_some() {
        out.push('…');
    }
    out
}

/// Renders one record whole: a line per name and value, the payload last.
pub(crate) fn render_one<R: Record>(record: &R, format: OutputFormat) -> String {
    if format == OutputFormat::Json {
        return json_lines(std::slice::from_ref(record));
    }
    let mut out = String::new();
    for (name, value) in record.details() {
        out.push_str(name);
        out.push_str(": ");
        // Lines are kept: a payload may be laid out.
        for (n, line) in value.split('\n').enumerate() {
            if n > 0 {
                out.push_str("\n  ");
            }
            push_visible(&mut out, line);
        }
        out.push('\n');
    }
    out
}
