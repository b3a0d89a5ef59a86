//! PostgreSQL: a private cluster, or a server that exists.

use super::{
    process::{RunAs, ServerProcess},
    server::{Kind, Server, error_of, on_path, output_of},
};
use rustix::process::Signal;
use std::{
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
};

const MISSING: &str = "PostgreSQL's programs are missing: run 'apt-get install postgresql' (or your system's \
     way), or set INBOX_TEST_POSTGRES_URL to the URL of a server on which databases may be created";

const PROGRAMS: [&str; 4] = ["initdb", "postgres", "psql", "pg_isready"];

/// A PostgreSQL server: [`shared`](Server::shared), or private. `INBOX_TEST_POSTGRES_URL` points the shared one at a
/// server that exists: the URL of one of its databases, as a user who may create databases.
pub type PostgresServer = Server<Postgres>;

/// The kind of a [`PostgresServer`].
#[derive(Debug)]
pub struct Postgres {
    programs: PathBuf,
    /// Beside the usual ones.
    settings: Vec<String>,
}

impl Kind for Postgres {
    const NAME: &'static str = "PostgreSQL";
    const VARIABLE: &'static str = "INBOX_TEST_POSTGRES_URL";
    const END: Signal = Signal::INT;

    fn place() -> &'static OnceLock<Server<Self>> {
        static SHARED: OnceLock<PostgresServer> = OnceLock::new();
        &SHARED
    }

    fn of_somebody_else() -> Self {
        Self { programs: programs().unwrap_or_default(), settings: Vec::new() }
    }

    fn private() -> Self {
        Self { programs: programs().unwrap_or_else(|| panic!("{MISSING}")), settings: Vec::new() }
    }

    fn prepare(&self, port: u16) -> (ServerProcess, String, Command) {
        let process = ServerProcess::new("postgres", RunAs::instead_of_root("postgres"));
        let data = process.folder().join("data");
        let mut initdb = process.command(&self.programs.join("initdb"));
        initdb.args([
            "--username=postgres",
            "--auth=trust",
            "--encoding=UTF8",
            "--locale=C",
            "--no-sync",
            "-D",
        ]);
        initdb.arg(&data);
        output_of(initdb, "initdb", MISSING);
        let mut configuration = format!(
            "listen_addresses = '127.0.0.1'\nport = {port}\nunix_socket_directories = ''\nmax_connections = 200\n\
             fsync = on\nlog_line_prefix = '%m [%p] %d %a '\nautovacuum_naptime = 10\n"
        );
        for setting in &self.settings {
            configuration.push_str(setting);
            configuration.push('\n');
        }
        // Where the last word counts, it is this file's.
        let file = data.join("postgresql.auto.conf");
        std::fs::write(&file, configuration).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let mut server = process.command(&self.programs.join("postgres"));
        server.arg("-D").arg(data);
        (process, url_on(port), server)
    }

    fn is_ready(&self, port: u16, _process: &ServerProcess) -> bool {
        let ask = || {
            let mut ready = Command::new(self.programs.join("pg_isready"));
            ready.args(["-q", "-d", &url_on(port)]).status().is_ok_and(|status| status.success())
        };
        TcpStream::connect(("127.0.0.1", port)).is_ok() && ask()
    }

    fn greet(&self, address: &str) -> Result<(), String> {
        let asked = self.psql(address, "SELECT 1");
        if asked.status.success() { Ok(()) } else { Err(error_of(&asked)) }
    }
}

impl Postgres {
    fn psql(&self, url: &str, sql: &str) -> Output {
        let mut psql = Command::new(self.programs.join("psql"));
        psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", sql, url]);
        psql.output().unwrap_or_else(|error| panic!("running psql: {error}; {MISSING}"))
    }
}

fn url_on(port: u16) -> String {
    format!("postgres://postgres@127.0.0.1:{port}/postgres")
}

impl PostgresServer {
    /// A private server with these settings beside the usual ones, such as `fsync=off`.
    ///
    /// # Panics
    /// As [`start`](Server::start).
    pub fn start_with(settings: &[&str]) -> Self {
        let settings = settings.iter().map(|&setting| setting.to_owned()).collect();
        Self::start_kind(Postgres { settings, ..Postgres::private() })
    }

    /// The URL of the maintenance database.
    pub fn url(&self) -> &str {
        self.address()
    }

    /// The URL of a database by its name.
    pub fn url_of(&self, database: &str) -> String {
        with_database(self.url(), database)
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
        let answer = self.kind().psql(url, sql);
        assert!(answer.status.success(), "psql: {}", error_of(&answer));
        String::from_utf8_lossy(&answer.stdout).trim_end().to_owned()
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
            .kind()
            .psql(self.server.url(), &format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name));
    }
}

/// The URL of another database of the same server.
fn with_database(url: &str, database: &str) -> String {
    let (before, options) = url.split_once('?').map_or((url, None), |(b, o)| (b, Some(o)));
    let host_end = before.find("://").map_or(0, |at| at + 3);
    let path = before[host_end..].find('/').map_or(before.len(), |at| host_end + at);
    let options = options.map(|options| format!("?{options}")).unwrap_or_default();
    format!("{}/{database}{options}", &before[..path])
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
    versions.pop().map(|(_, programs)| programs).or_else(|| on_path(&PROGRAMS))
}

fn is_complete(programs: &Path) -> bool {
    PROGRAMS.iter().all(|program| programs.join(program).is_file())
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
            assert_eq!(with_database(url, "x"), expected);
        }
    }
}
