//! From a statement with names to one with numbers, and what can be told of it without the server.

use super::lexer::{Piece, pieces};
use crate::database::{Refusal, is_name, is_own_table, number_of};

/// A statement as the server gets it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Numbered {
    /// With `$1`, `$2`, … in the place of the names.
    pub(crate) sql: String,
    /// The name of each, without its first character. A name has one number, wherever it stands.
    pub(crate) names: Vec<String>,
    /// What is done with it before a run.
    pub(crate) check: Check,
    /// Its first word, in capitals.
    pub(crate) first: String,
    /// Whether a single `?` stands in it: perhaps meant as a parameter.
    pub(crate) has_question_mark: bool,
}

/// How a statement is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Check {
    /// The server can plan it.
    Plan,
    /// It has no plan, and may be run for messages.
    Prepare,
    /// It is nothing for messages, if it is a statement at all.
    Refuse,
}

/// What the server plans.
const PLANNED: [&str; 8] = ["SELECT", "INSERT", "UPDATE", "DELETE", "MERGE", "WITH", "VALUES", "TABLE"];
/// What has no plan, works inside a transaction and makes sense there.
const OTHERS: [&str; 6] = ["CALL", "DO", "LOCK", "NOTIFY", "REFRESH", "TRUNCATE"];

impl Numbered {
    /// Numbers the parameters.
    pub(crate) fn parse(sql: &str) -> Result<Self, Refusal> {
        let (mut numbered, mut names) = (String::with_capacity(sql.len()), Vec::new());
        let (mut first, mut own_table) = (None, None);
        let (mut has_question_mark, mut is_ended, mut is_empty) = (false, false, true);
        for piece in pieces(sql) {
            match piece {
                Piece::Space(_) => {}
                Piece::Other(";") => is_ended = !is_empty,
                _ if is_ended => return Err(Refusal::Several),
                _ => is_empty = false,
            }
            match piece {
                Piece::Parameter(parameter) => {
                    let name = parameter.get(1..).filter(|name| is_name(name)).ok_or_else(|| {
                        Refusal::Misnamed { parameter: parameter.to_owned(), advice: String::new() }
                    })?;
                    numbered.push_str(&format!("${}", number_of(&mut names, name.to_owned()) + 1));
                    continue;
                }
                Piece::Numbered(parameter) => return Err(Refusal::Unnamed(parameter.to_owned())),
                Piece::Word(word) => {
                    first = first.or(Some(word));
                    own_table = own_table.or(Some(word).filter(|word| is_own_table(word)));
                }
                Piece::Quoted(quoted) => {
                    let name = quoted.trim_matches('"');
                    own_table = own_table.or(Some(name).filter(|name| is_own_table(name)));
                }
                Piece::Other("?") => has_question_mark = true,
                Piece::Space(_) | Piece::Text(_) | Piece::Other(_) => {}
            }
            numbered.push_str(piece.text());
        }
        if is_empty {
            return Err(Refusal::Empty);
        }
        let first = first.unwrap_or_default().to_ascii_uppercase();
        let check = check(&first)?;
        match own_table {
            // Of the others the server does not tell what they change.
            Some(name) if check == Check::Prepare => Err(Refusal::OwnTable(name.to_owned())),
            _ => Ok(Self { sql: numbered, names, check, first, has_question_mark }),
        }
    }

    /// Writes the names into a text of the server's, which knows the numbers.
    pub(crate) fn with_names(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        for piece in pieces(text) {
            let number = match piece {
                Piece::Numbered(number) => number.get(1..).and_then(|number| number.parse::<usize>().ok()),
                _ => None,
            };
            match number.and_then(|number| self.names.get(number.checked_sub(1)?)) {
                Some(name) => out.extend([":", name]),
                None => out.push_str(piece.text()),
            }
        }
        out
    }
}

fn check(first: &str) -> Result<Check, Refusal> {
    match first {
        "BEGIN" | "START" | "COMMIT" | "END" | "ROLLBACK" | "ABORT" => {
            Err(Refusal::Transaction("BEGIN, COMMIT or ROLLBACK"))
        }
        "SAVEPOINT" | "RELEASE" => Err(Refusal::Transaction("SAVEPOINT or RELEASE")),
        "PREPARE" => Err(Refusal::Transaction("PREPARE")),
        "SET" | "RESET" | "DISCARD" => Err(Refusal::Transaction("SET, RESET or DISCARD")),
        "VACUUM" => Err(Refusal::Vacuum),
        first if PLANNED.contains(&first) => Ok(Check::Plan),
        first if OTHERS.contains(&first) => Ok(Check::Prepare),
        _ => Ok(Check::Refuse),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_number() {
        let sql = "INSERT INTO t VALUES (:a, @b, $a); -- :c";
        let numbered = Numbered::parse(sql).unwrap();
        assert_eq!(numbered.sql, "INSERT INTO t VALUES ($1, $2, $1); -- :c");
        assert_eq!(numbered.names, ["a", "b"]);
        assert_eq!(numbered.check, Check::Plan);
        let told = numbered.with_names("inconsistent types deduced for parameter $2, not '$1' and $3");
        assert_eq!(told, "inconsistent types deduced for parameter :b, not '$1' and $3");
    }

    #[test]
    fn statements_that_cannot_work_are_refused() {
        for (sql, refusal) in [
            ("", Refusal::Empty),
            (" ; -- nothing", Refusal::Empty),
            ("DELETE FROM t; DELETE FROM u", Refusal::Several),
            ("SELECT $1", Refusal::Unnamed("$1".into())),
            ("SELECT :é", Refusal::Misnamed { parameter: ":é".into(), advice: String::new() }),
            ("/* a */ commit", Refusal::Transaction("BEGIN, COMMIT or ROLLBACK")),
            ("Savepoint s", Refusal::Transaction("SAVEPOINT or RELEASE")),
            ("PREPARE TRANSACTION 'x'", Refusal::Transaction("PREPARE")),
            ("SET synchronous_commit = off", Refusal::Transaction("SET, RESET or DISCARD")),
            ("VACUUM t", Refusal::Vacuum),
            ("TRUNCATE t, \"inbox_claims\"", Refusal::OwnTable("inbox_claims".into())),
        ] {
            assert_eq!(Numbered::parse(sql), Err(refusal), "{sql}");
        }
        for (sql, check) in [
            ("(SELECT 1)", Check::Plan),
            ("with a AS (SELECT 1) TABLE a;", Check::Plan),
            ("CALL p(:a)", Check::Prepare),
            ("DO $$ BEGIN COMMIT; END $$", Check::Prepare),
            ("COPY t FROM STDIN", Check::Refuse),
            ("INSRT INTO t", Check::Refuse),
        ] {
            assert_eq!(Numbered::parse(sql).unwrap().check, check, "{sql}");
        }
    }
}
