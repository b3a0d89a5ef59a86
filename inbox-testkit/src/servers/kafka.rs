//! Apache Kafka: a private broker of one node, or a cluster that exists.

use super::{
    ports::free_port,
    process::ServerProcess,
    server::{Kind, Server, on_path, output_of},
};
use rustix::process::Signal;
use std::{
    ffi::OsString,
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
};

const MISSING: &str = "Kafka needs java (17 or newer), mvn and flock: run 'apt-get install default-jre-headless maven \
     util-linux' (or your system's way), or set INBOX_TEST_KAFKA to the bootstrap servers of a cluster";

/// The broker is one Maven artifact with its dependencies.
const POM: &str = include_str!("../../kafka/pom.xml");
const FETCH: &str = include_str!("../../kafka/fetch.sh");
const PROPERTIES: &str = include_str!("../../kafka/server.properties");

/// Any id will do: there is one node.
const CLUSTER_ID: &str = "q7LJGW6iRMGEGkvmVqY8qg";

/// A small heap, and no time spent on what pays only after minutes.
const JAVA: [&str; 3] = ["-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"];

/// An Apache Kafka broker: [`shared`](Server::shared) (or the cluster of `INBOX_TEST_KAFKA`), or private. The first
/// private one of a user fetches the jars with Maven, into the user's cache folder.
pub type KafkaServer = Server<Kafka>;

/// The kind of a [`KafkaServer`].
#[derive(Debug)]
pub struct Kafka {
    java: PathBuf,
}

impl Kind for Kafka {
    const NAME: &'static str = "Kafka";
    const VARIABLE: &'static str = "INBOX_TEST_KAFKA";
    const END: Signal = Signal::TERM;

    fn place() -> &'static OnceLock<Server<Self>> {
        static SHARED: OnceLock<KafkaServer> = OnceLock::new();
        &SHARED
    }

    fn of_somebody_else() -> Self {
        Self { java: PathBuf::new() }
    }

    fn private() -> Self {
        let found = |program| on_path(&[program]).unwrap_or_else(|| panic!("{MISSING}")).join(program);
        for program in ["mvn", "flock"] {
            found(program);
        }
        Self { java: found("java") }
    }

    fn prepare(&self, port: u16) -> (ServerProcess, String, Command) {
        let process = ServerProcess::new("kafka", None);
        let folder = process.folder();
        let properties = PROPERTIES
            .replace("@PORT@", &port.to_string())
            .replace("@CPORT@", &free_port().to_string())
            .replace("@DATA@", &folder.join("data").display().to_string());
        write(&folder.join("server.properties"), &properties);
        write(&folder.join("pom.xml"), POM);
        let jars = fetch(folder);
        let mut format = self.java(&process, &jars);
        format.args(["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", "server.properties"]);
        output_of(format, "kafka.tools.StorageTool", MISSING);
        let mut server = self.java(&process, &jars);
        server.args(["kafka.Kafka", "server.properties"]);
        (process, format!("127.0.0.1:{port}"), server)
    }

    fn is_ready(&self, port: u16, process: &ServerProcess) -> bool {
        process.said("Kafka Server started") && TcpStream::connect(("127.0.0.1", port)).is_ok()
    }

    fn greet(&self, address: &str) -> Result<(), String> {
        let connect = |server: &str| TcpStream::connect(server).map_err(|error| format!("{server}: {error}"));
        // One of them is enough to find the others.
        let mut failed = String::new();
        for server in address.split(',').map(str::trim) {
            match connect(server) {
                Ok(_) => return Ok(()),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }
}

impl Kafka {
    fn java(&self, process: &ServerProcess, jars: &Path) -> Command {
        let mut java = process.command(&self.java);
        let mut class_path = OsString::from(jars);
        class_path.push("/*");
        java.args(JAVA).arg("-cp").arg(class_path);
        java
    }
}

impl KafkaServer {
    /// Its bootstrap servers, as `host:port`, separated by commas.
    pub fn bootstrap(&self) -> &str {
        self.address()
    }
}

/// The folder of the jars, which are fetched if this user has none.
fn fetch(folder: &Path) -> PathBuf {
    let mut fetch = Command::new("sh");
    fetch.stdin(Stdio::null()).args(["-c", FETCH, "fetch.sh"]).arg(folder.join("pom.xml"));
    PathBuf::from(output_of(fetch, "fetching the jars of Kafka with mvn", MISSING))
}

fn write(file: &Path, content: &str) {
    std::fs::write(file, content).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
}
