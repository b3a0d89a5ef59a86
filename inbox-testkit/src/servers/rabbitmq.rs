//! RabbitMQ: a private node, or a server that exists.

use super::{
    ports::free_port,
    process::ServerProcess,
    server::{Kind, Server, on_path, output_of},
};
use rustix::process::Signal;
use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
    time::Duration,
};

const MISSING: &str = "RabbitMQ is missing: run 'apt-get install rabbitmq-server' (or your system's way), or set \
     INBOX_TEST_RABBITMQ_URL to the URL of a server, such as amqp://guest:guest@127.0.0.1:5672/%2f";

const PROGRAMS: [&str; 2] = ["rabbitmq-server", "rabbitmqctl"];

/// How long a node may take to greet a client.
const GREETING_MAX: Duration = Duration::from_secs(10);

/// A RabbitMQ server: [`shared`](Server::shared) (or the one of `INBOX_TEST_RABBITMQ_URL`), or private. A private
/// node has a name, a cookie and data of its own; `epmd`, by which nodes of one host find each other, is shared
/// and stays.
pub type RabbitServer = Server<Rabbit>;

/// The kind of a [`RabbitServer`].
#[derive(Debug)]
pub struct Rabbit {
    programs: PathBuf,
}

impl Kind for Rabbit {
    const NAME: &'static str = "RabbitMQ";
    const VARIABLE: &'static str = "INBOX_TEST_RABBITMQ_URL";
    const END: Signal = Signal::TERM;

    fn place() -> &'static OnceLock<Server<Self>> {
        static SHARED: OnceLock<RabbitServer> = OnceLock::new();
        &SHARED
    }

    fn of_somebody_else() -> Self {
        Self { programs: PathBuf::new() }
    }

    fn private() -> Self {
        // What packages put on the path changes to a user of the system's, who cannot write to our folder.
        let packaged = PathBuf::from("/usr/lib/rabbitmq/bin");
        let complete = PROGRAMS.iter().all(|program| packaged.join(program).is_file());
        let programs = if complete { Some(packaged) } else { on_path(&PROGRAMS) };
        Self { programs: programs.unwrap_or_else(|| panic!("{MISSING}")) }
    }

    fn prepare(&self, port: u16) -> (ServerProcess, String, Command) {
        let process = ServerProcess::new("rabbitmq", None);
        let files = [
            ("rabbitmq.conf", format!("listeners.tcp.1 = 127.0.0.1:{port}\n")),
            ("advanced.config", "[].\n".to_owned()),
            ("environment", String::new()),
            ("plugins", "[].\n".to_owned()),
        ];
        for (name, content) in files {
            let file = process.folder().join(name);
            std::fs::write(&file, content).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        }
        let mut server = process.command(&self.programs.join("rabbitmq-server"));
        environment(&mut server, process.folder(), port);
        server.env("RABBITMQ_DIST_PORT", free_port().to_string());
        (process, format!("amqp://guest:guest@127.0.0.1:{port}/%2f"), server)
    }

    fn is_ready(&self, port: u16, process: &ServerProcess) -> bool {
        process.said("completed with") && greet(&format!("127.0.0.1:{port}")).is_ok()
    }

    fn greet(&self, address: &str) -> Result<(), String> {
        let (place, is_tls) = place_of(address)?;
        let greeted = if is_tls { TcpStream::connect(&place).map(drop) } else { greet(&place) };
        greeted.map_err(|error| format!("{place}: {error}"))
    }
}

impl RabbitServer {
    /// Its URL, with user and virtual host.
    pub fn url(&self) -> &str {
        self.address()
    }

    /// Runs `rabbitmqctl` on a private node and gives what it printed, without headings.
    ///
    /// # Panics
    /// When it fails, or when the server is somebody else's.
    pub fn control(&self, arguments: &[&str]) -> String {
        let mut control = Command::new(self.kind().programs.join("rabbitmqctl"));
        environment(&mut control, self.folder(), self.port());
        control.stdin(Stdio::null()).current_dir(self.folder()).arg("--quiet").args(arguments);
        if arguments.iter().any(|argument| argument.starts_with("list_")) {
            control.arg("--no-table-headers");
        }
        output_of(control, "rabbitmqctl", MISSING)
    }
}

/// What makes a node private, for it and for who controls it.
fn environment(command: &mut Command, folder: &Path, port: u16) {
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("RABBITMQ_")) {
            command.env_remove(name);
        }
    }
    // The cookie is there.
    command.env("HOME", folder);
    command.env("RABBITMQ_NODENAME", format!("inbox-{port}@localhost"));
    command.env("ERL_EPMD_ADDRESS", "127.0.0.1");
    // Idle schedulers leave the processor to the tests; nodes speak to each other on loopback only.
    command.env(
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS",
        "+sbwt none +sbwtdcpu none +sbwtdio none -kernel inet_dist_use_interface {127,0,0,1}",
    );
    command.env("RABBITMQ_LOGS", "-");
    for (name, file) in [
        ("RABBITMQ_CONF_ENV_FILE", "environment"),
        ("RABBITMQ_CONFIG_FILE", "rabbitmq.conf"),
        ("RABBITMQ_ADVANCED_CONFIG_FILE", "advanced.config"),
        ("RABBITMQ_ENABLED_PLUGINS_FILE", "plugins"),
        ("RABBITMQ_MNESIA_BASE", "data"),
        ("RABBITMQ_LOG_BASE", "log"),
    ] {
        command.env(name, folder.join(file));
    }
}

/// Host and port of a URL, and whether it asks for TLS.
fn place_of(url: &str) -> Result<(String, bool), String> {
    let (scheme, rest) = url.split_once("://").ok_or("its URL has no scheme: amqp:// is expected")?;
    let is_tls = match scheme {
        "amqp" => false,
        "amqps" => true,
        _ => return Err(format!("its URL has the scheme {scheme}: amqp or amqps is expected")),
    };
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    let place = authority.rsplit_once('@').map_or(authority, |(_, place)| place);
    // In brackets, colons are the address's own.
    let after_address = place.rsplit_once(']').map_or(place, |(_, port)| port);
    let default = if is_tls { ":5671" } else { ":5672" };
    let port = if after_address.contains(':') { "" } else { default };
    Ok((format!("{place}{port}"), is_tls))
}

/// Asks for AMQP 0-9-1, to which a server answers with the first frame of a connection.
fn greet(place: &str) -> std::io::Result<()> {
    let mut connection = TcpStream::connect(place)?;
    connection.set_read_timeout(Some(GREETING_MAX))?;
    connection.write_all(b"AMQP\0\0\x09\x01")?;
    let mut frame_type = [0];
    connection.read_exact(&mut frame_type)?;
    if frame_type == [1] { Ok(()) } else { Err(std::io::Error::other("it does not speak AMQP 0-9-1")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_and_port_are_found_in_urls() {
        for (url, place, is_tls) in [
            ("amqp://guest:guest@127.0.0.1:5673/%2f", "127.0.0.1:5673", false),
            ("amqp://h", "h:5672", false),
            ("amqps://u:p@[::1]/v?heartbeat=1", "[::1]:5671", true),
        ] {
            assert_eq!(place_of(url), Ok((place.to_owned(), is_tls)));
        }
        assert!(place_of("h:5672").is_err());
        assert!(place_of("http://h").is_err());
    }
}
