//! A server as a process: started, ended, killed, paused, started again.

use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs::{File, OpenOptions},
    io::Write as _,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// How long a server may take to end by itself before it is killed.
const END_MAX: Duration = Duration::from_secs(20);

/// Between two looks at a process or a port.
pub(super) const LOOK_PAUSE: Duration = Duration::from_millis(10);

/// Ends what the last line of its input names, and removes the folder, when its input ends: with the
/// process that holds the other side, however that one ends.
const WATCHER: &str = r#"
trap '' INT TERM HUP
pid=
while read -r line; do pid=$line; done
if [ -n "$pid" ]; then
    family=$(ps -A -o pid= -o ppid= | awk -v root="$pid" '
        { parent[$1] = $2 }
        END { for (pid in parent) { at = pid
            while (at != root && (at in parent)) at = parent[at]
            if (at == root) print pid } }')
    kill -9 $pid $family 2>/dev/null
fi
rm -rf "$1"
"#;

/// The user that a server's processes run as, where it is not the one of the tests.
#[derive(Debug, Clone, Copy)]
pub(super) struct RunAs {
    pub(super) uid: u32,
    pub(super) gid: u32,
}

impl RunAs {
    /// The user with this name, if the tests run as root, who some servers refuse to run as.
    pub(super) fn instead_of_root(name: &str) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        let fields = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
        let found = fields.filter(|fields| fields.first() == Some(&name)).find_map(|fields| {
            Some(Self { uid: fields.get(2)?.parse().ok()?, gid: fields.get(3)?.parse().ok()? })
        });
        Some(found.unwrap_or_else(|| {
            panic!("as root, the tests need the user {name}; install the server's package")
        }))
    }

    pub(super) fn apply(self, command: &mut Command) {
        command.uid(self.uid).gid(self.gid);
    }
}

/// A folder and the process that works in it. Dropped, the process is killed and the folder removed,
/// but for the log of a test that failed.
pub struct ServerProcess {
    name: &'static str,
    folder: TempDir,
    run_as: Option<RunAs>,
    child: Option<Child>,
    /// How long the log was when the process was started, in bytes.
    log_before: usize,
    watcher: Child,
    /// Closed by the end of this process.
    lifeline: ChildStdin,
}

