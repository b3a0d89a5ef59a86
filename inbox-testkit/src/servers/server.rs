//! What all servers have in common: shared or private, somebody else's or our own, ended and started again.

use super::{
    ports::free_port,
    process::{LOOK_PAUSE, ServerProcess},
};
use rustix::process::Signal;
use std::{
    env::{self, VarError},
    fmt::Debug,
    path::PathBuf,
    process::{Command, Output},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// How long a server may take until it answers.
const START_MAX: Duration = Duration::from_secs(120);

/// A server of one kind. Clones are handles on the same one, which ends with the last of them.
#[derive(Debug)]
pub struct Server<K>(Arc<Inner<K>>);

#[derive(Debug)]
struct Inner<K> {
    address: String,
    kind: K,
    /// Absent when the server is somebody else's.
    own: Option<Own>,
}

#[derive(Debug)]
struct Own {
    port: u16,
    folder: PathBuf,
    running: Mutex<Running>,
}

#[derive(Debug)]
struct Running {
    process: ServerProcess,
    command: Command,
}

/// What is different from one kind of server to the next.
pub trait Kind: Debug + Sized + Send + Sync + 'static {
    /// For people.
    const NAME: &'static str;
    /// The environment variable that points a run at a server that exists.
    const VARIABLE: &'static str;
    /// Ends it in order.
    const END: Signal;

    /// Where the one of this test program is kept.
    fn place() -> &'static OnceLock<Server<Self>>;

    /// What is needed to speak to a server that exists.
    fn of_somebody_else() -> Self;

    /// What is needed for a private one.
    ///
    /// # Panics
    /// When it is missing, with what to install.
    fn private() -> Self;

    /// A folder for a server and what is needed there; its address on this port; what starts it, again and again.
    fn prepare(&self, port: u16) -> (ServerProcess, String, Command);

    /// Whether the server that runs takes connections.
    fn is_ready(&self, port: u16, process: &ServerProcess) -> bool;

    /// Asks a server that exists for any answer. The error says why there is none.
    fn greet(&self, address: &str) -> Result<(), String>;
}

impl<K: Kind> Server<K> {
    /// The one server of this test program, started by whoever comes first. An environment variable points
    /// it at one that exists.
    ///
    /// # Panics
    /// When there is none, with what to install.
    pub fn shared() -> Self {
        let find = || match env::var(K::VARIABLE) {
            Ok(address) if !address.is_empty() => Self::existing(address),
            Ok(_) | Err(VarError::NotPresent) => Self::start(),
            Err(VarError::NotUnicode(_)) => panic!("{} is not text", K::VARIABLE),
        };
        K::place().get_or_init(find).clone()
    }

    /// A server that is somebody else's, by its address.
    ///
    /// # Panics
    /// When it does not answer.
    pub fn existing(address: String) -> Self {
        let kind = K::of_somebody_else();
        if let Err(error) = kind.greet(&address) {
            let error = error.lines().map(str::trim).collect::<Vec<_>>().join(" ");
            panic!(
                "the {} that exists does not answer: {error}; start it, or unset {} for a private one",
                K::NAME,
                K::VARIABLE
            );
        }
        Self(Arc::new(Inner { address, kind, own: None }))
    }

    /// A private server.
    ///
    /// # Panics
    /// When its programs are missing, or it does not start.
    pub fn start() -> Self {
        Self::start_kind(K::private())
    }

    pub(super) fn start_kind(kind: K) -> Self {
        let port = free_port();
        let (process, address, command) = kind.prepare(port);
        let folder = process.folder().to_owned();
        let mut running = Running { process, command };
        running.launch(&kind, port);
        let own = Some(Own { port, folder, running: Mutex::new(running) });
        Self(Arc::new(Inner { address, kind, own }))
    }

    /// The port on 127.0.0.1 where the server listens.
    ///
    /// # Panics
    /// When the server is somebody else's.
    pub fn port(&self) -> u16 {
        self.own("asked for its port").port
    }

    /// Kills the server and all its processes, as `kill -9` does.
    ///
    /// # Panics
    /// When the server is somebody else's.
    pub fn kill(&self) {
        self.running("killed").process.kill();
    }

    /// Stops all its processes where they are: connections stay open, and nobody answers.
    ///
    /// # Panics
    /// When the server is somebody else's.
    pub fn pause(&self) {
        self.running("paused").process.pause();
    }

    /// Lets a paused server go on.
    ///
    /// # Panics
    /// When the server is somebody else's.
    pub fn resume(&self) {
        self.running("resumed").process.resume();
    }

    /// Ends the server in order; its clients are disconnected.
    ///
    /// # Panics
    /// When the server is somebody else's.
    pub fn stop(&self) {
        self.running("stopped").process.end(K::END);
    }

    /// Starts the server again on the same data and the same port, after it was stopped or killed.
    ///
    /// # Panics
    /// When the server is somebody else's, still runs, or does not start.
    pub fn start_again(&self) {
        let port = self.own("started again").port;
        self.running("started again").launch(&self.0.kind, port);
    }

    pub(super) fn address(&self) -> &str {
        &self.0.address
    }

    pub(super) fn kind(&self) -> &K {
        &self.0.kind
    }

    /// Where everything of a private server is: its data and its log.
    ///
    /// # Panics
    /// When the server is somebody else's.
    pub fn folder(&self) -> &std::path::Path {
        &self.own("asked for its folder").folder
    }

    fn own(&self, what: &str) -> &Own {
        self.0.own.as_ref().unwrap_or_else(|| {
            panic!("the server of {} cannot be {what} by a test: unset it for this test", K::VARIABLE)
        })
    }

    fn running(&self, what: &str) -> MutexGuard<'_, Running> {
        self.own(what).running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// Not derived: a handle needs no copy of the kind.
impl<K> Clone for Server<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl Running {
    /// Starts the server and waits until it takes connections.
    fn launch<K: Kind>(&mut self, kind: &K, port: u16) {
        let process = &mut self.process;
        assert!(!process.is_running(), "{} runs already: stop or kill it first", K::NAME);
        process.start(&mut self.command);
        let started = Instant::now();
        while !kind.is_ready(port, process) {
            let waits = process.is_running() && started.elapsed() < START_MAX;
            assert!(waits, "{} did not start; the end of its log:\n{}", K::NAME, process.log_end());
            thread::sleep(LOOK_PAUSE);
        }
    }
}

/// What a program printed, without the end of the last line.
///
/// # Panics
/// When it cannot be run, with what to install, or when it fails, with what it said.
pub(super) fn output_of(mut command: Command, name: &str, missing: &str) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("running {name}: {error}; {missing}"));
    assert!(output.status.success(), "{name} failed: {}", error_of(&output));
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

/// What a program that failed said; some say it where others print results.
pub(super) fn error_of(output: &Output) -> String {
    let said = if output.stderr.is_empty() { &output.stdout } else { &output.stderr };
    String::from_utf8_lossy(said).trim().to_owned()
}

/// The first folder of the path that has all these programs.
pub(super) fn on_path(programs: &[&str]) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).find(|folder| programs.iter().all(|program| folder.join(program).is_file()))
}
