//! Keeps passwords out of what is printed.

const HIDDEN: &str = "***";

/// Hides the password of every URL in `text`: `user:password@` and values of parameters whose name
/// speaks of a secret. It rather hides too much: a password may hold any character that ends an
/// authority when it is written unescaped.
pub(crate) fn redact(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, url) = rest.split_at(at + 3);
        out.push_str(before);
        let end = url.find(|c: char| c.is_whitespace() || matches!(c, '\'' | '"')).unwrap_or(url.len());
        let (url, after) = url.split_at(end);
        push_url(&mut out, url);
        rest = after;
    }
    out.push_str(rest);
    out
}

/// Hides the password of a text that is one URL as a whole: what ends a URL elsewhere belongs to it here.
pub(crate) fn redact_url(url: &str) -> String {
    let Some(at) = url.find("://") else { return url.to_owned() };
    let (scheme, rest) = url.split_at(at + 3);
    let mut out = scheme.to_owned();
    push_url(&mut out, rest);
    out
}

fn push_url(out: &mut String, url: &str) {
    let rest = match url.rsplit_once('@') {
        Some((user, rest)) => {
            match user.split_once(':') {
                Some((name, _)) => {
                    out.push_str(name);
                    out.push(':');
                    out.push_str(HIDDEN);
                }
                None => out.push_str(user),
            }
            out.push('@');
            rest
        }
        None => url,
    };
    let Some((path, query)) = rest.split_once('?') else {
        out.push_str(rest);
        return;
    };
    out.push_str(path);
    for (n, pair) in query.split('&').enumerate() {
        out.push(if n == 0 { '?' } else { '&' });
        match pair.split_once('=') {
            Some((name, _)) if is_secret(name) => {
                out.push_str(name);
                out.push('=');
                out.push_str(HIDDEN);
            }
            _ => out.push_str(pair),
        }
    }
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["pass", "pwd", "secret", "token", "key"].iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::{redact, redact_url};

    #[test]
    fn a_password_with_a_space_is_hidden_in_a_url() {
        assert_eq!(redact_url("postgres://bob:se cr'et@db/shop"), "postgres://bob:***@db/shop");
        assert_eq!(redact_url("file:a b"), "file:a b");
    }

    #[test]
    fn passwords_are_hidden_and_the_rest_is_kept() {
        for (text, shown) in [
            ("postgres://bob:secret@db/shop", "postgres://bob:***@db/shop"),
            ("amqp://bob:a/b#c@d@host/%2f", "amqp://bob:***@host/%2f"),
            ("'redis://:pw@h' and kafka://h/t", "'redis://:***@h' and kafka://h/t"),
            ("postgres://bob@db/shop?sslmode=on", "postgres://bob@db/shop?sslmode=on"),
            ("kafka://h/t?user=u&Sasl.Password=x&a=b", "kafka://h/t?user=u&Sasl.Password=***&a=b"),
            ("file:///data/orders.jsonl", "file:///data/orders.jsonl"),
            ("no url", "no url"),
        ] {
            assert_eq!(redact(text), shown);
        }
    }
}
