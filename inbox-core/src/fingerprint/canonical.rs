//! JSON written in one way, whatever way it came in.
//!
//! Whitespace is dropped; members are sorted by the bytes of their names, of a name that occurs twice the
//! last one counts; strings are escaped where JSON demands it and nowhere else; numbers are written by
//! [`decimal`]. The form is kept in databases: it must never change within a version.

use super::decimal;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// Documents nested deeper are not canonicalised. It is the limit that serde_json has by default, so
/// a handler would not decode them either.
const DEPTH_MAX: usize = 128;

/// Why a text has no canonical form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotCanonical {
    #[error("it is no JSON")]
    NotJson,
    #[error("it is nested deeper than {DEPTH_MAX} levels")]
    TooDeep,
    #[error("it holds a number with an exponent beyond 64 bits")]
    Exponent,
}

/// The canonical form of a document.
pub(super) fn canonical(document: &[u8]) -> Result<Vec<u8>, NotCanonical> {
    // Checks the whole syntax, without recursion.
    let raw: &RawValue = serde_json::from_slice(document).map_err(|_| NotCanonical::NotJson)?;
    canonical_value(raw)
}

/// The canonical form of a value out of a checked document.
pub(super) fn canonical_value(raw: &RawValue) -> Result<Vec<u8>, NotCanonical> {
    let mut reader = Reader { text: raw.get(), at: 0 };
    let node = reader.value(0)?;
    let mut out = Vec::with_capacity(raw.get().len());
    node.write(&mut out)?;
    Ok(out)
}

/// A value of the document. Its depth is bounded, so recursion over it is, too.
enum Node<'a> {
    /// `true`, `false` or `null`, as written.
    Literal(&'a str),
    Number(&'a str),
    Text(Cow<'a, str>),
    Array(Vec<Node<'a>>),
    /// Sorted by name, each name once.
    Object(Vec<(Cow<'a, str>, Node<'a>)>),
}

/// Reads a text that is known to be JSON. Where it is not, it answers [`NotCanonical::NotJson`].
struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    /// The next byte that is no whitespace; it is not passed.
    fn peek(&mut self) -> Result<u8, NotCanonical> {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        let skipped = rest.iter().position(|byte| !matches!(byte, b' ' | b'\t' | b'\n' | b'\r'));
        self.at += skipped.ok_or(NotCanonical::NotJson)?;
        self.text.as_bytes().get(self.at).copied().ok_or(NotCanonical::NotJson)
    }

    /// Passes the next byte when it is this one.
    fn pass(&mut self, byte: u8) -> Result<bool, NotCanonical> {
        let is_it = self.peek()? == byte;
        self.at += usize::from(is_it);
        Ok(is_it)
    }

    /// The text up to where `ends` first holds, or to the end; it is passed.
    fn take_until(&mut self, ends: impl Fn(u8) -> bool) -> Result<&'a str, NotCanonical> {
        let begin = self.at;
        let rest = self.text.as_bytes().get(begin..).unwrap_or_default();
        self.at += rest.iter().position(|&byte| ends(byte)).unwrap_or(rest.len());
        self.text.get(begin..self.at).filter(|taken| !taken.is_empty()).ok_or(NotCanonical::NotJson)
    }

    fn value(&mut self, depth: usize) -> Result<Node<'a>, NotCanonical> {
        let is_delimiter = |byte| matches!(byte, b',' | b']' | b'}' | b' ' | b'\t' | b'\n' | b'\r');
        match self.peek()? {
            b'{' | b'[' if depth >= DEPTH_MAX => Err(NotCanonical::TooDeep),
            b'{' => self.object(depth + 1),
            b'[' => self.array(depth + 1),
            b'"' => self.string().map(Node::Text),
            b'-' | b'0'..=b'9' => self.take_until(is_delimiter).map(Node::Number),
            _ => self.take_until(is_delimiter).map(Node::Literal),
        }
    }

    fn array(&mut self, depth: usize) -> Result<Node<'a>, NotCanonical> {
        let mut items = Vec::new();
        self.at += 1;
        if self.pass(b']')? {
            return Ok(Node::Array(items));
        }
        loop {
            items.push(self.value(depth)?);
            if !self.pass(b',')? {
                return if self.pass(b']')? { Ok(Node::Array(items)) } else { Err(NotCanonical::NotJson) };
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<Node<'a>, NotCanonical> {
        let mut members = Vec::new();
        self.at += 1;
        if self.pass(b'}')? {
            return Ok(Node::Object(members));
        }
        loop {
            self.peek()?;
            let name = self.string()?;
            if !self.pass(b':')? {
                return Err(NotCanonical::NotJson);
            }
            members.push((name, self.value(depth)?));
            if !self.pass(b',')? {
                break;
            }
        }
        if !self.pass(b'}')? {
            return Err(NotCanonical::NotJson);
        }
        // The sort keeps equal names in their order; reversed, the last one comes first and is kept.
        members.reverse();
        members.sort_by(|(a, _), (b, _)| a.as_bytes().cmp(b.as_bytes()));
        members.dedup_by(|(later, _), (kept, _)| later == kept);
        Ok(Node::Object(members))
    }

    /// A string with its escapes undone.
    fn string(&mut self) -> Result<Cow<'a, str>, NotCanonical> {
        let rest = self.text.as_bytes().get(self.at + 1..).unwrap_or_default();
        let mut escaped = false;
        let mut has_escapes = false;
        let end = rest.iter().position(|&byte| {
            let ends = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            has_escapes |= escaped;
            ends
        });
        let begin = self.at;
        self.at += end.ok_or(NotCanonical::NotJson)? + 2;
        if has_escapes {
            let token = self.text.get(begin..self.at).ok_or(NotCanonical::NotJson)?;
            // Half of a surrogate pair is refused here.
            return serde_json::from_str::<String>(token).map(Cow::Owned).map_err(|_| NotCanonical::NotJson);
        }
        self.text.get(begin + 1..self.at - 1).map(Cow::Borrowed).ok_or(NotCanonical::NotJson)
    }
}

impl Node<'_> {
    fn write(&self, out: &mut Vec<u8>) -> Result<(), NotCanonical> {
        match self {
            Self::Literal(text) => out.extend_from_slice(text.as_bytes()),
            Self::Number(text) => decimal::write(text, out)?,
            Self::Text(text) => write_string(text, out),
            Self::Array(items) => {
                out.push(b'[');
                for (n, item) in items.iter().enumerate() {
                    if n > 0 {
                        out.push(b',');
                    }
                    item.write(out)?;
                }
                out.push(b']');
            }
            Self::Object(members) => {
                out.push(b'{');
                for (n, (name, value)) in members.iter().enumerate() {
                    if n > 0 {
                        out.push(b',');
                    }
                    write_string(name, out);
                    out.push(b':');
                    value.write(out)?;
                }
                out.push(b'}');
            }
        }
        Ok(())
    }
}

/// As RFC 8785 has it: the short escapes, `\u00xx` for other control characters, all else as it is.
fn write_string(text: &str, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    for &byte in text.as_bytes() {
        let short = match byte {
            b'"' | b'\\' => byte,
            0x08 => b'b',
            b'\t' => b't',
            b'\n' => b'n',
            0x0c => b'f',
            b'\r' => b'r',
            0..=0x1f => {
                out.extend_from_slice(b"\\u00");
                out.push(HEX[usize::from(byte >> 4)]);
                out.push(HEX[usize::from(byte & 15)]);
                continue;
            }
            _ => {
                out.push(byte);
                continue;
            }
        };
        out.push(b'\\');
        out.push(short);
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests;
