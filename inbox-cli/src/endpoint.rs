//! Where messages come from and go to, as `--from` and `--into` name it.

use crate::{error::CliError, redact::redact_url};
use inbox_core::Source;
use std::{
    fmt, io,
    path::{Path, PathBuf},
};

/// What `--from` names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// `file:PATH`: a JSON Lines file.
    File(PathBuf),
}

/// What `--into` names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// `sqlite:PATH`: a database file.
    Sqlite(PathBuf),
    /// `postgres://…`: a database on a server.
    #[cfg(feature = "postgres")]
    Postgres(PostgresUrl),
}

/// The URL of a PostgreSQL database, whose parts are checked. It is shown without its password.
#[cfg(feature = "postgres")]
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct PostgresUrl(String);

#[cfg(feature = "postgres")]
impl PostgresUrl {
    /// All of it, with the password.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(feature = "postgres")]
impl fmt::Debug for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&redact_url(&self.0))
    }
}

/// Why an endpoint cannot be used. Its text never holds a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EndpointError {
    /// There is no scheme.
    #[error("{option} {shown} has no scheme; write it as {example}")]
    NoScheme { option: &'static str, shown: String, example: String },
    /// The scheme is one that `inbox` knows, but not in this build.
    #[error("{option} {shown}: this build has no {scheme}; use {supported}")]
    NotBuilt { option: &'static str, shown: String, scheme: String, supported: &'static str },
    /// The scheme is unknown.
    #[error("{option} {shown}: unknown scheme {scheme}; use {supported}")]
    UnknownScheme { option: &'static str, shown: String, scheme: String, supported: &'static str },
    /// There is no path behind the scheme.
    #[error("{option} {shown} names no file; write it as {form}")]
    NoPath { option: &'static str, shown: String, form: &'static str },
    /// `scheme://host/path`.
    #[error("{option} {shown} names a host; only local files can be used: write it as {form}")]
    Host { option: &'static str, shown: String, form: &'static str },
    /// `sqlite::memory:`.
    #[error("{option} {shown}: a database in memory is gone when the command ends; name a file")]
    InMemory { option: &'static str, shown: String },
    /// `sqlite:file:…`: SQLite's own kind of URI, whose parameters could ask for anything.
    #[error("{option} {shown}: a URI of SQLite's is not understood; name the file itself, as {form}")]
    SqliteUri { option: &'static str, shown: String, form: &'static str },
    /// `postgres:…` without a place.
    #[cfg(feature = "postgres")]
    #[error("{option}: write it as {POSTGRES_FORM}")]
    NoServer { option: &'static str },
    /// The URL of a database on a server, with something wrong in it.
    #[cfg(feature = "postgres")]
    #[error("{option} {shown}: {why}")]
    Postgres { option: &'static str, shown: String, why: String },
}

#[cfg(feature = "postgres")]
const POSTGRES_FORM: &str = "postgres://USER@HOST:PORT/DATABASE";

/// The schemes of PostgreSQL.
const POSTGRES: [&str; 2] = ["postgres", "postgresql"];

/// One side of a run: what it may be.
struct Side {
    option: &'static str,
    /// Everything that it may be.
    supported: &'static str,
    /// How a file is written.
    form: &'static str,
    scheme: &'static str,
    not_built: &'static [&'static str],
}

const FROM: Side = Side {
    option: "--from",
    supported: "file:PATH",
    form: "file:PATH",
    scheme: "file",
    not_built: &["kafka", "amqp", "amqps", "redis", "rediss"],
};

const INTO: Side = Side {
    option: "--into",
    supported: if cfg!(feature = "postgres") { "sqlite:PATH or postgres://…" } else { "sqlite:PATH" },
    form: "sqlite:PATH",
    scheme: "sqlite",
    not_built: if cfg!(feature = "postgres") { &[] } else { &POSTGRES },
};

impl Side {
    fn path<'a>(&self, url: &'a str) -> Result<&'a str, EndpointError> {
        let &Self { option, supported, form, scheme, not_built } = self;
        let shown = redact_url(url);
        let Some((found, rest)) = url.split_once(':').filter(|(found, _)| is_scheme(found)) else {
            let example = if url.is_empty() { form.to_owned() } else { format!("{scheme}:{shown}") };
            let shown = if url.is_empty() { "\"\"".to_owned() } else { shown };
            return Err(EndpointError::NoScheme { option, shown, example });
        };
        let found = found.to_ascii_lowercase();
        if not_built.contains(&found.as_str()) {
            return Err(EndpointError::NotBuilt { option, shown, scheme: found, supported });
        }
        if found != scheme {
            return Err(EndpointError::UnknownScheme { option, shown, scheme: found, supported });
        }
        // `file:///data/x` is the long form of `file:/data/x`.
        let path = match rest.strip_prefix("//") {
            Some(path) if path.is_empty() || path.starts_with('/') => path,
            Some(_) => return Err(EndpointError::Host { option, shown, form }),
            None => rest,
        };
        if path.is_empty() {
            return Err(EndpointError::NoPath { option, shown, form });
        }
        Ok(path)
    }
}

/// A scheme has two letters at least, so that `C:\orders.jsonl` is not taken for one.
fn is_scheme(text: &str) -> bool {
    text.len() > 1
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
}

impl Origin {
    /// Reads the value of `--from`.
    pub(crate) fn parse(url: &str) -> Result<Self, EndpointError> {
        FROM.path(url).map(|path| Self::File(path.into()))
    }

