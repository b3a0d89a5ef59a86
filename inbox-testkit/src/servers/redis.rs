//! Redis: a private server, or one that exists.

use super::{
    process::ServerProcess,
    server::{Kind, Server, error_of, on_path, output_of},
};
use rustix::process::Signal;
use std::{
    path::PathBuf,
    process::{Command, Stdio},
    sync::OnceLock,
};

const MISSING: &str = "Redis is missing: run 'apt-get install redis-server redis-tools' (or your system's way), or set \
     INBOX_TEST_REDIS_URL to the URL of a server";

/// A Redis server: [`shared`](Server::shared) (or the one of `INBOX_TEST_REDIS_URL`), or private. A private one
/// writes each command to its disk before it answers.
pub type RedisServer = Server<Redis>;

/// The kind of a [`RedisServer`].
#[derive(Debug)]
pub struct Redis {
    programs: PathBuf,
}

impl Kind for Redis {
    const NAME: &'static str = "Redis";
    const VARIABLE: &'static str = "INBOX_TEST_REDIS_URL";
    const END: Signal = Signal::TERM;

    fn place() -> &'static OnceLock<Server<Self>> {
        static SHARED: OnceLock<RedisServer> = OnceLock::new();
        &SHARED
    }

    fn of_somebody_else() -> Self {
        Self { programs: on_path(&["redis-cli"]).unwrap_or_else(|| panic!("{MISSING}")) }
    }

    fn private() -> Self {
        Self { programs: on_path(&["redis-server", "redis-cli"]).unwrap_or_else(|| panic!("{MISSING}")) }
    }

    fn prepare(&self, port: u16) -> (ServerProcess, String, Command) {
        let process = ServerProcess::new("redis", None);
        let mut server = process.command(&self.programs.join("redis-server"));
        server.args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--dir"]).arg(process.folder());
        // What was answered is there after a kill; snapshots would only repeat it.
        server.args(["--appendonly", "yes", "--appendfsync", "always", "--save", ""]);
        (process, format!("redis://127.0.0.1:{port}/"), server)
    }

    fn is_ready(&self, port: u16, _process: &ServerProcess) -> bool {
        self.greet(&format!("redis://127.0.0.1:{port}/")).is_ok()
    }

    fn greet(&self, address: &str) -> Result<(), String> {
        let asked = self.client(address).arg("PING").output();
        let asked = asked.map_err(|error| format!("running redis-cli: {error}; {MISSING}"))?;
        // While it still reads its data, it answers with an error.
        if asked.stdout.starts_with(b"PONG") { Ok(()) } else { Err(error_of(&asked)) }
    }
}

impl Redis {
    fn client(&self, url: &str) -> Command {
        let mut client = Command::new(self.programs.join("redis-cli"));
        client.stdin(Stdio::null()).args(["--no-auth-warning", "-e", "-u", url]);
        client
    }
}

impl RedisServer {
    /// Its URL.
    pub fn url(&self) -> &str {
        self.address()
    }

    /// Runs one command by `redis-cli` and gives the answer, an element of an array a line.
    ///
    /// # Panics
    /// When it fails.
    pub fn query(&self, command: &[&str]) -> String {
        let mut client = self.kind().client(self.url());
        client.args(command);
        output_of(client, "redis-cli", MISSING)
    }
}
