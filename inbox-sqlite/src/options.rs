//! How a store is opened.

use crate::{OpenError, SqliteStore, schema};
use std::{path::Path, time::Duration};

/// How surely a commit survives a loss of power.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Synchronous {
    /// Every commit waits until the disk has it. The default, because the broker is told to forget a
    /// message right after the commit.
    #[default]
    Full,
    /// The disk is only waited for at checkpoints: faster, but **the last commits can be gone after a
    /// loss of power or a crash of the operating system, although their messages were acknowledged**.
    /// A crash of the program alone loses nothing. For data that can be fetched again.
    Normal,
}

impl Synchronous {
    pub(crate) fn as_pragma(self) -> &'static str {
        match self {
            Self::Full => "FULL",
            Self::Normal => "NORMAL",
        }
    }
}

/// Settings of a [`SqliteStore`]; begin with [`SqliteStore::options`].
#[derive(Debug, Clone)]
#[must_use = "options do nothing until a store is opened with them"]
pub struct SqliteOptions {
    pub(crate) prefix: String,
    pub(crate) synchronous: Synchronous,
    pub(crate) create: bool,
    pub(crate) open_timeout: Duration,
    pub(crate) journal_bytes_max: i64,
    pub(crate) checkpoint_pages: u32,
    pub(crate) cached_statements: usize,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self {
            prefix: "inbox_".into(),
            synchronous: Synchronous::Full,
            create: true,
            open_timeout: Duration::from_secs(10),
            journal_bytes_max: 64 << 20,
            checkpoint_pages: 1000,
            cached_statements: 64,
        }
    }
}

impl SqliteOptions {
    /// What the names of the store's tables begin with: 1 to 31 of `a-z`, `0-9` and `_`, the first one no
    /// digit. `inbox_` by default.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// How surely a commit survives a loss of power. [`Synchronous::Full`] by default.
    pub fn synchronous(mut self, synchronous: Synchronous) -> Self {
        self.synchronous = synchronous;
        self
    }

    /// Whether a file that does not exist is created. It is by default.
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// How long opening waits for other processes that have the file locked. 10 s by default.
    pub fn open_timeout(mut self, open_timeout: Duration) -> Self {
        self.open_timeout = open_timeout;
        self
    }

    /// The size to which the write-ahead log is cut back after it has grown, in bytes. 64 MiB by default.
    pub fn journal_bytes_max(mut self, bytes: u32) -> Self {
        self.journal_bytes_max = i64::from(bytes);
        self
    }

    /// After how many pages in the write-ahead log a commit moves them into the file; 0 leaves that to
    /// others. 1000 by default.
    pub fn checkpoint_pages(mut self, pages: u32) -> Self {
        self.checkpoint_pages = pages;
        self
    }

    /// How many prepared statements the connection keeps, the handlers' `prepare_cached` included. 64 by
    /// default.
    pub fn cached_statements(mut self, count: usize) -> Self {
        self.cached_statements = count;
        self
    }

    /// Opens the database at `path` and brings the store's tables up to date. Blocks for the time that
    /// takes.
    ///
    /// # Errors
    /// [`OpenError`], which names the file.
    pub fn open(self, path: impl AsRef<Path>) -> Result<SqliteStore, OpenError> {
        SqliteStore::open_file(self, path.as_ref())
    }

    /// Opens a database in memory. It is gone when the store is dropped, or when its connection is lost.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open_in_memory(self) -> Result<SqliteStore, OpenError> {
        SqliteStore::open_memory(self)
    }

    /// The statements that make the store's tables, for those who run their migrations themselves.
    ///
    /// # Errors
    /// [`OpenError::Prefix`].
    pub fn schema_sql(&self) -> Result<String, OpenError> {
        schema::check_prefix(&self.prefix)?;
        Ok(schema::script(&self.prefix))
    }
}