    /// The name under which progress is kept: the same however the path is written, and also when the
    /// file itself is gone.
    pub(crate) fn source(&self) -> Result<Source, CliError> {
        let Self::File(path) = self;
        let doing = || CliError::usage(format!("finding --from {self}"));
        let whole = absolute(path).map_err(|error| doing().caused_by(&error).hint("check the path"))?;
        match whole.to_str() {
            Some(text) => Ok(Source::new(format!("file:{text}"))),
            None => Err(doing().hint("its whole path is not UTF-8: rename its folder, or copy the file")),
        }
    }

    /// Whether its messages can have headers.
    pub(crate) fn has_headers(&self) -> bool {
        match self {
            Self::File(_) => false,
        }
    }
}

/// The path without links and dots; of a file that is gone, its folder's.
fn absolute(path: &Path) -> io::Result<PathBuf> {
    match (path.canonicalize(), path.file_name()) {
        (Err(error), Some(name)) if error.kind() == io::ErrorKind::NotFound => {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            Ok(folder.unwrap_or(Path::new(".")).canonicalize()?.join(name))
        }
        (found, _) => found,
    }
}

impl Target {
    /// Reads the value of `--into`.
    pub(crate) fn parse(url: &str) -> Result<Self, EndpointError> {
        #[cfg(feature = "postgres")]
        if let Some((scheme, rest)) = url.split_once(':') {
            let scheme = scheme.to_ascii_lowercase();
            if POSTGRES.contains(&scheme.as_str()) {
                return Self::postgres(format!("{scheme}:{rest}"), rest);
            }
        }
        let path = INTO.path(url)?;
        let Side { option, form, .. } = INTO;
        if path.starts_with(":memory:") || (path.starts_with("file:") && path.contains("mode=memory")) {
            return Err(EndpointError::InMemory { option, shown: redact_url(url) });
        }
        if path.starts_with("file:") {
            return Err(EndpointError::SqliteUri { option, shown: redact_url(url), form });
        }
        Ok(Self::Sqlite(path.into()))
    }

    #[cfg(feature = "postgres")]
    fn postgres(url: String, rest: &str) -> Result<Self, EndpointError> {
        let option = INTO.option;
        if !rest.starts_with("//") {
            // Nothing of it is shown: where its password is, nobody knows.
            return Err(EndpointError::NoServer { option });
        }
        match inbox_postgres::PostgresStore::options(&url) {
            Ok(_) => Ok(Self::Postgres(PostgresUrl(url))),
            Err(error) => {
                Err(EndpointError::Postgres { option, shown: redact_url(&url), why: error.to_string() })
            }
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "file:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_taken_as_they_are() {
        for (url, path) in [
            ("file:orders.jsonl", "orders.jsonl"),
            ("file:/data/a b:c.jsonl", "/data/a b:c.jsonl"),
            ("file:///data/x", "/data/x"),
            ("FILE:./x?y", "./x?y"),
        ] {
            assert_eq!(Origin::parse(url).unwrap(), Origin::File(path.into()), "{url}");
        }
        assert_eq!(Target::parse("sqlite:shop.db").unwrap(), Target::Sqlite("shop.db".into()));
    }

    #[test]
    fn refusals_say_what_to_write() {
        let from = |url: &str| Origin::parse(url).unwrap_err().to_string();
        assert_eq!(from("orders.jsonl"), "--from orders.jsonl has no scheme; write it as file:orders.jsonl");
        assert_eq!(from(""), "--from \"\" has no scheme; write it as file:PATH");
        assert_eq!(from("file:"), "--from file: names no file; write it as file:PATH");
        assert_eq!(from("file://"), "--from file:// names no file; write it as file:PATH");
        assert_eq!(from("ftp:x"), "--from ftp:x: unknown scheme ftp; use file:PATH");
        assert!(from("file://host/x").contains("names a host"));
        assert!(from(r"C:\orders.jsonl").contains("has no scheme"));
        assert!(Target::parse("sqlite::memory:").unwrap_err().to_string().contains("in memory"));
    }

    #[test]
    fn the_source_is_the_same_however_the_path_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let source = |path: &Path| Origin::File(path.into()).source().unwrap();
        let file = folder.path().join("orders.jsonl");
        let gone = source(&file);
        std::fs::write(&file, "").unwrap();
        assert_eq!(source(&file), gone);
        assert_eq!(source(&folder.path().join(".").join("orders.jsonl")), gone);
        assert!(gone.as_str().starts_with("file:/") && gone.as_str().ends_with("/orders.jsonl"));
        assert!(Origin::File(folder.path().join("no/orders.jsonl")).source().is_err());
    }

    #[cfg(not(feature = "postgres"))]
    #[test]
    fn a_refusal_does_not_print_the_password() {
        let refused = Target::parse("postgres://bob:secret@db/shop").unwrap_err().to_string();
        assert_eq!(refused, "--into postgres://bob:***@db/shop: this build has no postgres; use sqlite:PATH");
    }

    #[cfg(feature = "postgres")]
    #[test]
    fn urls_of_servers_are_checked_and_never_told_with_their_password() {
        for url in ["postgres://bob:s3@db:1/shop?application_name=a", "postgresql://db/shop"] {
            let target = Target::parse(url).unwrap();
            assert!(!format!("{target:?}").contains("s3"), "{target:?}");
        }
        for (url, told) in [
            ("postgres:bob:s3@db/shop", "write it as postgres://USER"),
            ("postgres://bob:s3 x@db/shop?colour=red", "***@db/shop?colour=red: the URL of the PostgreSQL"),
            ("postgres://bob:12/s3@db/shop", "in a password write / as %2F"),
            ("postgresql://bob:s3@db:x/shop", "cannot be read"),
        ] {
            let refused = Target::parse(url).unwrap_err();
            assert!(refused.to_string().contains(told), "{refused}");
            assert!(!format!("{refused} {refused:?}").contains("s3"), "{refused:?}");
        }
    }
}
