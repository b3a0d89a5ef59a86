use super::*;
use crate::{args::OutputFormat, listing};
use inbox_core::{ClaimKey, Fingerprint, MessageId, Position, Scope, Source};

fn inbound(payload: Option<&'static [u8]>) -> Inbound {
    let partition = Partition { source: Source::new("file:/orders.jsonl"), number: 0 };
    let mut inbound = Inbound::new(partition, payload.map(Bytes::from_static));
    inbound.position = Some(Position { at: 120, next: 140 });
    inbound
}

fn claim_key(id: &str) -> ClaimKey {
    ClaimKey { scope: Scope::default(), id: MessageId::new(id).unwrap() }
}

fn letter(payload: Option<&'static [u8]>) -> LetterRecord {
    let at_ms = 1_700_000_000_000;
    let (group, reason, error) = ("billing".to_owned(), "failed".to_owned(), "NOT NULL".to_owned());
    let claim = claim_key("o-1\u{1b}[2J");
    LetterRecord::from(&StoredLetter::new(7, group, claim, reason, error, 1, at_ms, inbound(payload)))
}

#[test]
fn a_table_shows_one_letter_a_line_and_nothing_that_steers_a_terminal() {
    let letters = [letter(Some(b"{\n\"a\":1}")), letter(None)];
    let table = listing::render(&letters, OutputFormat::Table, "none");
    let lines: Vec<_> = table.lines().collect();
    assert_eq!(lines.len(), 3, "{table}");
    assert!(lines[0].starts_with("number"));
    assert!(lines[1].contains("o-1\\u{1b}[2J") && lines[1].ends_with("{\\n\"a\":1}"), "{table}");
    assert!(lines[1].contains("2023-11-14T22:13:20.000Z"), "{table}");
    assert_eq!(listing::render::<LetterRecord>(&[], OutputFormat::Table, "no letters"), "no letters\n");
}

#[test]
fn json_lines_hold_everything() {
    let json = listing::render(&[letter(Some(b"{\"a\":1")), letter(Some(b"\xff"))], OutputFormat::Json, "");
    let lines: Vec<_> = json.lines().collect();
    assert_eq!(
        lines[0],
        "{\"letter_id\":7,\"group\":\"billing\",\"id\":\"o-1\\u001b[2J\",\"reason\":\"failed\",\
         \"error\":\"NOT NULL\",\"attempts\":1,\"at\":\"2023-11-14T22:13:20.000Z\",\
         \"source\":\"file:/orders.jsonl\",\"partition\":0,\"position\":120,\"payload\":\"{\\\"a\\\":1\"}"
    );
    assert!(lines[1].ends_with("\"payload\":null,\"payload_base64\":\"/w==\"}"), "{}", lines[1]);
    assert_eq!(listing::render::<LetterRecord>(&[], OutputFormat::Json, "no letters"), "");
}

#[test]
fn one_letter_is_shown_whole() {
    let shown = listing::render_one(&letter(Some(b"{\n \"a\": 1\x07}")), OutputFormat::Table);
    let end = "from: file:/orders.jsonl[0] at 120\npayload: {\n   \"a\": 1\\u{7}}\n";
    assert!(shown.ends_with(end), "{shown}");
}

#[test]
fn conflicts_checkpoints_and_counts_are_listed() {
    let fingerprint = Fingerprint::of_payload(None);
    let conflict = StoredConflict::new(
        1,
        "billing".to_owned(),
        claim_key("o-5"),
        fingerprint,
        fingerprint,
        2,
        0,
        inbound(Some(b"{}")),
    );
    let table = listing::render(&[ConflictRecord::from(&conflict)], OutputFormat::Table, "");
    assert!(table.lines().nth(1).unwrap().contains("1970-01-01T00:00:00.000Z"), "{table}");

    let partition = Partition { source: Source::new("file:/x"), number: 0 };
    let checkpoint = CheckpointRecord::from(&(partition, Checkpoint::new(99, 3, None)));
    assert_eq!(
        listing::render(&[checkpoint], OutputFormat::Json, ""),
        "{\"source\":\"file:/x\",\"partition\":0,\"next\":99,\"epoch\":3}\n"
    );

    let mut stats = GroupStats::new("billing");
    stats.applied = 24;
    let table = listing::render(&[StatsRecord::from(&stats)], OutputFormat::Table, "");
    let words: Vec<_> = table.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(words, ["billing", "24", "0", "0", "0", "0"]);
}

#[test]
fn times_without_a_date_are_numbers() {
    assert_eq!(time(-1), "-1 ms");
    assert_eq!(time(i64::MAX), "9223372036854775807 ms");
    assert_eq!(time(253_402_300_799_999), "9999-12-31T23:59:59.999Z");
}
