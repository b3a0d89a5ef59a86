//! What PostgreSQL's `jsonb` does not take, though it is JSON.

/// Looks for what a string of `jsonb` cannot hold, in a text that is known to be JSON.
pub(crate) fn check_strings(json: &str) -> Result<(), &'static str> {
    let half = "a string in it has half of a surrogate pair";
    let mut rest = json;
    while let Some(at) = rest.find('\\') {
        // A backslash stands in strings only, and something comes behind it.
        rest = rest.get(at + 1..).unwrap_or_default();
        match escape(rest) {
            Some(0) => return Err("a string in it has a NUL (\\u0000), which jsonb cannot hold"),
            Some(0xD800..=0xDBFF) => {
                let low = rest.get(5..).and_then(|rest| rest.strip_prefix('\\')).and_then(escape);
                if !matches!(low, Some(0xDC00..=0xDFFF)) {
                    return Err(half);
                }
                rest = rest.get(11..).unwrap_or_default();
            }
            Some(0xDC00..=0xDFFF) => return Err(half),
            // The character behind it may be a backslash, and begins nothing then.
            _ => rest = rest.get(rest.chars().next().map_or(0, char::len_utf8)..).unwrap_or_default(),
        }
    }
    Ok(())
}

/// The number of `u0041`, at the start.
fn escape(text: &str) -> Option<u32> {
    u32::from_str_radix(text.strip_prefix('u')?.get(..4)?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::check_strings;

    #[test]
    fn strings_that_jsonb_cannot_hold_are_found() {
        for json in [
            r#"{"a":"x\u0000"}"#,
            r#"{"\u0000":1}"#,
            r#"["\\\u0000"]"#,
            r#""\ud800""#,
            r#""\udc00""#,
            r#""\ud83d\n""#,
        ] {
            assert!(check_strings(json).is_err(), "{json}");
        }
        for json in
            [r#""\\u0000""#, r#""\ud83e\udd80 \u00e9""#, r#"["\"","\\\\u0000"]"#, r#""é\n🦀""#, "1e400"]
        {
            assert!(check_strings(json).is_ok(), "{json}");
        }
    }
}
