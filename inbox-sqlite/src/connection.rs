//! The store's one connection, opened with the settings its promises need.

use crate::{OpenError, SqliteOptions, guard::TxGuard, schema};
use rusqlite::{Connection, ErrorCode, MAIN_DB, OpenFlags};
use std::{
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicBool},
    thread,
    time::{Duration, Instant},
};

/// The first SQLite in which two connections that write and checkpoint cannot damage the log.
const SQLITE_VERSION_SAFE: i32 = 3_051_003;

/// The longest wait for a lock that SQLite can be asked for here.
pub(crate) const LOCK_TIMEOUT_MAX: Duration = Duration::from_secs(3600);

/// The pause between two tries to switch to write-ahead logging, for which SQLite does not wait itself.
const WAL_RETRY_PAUSE: Duration = Duration::from_millis(5);

/// Where the database is.
#[derive(Debug)]
pub(crate) enum Place {
    File(PathBuf),
    Memory,
}

/// What tells a file from another one that was put in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileIdentity {
    device: u64,
    inode: u64,
}

impl Place {
    /// The file that is there now; `None` in memory, and where the system has no such numbers.
    pub(crate) fn identity(&self) -> Option<FileIdentity> {
        let Self::File(path) = self else { return None };
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt as _;
            let found = std::fs::metadata(path).ok()?;
            Some(FileIdentity { device: found.dev(), inode: found.ino() })
        }
        #[cfg(not(unix))]
        {
            let _ = path;
            None
        }
    }

    /// A path that names a file, and nothing that SQLite would understand in another way.
    pub(crate) fn file(path: &Path) -> Result<Self, OpenError> {
        let special = path.as_os_str().is_empty()
            || path.to_str().is_some_and(|text| text.starts_with("file:") || text.starts_with(":memory:"));
        if special { Err(OpenError::NotAFile { path: path.into() }) } else { Ok(Self::File(path.into())) }
    }

    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::File(path) => path,
            Self::Memory => Path::new(":memory:"),
        }
    }
}

/// A connection and what its hooks tell.
pub(crate) struct Writer {
    pub(crate) connection: Connection,
    pub(crate) guard: Arc<TxGuard>,
}

impl Writer {
    /// Opens the database and brings its tables up to date.
    pub(crate) fn open(
        place: &Place,
        options: &SqliteOptions,
        create: bool,
        stop: &Arc<AtomicBool>,
    ) -> Result<Self, OpenError> {
        let failed = |source| OpenError::of(place.path().into(), source);
        let mut connection = match place {
            Place::Memory => Connection::open_in_memory().map_err(failed)?,
            Place::File(path) => open_file(path, create)?,
        };
        connection.busy_timeout(options.open_timeout.min(LOCK_TIMEOUT_MAX)).map_err(failed)?;
        if let Place::File(path) = place {
            if connection.is_readonly(MAIN_DB).map_err(failed)? {
                return Err(OpenError::ReadOnly { path: path.clone() });
            }
            use_wal(&connection, path, options.open_timeout)?;
        }
        configure(&connection, options).map_err(failed)?;
        connection.set_prepared_statement_cache_capacity(options.cached_statements);
        schema::migrate(&mut connection, &options.prefix, place.path())?;
        let guard = TxGuard::watch(&mut connection, stop).map_err(failed)?;
        Ok(Self { connection, guard })
    }

    /// Runs one of the short statements that open and end transactions.
    pub(crate) fn run(&self, sql: &str) -> rusqlite::Result<()> {
        self.connection.prepare_cached(sql)?.execute([]).map(drop)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // A connection that is closed inside a transaction is rolled back by SQLite, after rusqlite 0.43 has
        // already freed its hooks: the hook must not be called then.
        let _ = self.connection.rollback_hook(None::<fn()>);
    }
}

fn open_file(path: &Path, create: bool) -> Result<Connection, OpenError> {
    if let Some(directory) = path.parent()
        && !directory.as_os_str().is_empty()
        && !directory.is_dir()
    {
        return Err(OpenError::NoDirectory { path: path.into() });
    }
    // The connection never serves two threads at once, so SQLite's own mutex is not needed.
    let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    flags.set(OpenFlags::SQLITE_OPEN_CREATE, create);
    Connection::open_with_flags(path, flags).map_err(|source| OpenError::of(path.into(), source))
}

/// Switches to write-ahead logging, unless the file is there already.
fn use_wal(connection: &Connection, path: &Path, open_timeout: Duration) -> Result<(), OpenError> {
    let started = Instant::now();
    loop {
        match switch_to_wal(connection) {
            Ok(mode) if mode.eq_ignore_ascii_case("wal") => return Ok(()),
            Ok(mode) => return Err(OpenError::NoWal { path: path.into(), mode }),
            Err(source) if source.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => {
                if started.elapsed() >= open_timeout {
                    let waited_s = open_timeout.as_secs();
                    return Err(OpenError::Locked { path: path.into(), waited_s, source: source.into() });
                }
                thread::sleep(WAL_RETRY_PAUSE);
            }
            Err(source) => return Err(OpenError::of(path.into(), source)),
        }
    }
}

fn switch_to_wal(connection: &Connection) -> rusqlite::Result<String> {
    let mode: String = connection.query_row("PRAGMA journal_mode", [], |row| row.get(0))?;
    if mode.eq_ignore_ascii_case("wal") {
        return Ok(mode);
    }
    connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))
}

fn configure(connection: &Connection, options: &SqliteOptions) -> rusqlite::Result<()> {
    connection.pragma_update(None, "synchronous", options.synchronous.as_pragma())?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "journal_size_limit", options.journal_bytes_max)?;
    connection.pragma_update(None, "wal_autocheckpoint", options.checkpoint_pages)?;
    if cfg!(target_os = "macos") {
        // There, an ordinary fsync leaves the data in the drive's cache.
        connection.pragma_update(None, "fullfsync", true)?;
        connection.pragma_update(None, "checkpoint_fullfsync", true)?;
    }
    Ok(())
}

/// Warns about a SQLite that can damage the database.
pub(crate) fn warn_about_old_sqlite() {
    if rusqlite::version_number() < SQLITE_VERSION_SAFE {
        tracing::warn!(
            "SQLite {} can damage a database that two connections write and checkpoint at once; use 3.51.3 or newer",
            rusqlite::version()
        );
    }
}
