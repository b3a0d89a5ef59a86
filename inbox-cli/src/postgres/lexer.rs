//! Splits PostgreSQL's SQL into pieces, so that parameters are found where they are parameters: not in strings,
//! quoted names and comments.

/// A piece of a statement. The pieces of a statement joined are the statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Piece<'s> {
    /// White space and comments.
    Space(&'s str),
    /// A keyword or a name.
    Word(&'s str),
    /// A name in double quotes, with them.
    Quoted(&'s str),
    /// A string of any kind.
    Text(&'s str),
    /// `:name`, `@name` or `$name`.
    Parameter(&'s str),
    /// `$1`.
    Numbered(&'s str),
    /// Everything else: numbers, operators, brackets.
    Other(&'s str),
}

impl<'s> Piece<'s> {
    /// The piece as it is written.
    pub(crate) fn text(self) -> &'s str {
        match self {
            Self::Space(text)
            | Self::Word(text)
            | Self::Quoted(text)
            | Self::Text(text)
            | Self::Parameter(text)
            | Self::Numbered(text)
            | Self::Other(text) => text,
        }
    }
}

/// The pieces of a statement.
pub(crate) fn pieces(sql: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = sql;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let (kind, bytes) = next(rest, first);
        // A piece is never empty and ends between characters.
        let (piece, behind) = rest.split_at_checked(bytes.max(first.len_utf8())).unwrap_or((rest, ""));
        rest = behind;
        Some(kind(piece))
    })
}

type Kind<'s> = fn(&'s str) -> Piece<'s>;

/// The kind of the piece that `rest` begins with, and its length in bytes.
fn next<'s>(rest: &'s str, first: char) -> (Kind<'s>, usize) {
    let behind = rest.get(first.len_utf8()..).unwrap_or_default();
    if first.is_ascii_whitespace() || first == '\u{b}' || rest.starts_with("--") || rest.starts_with("/*") {
        return (Piece::Space, space(rest));
    }
    match first {
        '\'' => (Piece::Text, quoted(rest, '\'')),
        '"' => (Piece::Quoted, quoted(rest, '"')),
        'e' | 'E' if behind.starts_with('\'') => (Piece::Text, 1 + escaped(behind)),
        '$' => dollar(rest, behind),
        ':' if behind.starts_with([':', '=']) => (Piece::Other, 2),
        ':' if behind.starts_with(begins_name) => (Piece::Parameter, 1 + name(behind)),
        first if is_operator(first) => operator(rest),
        first if begins_name(first) => (Piece::Word, word(rest)),
        first if first.is_ascii_digit() => (Piece::Other, word(rest)),
        _ => (Piece::Other, first.len_utf8()),
    }
}

fn begins_name(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_' || !c.is_ascii()
}

fn continues_name(c: char) -> bool {
    begins_name(c) || c.is_ascii_digit()
}

/// The length of the characters at the start that are like this.
fn while_(text: &str, like: impl Fn(char) -> bool) -> usize {
    text.find(|c| !like(c)).unwrap_or(text.len())
}

/// A parameter's name. A `$` ends it, other than a column's.
fn name(text: &str) -> usize {
    while_(text, continues_name)
}

fn word(text: &str) -> usize {
    while_(text, |c| continues_name(c) || c == '$')
}

/// One run of white space, or one comment. Comments in `/* */` nest.
fn space(text: &str) -> usize {
    if text.starts_with("--") {
        return text.find(['\n', '\r']).unwrap_or(text.len());
    }
    if !text.starts_with("/*") {
        return while_(text, |c| c.is_ascii_whitespace() || c == '\u{b}');
    }
    let (mut depth, mut at) = (0_usize, 0_usize);
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        if rest.starts_with("/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if rest.starts_with("*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

/// From the first quote to the one that ends it; a doubled quote does not.
fn quoted(text: &str, quote: char) -> usize {
    let mut at = 1;
    loop {
        let Some(found) = text.get(at..).and_then(|rest| rest.find(quote)) else { return text.len() };
        at += found + 1;
        if !text.get(at..).is_some_and(|rest| rest.starts_with(quote)) {
            return at;
        }
        at += 1;
    }
}

/// As `quoted`, where a backslash takes away the meaning of what comes behind it. Such a string goes on in the
/// next line when that begins with a quote.
fn escaped(text: &str) -> usize {
    let mut end = one_escaped(text);
    while let Some(more) = text.get(end..).and_then(continuation) {
        end += more + text.get(end + more..).map_or(0, one_escaped);
    }
    end
}

fn one_escaped(text: &str) -> usize {
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => drop(chars.next()),
            '\'' if chars.next_if(|(_, next)| *next == '\'').is_none() => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// The length of white space with a new line in it that stands between two parts of one string.
fn continuation(text: &str) -> Option<usize> {
    let mut at = 0;
    loop {
        let rest = text.get(at..)?;
        if rest.starts_with('\'') {
            return text.get(..at)?.contains(['\n', '\r']).then_some(at);
        }
        if rest.starts_with("/*")
            || !(rest.starts_with("--") || rest.starts_with(|c: char| c.is_ascii_whitespace()))
        {
            return None;
        }
        at += space(rest);
    }
}

/// `$1`, `$name`, or a string between two equal tags: `$$…$$`, `$tag$…$tag$`.
fn dollar<'s>(rest: &'s str, behind: &str) -> (Kind<'s>, usize) {
    if behind.starts_with(|c: char| c.is_ascii_digit()) {
        return (Piece::Numbered, 1 + while_(behind, |c| c.is_ascii_digit()));
    }
    let tag = if behind.starts_with(begins_name) { name(behind) } else { 0 };
    if behind.get(tag..).is_some_and(|end| end.starts_with('$')) {
        let tag = rest.get(..tag + 2).unwrap_or(rest);
        let body = rest.get(tag.len()..).unwrap_or_default();
        return (Piece::Text, body.find(tag).map_or(rest.len(), |at| tag.len() + at + tag.len()));
    }
    if tag > 0 { (Piece::Parameter, 1 + tag) } else { (Piece::Other, 1) }
}

fn is_operator(c: char) -> bool {
    "+-*/<>=~!@#%^&|`?".contains(c)
}

/// Operators before which an `@` is none of theirs: PostgreSQL has `<@` and `@@`, and no `=@`.
const BEFORE_AT: [&str; 11] = ["=", ">", "<=", ">=", "<>", "!=", "+", "-", "*", "/", "||"];

fn operator(rest: &str) -> (Kind<'_>, usize) {
    let run = while_(rest, is_operator);
    // A comment ends it.
    let run = ["--", "/*"].iter().filter_map(|comment| rest.get(..run)?.find(comment)).min().unwrap_or(run);
    let (operator, behind) = rest.split_at_checked(run).unwrap_or((rest, ""));
    let Some(before) = operator.strip_suffix('@').filter(|_| behind.starts_with(begins_name)) else {
        return (Piece::Other, run);
    };
    match before {
        "" => (Piece::Parameter, 1 + name(behind)),
        before if BEFORE_AT.contains(&before) => (Piece::Other, before.len()),
        _ => (Piece::Other, run),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The parameters of a statement, each in its place.
    fn parameters(sql: &str) -> Vec<&str> {
        let found = pieces(sql).filter(|piece| matches!(piece, Piece::Parameter(_) | Piece::Numbered(_)));
        found.map(Piece::text).collect()
    }

    #[test]
    fn parameters_are_found_where_they_are_parameters() {
        for (sql, found) in [
            ("VALUES (:a,@b , $c_1)", &[":a", "@b", "$c_1"][..]),
            ("SELECT :a::int, x::text, :b :: text, y := 1", &[":a", ":b"]),
            ("SELECT ':a' || 'it''s :b' || :c", &[":c"]),
            (r"SELECT ':a\' || :b || ':c'", &[":b"]),
            (r"SELECT E':a\' :b' || :c, e'\\', :d", &[":c", ":d"]),
            ("SELECT E'a'\n  'b\\' :x' , :c", &[":c"]),
            ("SELECT E'a'  '\\', :c", &[":c"]),
            ("SELECT \":a\"\":b\", \"\" :c", &[":c"]),
            ("SELECT $$ :a $x$ $$ || $x$ :b $$ $x$ || $x", &["$x"]),
            ("SELECT a$b, _$c :d", &[":d"]),
            ("SELECT 1 -- :a '\n, :b /* :c /* ' */ :d */ , :e", &[":b", ":e"]),
            ("SELECT a <@ b, a <@b, a @> b, a @@b, @ x, @-@ y, a=@z, a<>@w, @v", &["@z", "@w", "@v"]),
            ("SELECT a[1:2], a ? 'b', $1, $12", &["$1", "$12"]),
            ("SELECT a-- :x\n-:y", &[":y"]),
            ("SELECT 5*-- :x\n:y", &[":y"]),
            ("SELECT :é, :Ä1", &[":é", ":Ä1"]),
            ("SELECT 'open :a", &[]),
            ("/* open :a", &[]),
            ("$x$ open :a", &[]),
            ("E'open \\", &[]),
        ] {
            assert_eq!(parameters(sql), found, "{sql}");
        }
    }

    proptest! {
        #[test]
        fn nothing_is_lost(sql in r#"([ -~\n]|['"$:@/*é🦀\\-]|E'|\$\$|--|::|:a|@b){0,40}"#) {
            prop_assert_eq!(pieces(&sql).map(Piece::text).collect::<String>(), sql);
        }
    }
}
