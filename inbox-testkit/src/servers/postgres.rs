//! PostgreSQL: a private cluster, or a server that exists.

use super::{
    ports::free_port,
    process::{LOOK_PAUSE, RunAs, ServerProcess},
};
use rustix::process::Signal;
use std::{
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// The variable that points a run at a server that exists: the URL of one of its databases, as a user who
/// may create databases.
const URL_VARIABLE: &str = "INBOX_TEST_POSTGRES_URL";

const MISSING: &str = "PostgreSQL's programs are missing: run 'apt-get install postgresql' (or your system's \
     way), or set INBOX_TEST_POSTGRES_URL to the URL of a server on which databases may be created";

/// How long a server may take until it answers.
const START_MAX: Duration = Duration::from_secs(60);

/// A PostgreSQL server. Clones are handles on the same one, which ends with the last of them.
#[derive(Debug, Clone)]
pub struct PostgresServer(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// Of the maintenance database.
    url: String,
    programs: PathBuf,
    /// Absent when the server is somebody else's.
    own: Option<Own>,
}

#[derive(Debug)]
struct Own {
    port: u16,
    process: Mutex<ServerProcess>,
}

impl PostgresServer {
    /// The one server of this test program, started by whoever comes first.
    ///
    /// # Panics
    /// When there is none, with what to install.
    pub fn shared() -> Self {
        static SHARED: OnceLock<PostgresServer> = OnceLock::new();
        SHARED
            .get_or_init(|| match std::env::var(URL_VARIABLE) {
                Ok(url) => Self::existing(url),
                Err(_) => Self::start(),
            })
            .clone()
    }

    /// A server that is somebody else's, by the URL of one of its databases.
    ///
    /// # Panics
    /// When it does not answer.
    pub fn existing(url: String) -> Self {
        let server = Self(Arc::new(Inner { url, programs: programs().unwrap_or_default(), own: None }));
        server.query("SELECT 1");
        server
    }

    /// A private server with these settings beside the usual ones, such as `fsync=off`.
    ///
    /// # Panics
    /// When its programs are missing, or it does not start.
    pub fn start_with(settings: &[&str]) -> Self {
        let programs = programs().unwrap_or_else(|| panic!("{MISSING}"));
        let port = free_port();
        let mut process = ServerProcess::new("postgres", RunAs::instead_of_root("postgres"));
        let data = process.folder().join("data");
        let mut initdb = process.command(&programs.join("initdb"));
        initdb.args([
            "--username=postgres",
            "--auth=trust",
            "--encoding=UTF8",
            "--locale=C",
            "--no-sync",
            "-D",
        ]);
        let made = initdb.arg(&data).output();
        let made = made.unwrap_or_else(|error| panic!("running initdb: {error}"));
        assert!(made.status.success(), "initdb failed: {}", String::from_utf8_lossy(&made.stderr));
        let mut configuration = format!(
            "listen_addresses = '127.0.0.1'\nport = {port}\nunix_socket_directories = ''\nmax_connections = 200\n\
             fsync = on\nlog_line_prefix = '%m [%p] %d %a '\nautovacuum_naptime = 10\n"
        );
        for setting in settings {
            configuration.push_str(setting);
            configuration.push('\n');
        }
        // Where the last word counts, it is this file's.
        let file = data.join("postgresql.auto.conf");
        std::fs::write(&file, configuration).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        launch(&mut process, &programs, port);
        let url = format!("postgres://postgres@127.0.0.1:{port}/postgres");
        let own = Some(Own { port, process: Mutex::new(process) });
        Self(Arc::new(Inner { url, programs, own }))
    }

    /// A private server.
    ///
    /// # Panics
    /// As [`start_with`](PostgresServer::start_with).
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// The URL of the maintenance database.
    pub fn url(&self) -> &str {
        &self.0.url
    }

    /// The URL of a database by its name.
    pub fn url_of(&self, database: &str) -> String {
        let url = self.url();
        let (before, options) = url.split_once('?').map_or((url, None), |(b, o)| (b, Some(o)));
        let host_end = before.find("://").map_or(0, |at| at + 3);
        let path = before[host_end..].find('/').map_or(before.len(), |at| host_end + at);
        let options = options.map(|options| format!("?{options}")).unwrap_or_default();
        format!("{}/{database}{options}", &before[..path])
    }

    /// The port on 127.0.0.1 where the server listens.
    ///
    /// # Panics
    /// When the server is somebody else's.
    pub fn port(&self) -> u16 {
        self.own("asked for its port").port
    }

    /// A fresh database, which is removed with the value.
    ///
    /// # Panics
    /// When it cannot be made.
    pub fn database(&self) -> TestDatabase {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("inbox_test_{}_{number}", std::process::id());
        // Template 0 has nothing of anybody's in it, and nobody is ever connected to it.
        self.query(&format!(
            "CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C'"
        ));
        TestDatabase { url: self.url_of(&name), name, server: self.clone() }
    }

    /// Runs statements by `psql` in the maintenance database and gives the rows, one a line, unaligned.
    ///
    /// # Panics
    /// When they fail.
    pub fn query(&self, sql: &str) -> String {
        self.query_in(self.url(), sql)
    }

    fn query_in(&self, url: &str, sql: &str) -> String {
        let answer = self.psql(url, sql);
        assert!(answer.status.success(), "psql: {}", String::from_utf8_lossy(&answer.stderr).trim());
        String::from_utf8_lossy(&answer.stdout).trim_end().to_owned()
    }

    fn psql(&self, url: &str, sql: &str) -> Output {
        let mut psql = Command::new(self.0.programs.join("psql"));
        psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", sql, url]);
        psql.output().unwrap_or_else(|error| panic!("running psql: {error}; {MISSING}"))
    }

    /// Ends all connections to a database from the server's side.
    ///
    /// # Panics
    /// When that is refused.
    pub fn cut_connections(&self, database: &str) {
        self.query(&format!(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{database}' AND pid <> pg_backend_pid()"
        ));
    }

    /// Kills the server and all its processes, as `kill -9` does.
    ///
    /// # Panics
    /// When the server is somebody else's.
    pub fn kill(&self) {
        self.process("killed").kill();
    }

    /// Stops all its processes where they are: connections stay open, and nobody answers.
    ///
    /// # Panics
    /// When the server is somebody else's.
    pub fn pause(&self) {
        self.process("paused").pause();
    }

    /// Lets a paused server go on.
    ///
    /// # Panics
    /// When the server is somebody else's.
    pub fn resume(&self) {
        self.process("resumed").resume();
    }

    /// Ends the server in order; its clients are disconnected.
    ///
    /// # Panics
    /// When the server is somebody else's.
    pub fn stop(&self) {
        self.process("stopped").end(Signal::INT);
    }

    /// Starts the server again on the same data and the same port, after it was stopped or killed.
    ///
    /// # Panics
    /// When the server is somebody else's, or does not start.
    pub fn start_again(&self) {
        let own = self.own("started again");
        launch(&mut self.process("started again"), &self.0.programs, own.port);
    }

    fn own(&self, what: &str) -> &Own {
        self.0.own.as_ref().unwrap_or_else(|| {
            panic!("the server of {URL_VARIABLE} cannot be {what} by a test: unset it for this test")
        })
    }

    fn process(&self, what: &str) -> MutexGuard<'_, ServerProcess> {
        self.own(what).process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A database of its own for a test, removed when dropped.
#[derive(Debug)]
pub struct TestDatabase {
    server: PostgresServer,
    name: String,
    url: String,
}

impl TestDatabase {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its URL with another host and port, those of a proxy.
    pub fn url_through(&self, host_and_port: &str) -> String {
        let (scheme, rest) = self.url.split_once("://").unwrap_or(("postgres", &self.url));
        let (place, database) = rest.split_once('/').unwrap_or((rest, ""));
        let user = place.rsplit_once('@').map(|(user, _)| format!("{user}@")).unwrap_or_default();
        format!("{scheme}://{user}{host_and_port}/{database}")
    }

    /// Its server.
    pub fn server(&self) -> &PostgresServer {
        &self.server
    }

    /// Runs statements by `psql` and gives the rows, one a line, columns separated by `|`.
    ///
    /// # Panics
    /// When they fail.
    pub fn query(&self, sql: &str) -> String {
        self.server.query_in(&self.url, sql)
    }

    /// Ends all connections to it from the server's side.
    ///
    /// # Panics
    /// When that is refused.
    pub fn cut_connections(&self) {
        self.server.cut_connections(&self.name);
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        // A server that was killed has taken it along.
        let _gone = self
            .server
            .psql(self.server.url(), &format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name));
    }
}

/// Starts the server and waits until it takes connections.
fn launch(process: &mut ServerProcess, programs: &Path, port: u16) {
    let mut server = process.command(&programs.join("postgres"));
    server.arg("-D").arg(process.folder().join("data"));
    process.start(server);
    let started = Instant::now();
    let url = format!("postgres://postgres@127.0.0.1:{port}/postgres");
    while TcpStream::connect(("127.0.0.1", port)).is_err() || !answers(programs, &url) {
        let waits = process.is_running() && started.elapsed() < START_MAX;
        assert!(waits, "PostgreSQL did not start; the end of its log:\n{}", process.log_end());
        thread::sleep(LOOK_PAUSE);
    }
}

fn answers(programs: &Path, url: &str) -> bool {
    let ready = Command::new(programs.join("pg_isready")).args(["-q", "-d", url]).status();
    ready.is_ok_and(|status| status.success())
}

/// The folder of PostgreSQL's programs: the newest of Debian's, or the one on the path.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut versions: Vec<(u32, PathBuf)> = versions
        .filter_map(|version| {
            let number = version.file_name().to_str()?.parse().ok()?;
            Some((number, version.path().join("bin")))
        })
        .filter(|(_, programs)| is_complete(programs))
        .collect();
    versions.sort();
    let on_path = || {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path).find(|folder| is_complete(folder))
    };
    versions.pop().map(|(_, programs)| programs).or_else(on_path)
}

fn is_complete(programs: &Path) -> bool {
    ["initdb", "postgres", "psql", "pg_isready"].iter().all(|program| programs.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_databases_keep_user_and_options() {
        for (url, expected) in [
            ("postgres://u:p@h:1/db?sslmode=disable", "postgres://u:p@h:1/x?sslmode=disable"),
            ("postgres://h", "postgres://h/x"),
        ] {
            let inner = Inner { url: url.to_owned(), programs: PathBuf::new(), own: None };
            assert_eq!(PostgresServer(Arc::new(inner)).url_of("x"), expected);
        }
    }
}
