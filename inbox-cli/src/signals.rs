//! Ctrl-C and SIGTERM: the first drains, the second ends the process.

use crate::exit::Exit;
use std::{future::Future, io, io::Write as _};
use tokio::sync::watch;

/// Listens for the signals that end a run.
#[derive(Debug)]
pub(crate) struct Signals {
    first: watch::Receiver<Option<Exit>>,
}

impl Signals {
    /// Begins to listen; from now on a signal no longer kills the process by itself.
    ///
    /// # Errors
    /// When the system refuses.
    pub(crate) fn listen() -> io::Result<Self> {
        let mut incoming = Incoming::new()?;
        let (tell, first) = watch::channel(None);
        tokio::spawn(async move {
            let signal = incoming.next().await;
            // Nobody listens any more: the run has just ended.
            let _ended = tell.send(Some(signal));
            say("inbox: finishing what has begun; press Ctrl-C again to stop at once");
            let again = incoming.next().await;
            say("inbox: stopped at once; what was not committed is done again by the next run");
            // Open transactions end with the process, uncommitted.
            std::process::exit(again.code().into());
        });
        Ok(Self { first })
    }

    /// Resolves when the first signal has come.
    pub(crate) fn first(&self) -> impl Future<Output = ()> + Send + 'static + use<> {
        let mut first = self.first.clone();
        async move {
            if first.wait_for(Option::is_some).await.is_err() {
                // No signal can come any more.
                std::future::pending::<()>().await;
            }
        }
    }

    /// The exit code of the first signal, when one has come.
    pub(crate) fn exit(&self) -> Option<Exit> {
        *self.first.borrow()
    }
}

fn say(line: &str) {
    // Nothing can be done about a closed stderr.
    let _closed = writeln!(io::stderr(), "{line}");
}

#[cfg(unix)]
struct Incoming {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Incoming {
    fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    async fn next(&mut self) -> Exit {
        tokio::select! {
            _ = self.interrupt.recv() => Exit::Interrupted,
            _ = self.terminate.recv() => Exit::Terminated,
        }
    }
}

#[cfg(not(unix))]
struct Incoming;

#[cfg(not(unix))]
impl Incoming {
    fn new() -> io::Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) -> Exit {
        match tokio::signal::ctrl_c().await {
            Ok(()) => Exit::Interrupted,
            Err(_) => std::future::pending().await,
        }
    }
}