impl ServerProcess {
    /// A folder that belongs to the server's user, and nothing in it yet.
    ///
    /// # Panics
    /// When the system refuses.
    pub(super) fn new(name: &'static str, run_as: Option<RunAs>) -> Self {
        let folder = tempfile::Builder::new()
            .prefix(&format!("inbox-{name}-"))
            .tempdir()
            .unwrap_or_else(|error| panic!("no folder for {name}: {error}"));
        if let Some(user) = run_as {
            std::os::unix::fs::chown(folder.path(), Some(user.uid), Some(user.gid))
                .unwrap_or_else(|error| panic!("giving the folder of {name} away: {error}"));
        }
        let mut watcher = Command::new("sh")
            .args(["-c", WATCHER, "watcher"])
            .arg(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Out of reach of what ends this process's group.
            .process_group(0)
            .spawn()
            .unwrap_or_else(|error| panic!("starting the watcher of {name}: {error}"));
        let lifeline = watcher.stdin.take().unwrap_or_else(|| panic!("the watcher has an input"));
        Self { name, folder, run_as, child: None, log_before: 0, watcher, lifeline }
    }

    /// Where everything of this server is.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// What the server printed.
    pub fn log_path(&self) -> PathBuf {
        self.folder.path().join("server.log")
    }

    /// The last lines of the log.
    pub fn log_end(&self) -> String {
        let log = self.log();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    /// Whether the log has this text, since the process was started the last time.
    pub(super) fn said(&self, text: &str) -> bool {
        let log = self.log();
        String::from_utf8_lossy(log.get(self.log_before..).unwrap_or_default()).contains(text)
    }

    fn log(&self) -> Vec<u8> {
        // There is none before the first start.
        std::fs::read(self.log_path()).unwrap_or_default()
    }

    /// The number of the process, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// A command that runs as the server's user in its folder.
    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        if let Some(user) = self.run_as {
            user.apply(&mut command);
            command.env("HOME", self.folder.path());
        }
        command
    }

    /// Starts the server; its output is added to the log.
    ///
    /// # Panics
    /// When it cannot be started.
    pub(super) fn start(&mut self, command: &mut Command) {
        self.log_before = self.log().len();
        let log = OpenOptions::new().create(true).append(true).open(self.log_path());
        let log = log.unwrap_or_else(|error| panic!("the log of {}: {error}", self.name));
        let errors: File =
            log.try_clone().unwrap_or_else(|error| panic!("the log of {}: {error}", self.name));
        // A group of its own: a Ctrl-C is for the tests, which then end their servers.
        command.stdout(log).stderr(errors).process_group(0);
        let child = command.spawn().unwrap_or_else(|error| panic!("starting {}: {error}", self.name));
        let _watcher_is_gone = writeln!(self.lifeline, "{}", child.id());
        self.child = Some(child);
    }

    /// Whether the process is there. One that ended is forgotten.
    pub fn is_running(&mut self) -> bool {
        let ended = self.child.as_mut().is_none_or(|child| !matches!(child.try_wait(), Ok(None)));
        if ended && self.child.take().is_some() {
            self.forget();
        }
        !ended
    }

    /// Asks the server to end, and waits for it; kills it when it takes too long.
    pub(super) fn end(&mut self, signal: Signal) {
        self.signal(signal);
        let asked = Instant::now();
        while self.is_running() {
            if asked.elapsed() > END_MAX {
                self.kill();
                return;
            }
            thread::sleep(LOOK_PAUSE);
        }
    }

    /// The number may soon be another process's: it is no longer the watcher's to kill.
    fn forget(&mut self) {
        let _watcher_is_gone = writeln!(self.lifeline);
    }

    /// Kills the process and all that come from it, as `kill -9` does, and waits until they are gone.
    pub fn kill(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        let everybody: Vec<u32> = std::iter::once(child.id()).chain(descendants_of(child.id())).collect();
        for &pid in &everybody {
            send(pid, Signal::KILL);
        }
        let _ended = child.wait();
        self.forget();
        let asked = Instant::now();
        while everybody[1..].iter().any(|&pid| is_alive(pid)) && asked.elapsed() < END_MAX {
            thread::sleep(LOOK_PAUSE);
        }
    }

    /// Stops the process and all that come from it where they are: connections stay open and nobody answers.
    pub fn pause(&mut self) {
        self.signal_everybody(Signal::STOP);
    }

    /// Lets them go on.
    pub fn resume(&mut self) {
        self.signal_everybody(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = self.pid() {
            send(pid, signal);
        }
    }

    fn signal_everybody(&self, signal: Signal) {
        self.signal(signal);
        // The parent has stopped, so it has no further children.
        for child in self.pid().map(descendants_of).unwrap_or_default() {
            send(child, signal);
        }
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.kill();
        if thread::panicking() {
            // Its folder's name, which nobody else has, and beside it.
            let kept = self.folder.path().with_extension("log");
            if std::fs::copy(self.log_path(), &kept).is_ok() {
                let _nobody_listens =
                    writeln!(std::io::stderr(), "the log of {}: {}", self.name, kept.display());
            }
        }
        // Nothing is left for the watcher to do.
        let _already_gone = self.watcher.kill();
        let _ended = self.watcher.wait();
    }
}

impl std::fmt::Debug for ServerProcess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ServerProcess({} in {})", self.name, self.folder.path().display())
    }
}

fn send(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _already_gone = kill_process(pid, signal);
    }
}

/// Whether it can still do anything; one that ended and was not waited for cannot.
fn is_alive(pid: u32) -> bool {
    let state = ps(&["-o", "stat=", "-p", &pid.to_string()]);
    !state.trim().is_empty() && !state.trim_start().starts_with('Z')
}

/// The processes that this one started, and that those started.
fn descendants_of(root: u32) -> Vec<u32> {
    let listed = ps(&["-A", "-o", "pid=", "-o", "ppid="]);
    let pair = |line: &str| {
        let mut fields = line.split_whitespace().map(str::parse::<u32>);
        Some((fields.next()?.ok()?, fields.next()?.ok()?))
    };
    let pairs: Vec<(u32, u32)> = listed.lines().filter_map(pair).collect();
    let mut family = vec![root];
    let mut looked_at = 0;
    while let Some(&of) = family.get(looked_at) {
        let children = pairs.iter().filter(|&&(pid, parent)| parent == of && !family.contains(&pid));
        let children: Vec<u32> = children.map(|&(pid, _)| pid).collect();
        family.extend(children);
        looked_at += 1;
    }
    family.split_off(1)
}

fn ps(arguments: &[&str]) -> String {
    let listed = Command::new("ps").args(arguments).output();
    let listed = listed.unwrap_or_else(|error| panic!("running ps: {error}; install procps"));
    String::from_utf8_lossy(&listed.stdout).into_owned()
}
