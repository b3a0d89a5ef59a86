//! Steering a run from outside.

use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// What can be asked of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Command {
    Pause,
    Resume,
    Drain,
    Shutdown(Option<Duration>),
}

/// Steers a run. Clones steer the same one; dropping them changes nothing. A run that has ended ignores
/// what is asked.
#[derive(Debug, Clone)]
pub struct Control {
    commands: mpsc::UnboundedSender<Command>,
    ended: watch::Receiver<bool>,
}

/// The run's end of its controls.
#[derive(Debug)]
pub(crate) struct Controlled {
    pub(crate) commands: mpsc::UnboundedReceiver<Command>,
    /// Kept so that there is always one: without it the commands would end.
    _handle: mpsc::UnboundedSender<Command>,
    ended: watch::Sender<bool>,
}

pub(crate) fn channel() -> (Control, Controlled) {
    // Whoever steers sends a few words in the life of a run: this needs no bound.
    let (sender, commands) = mpsc::unbounded_channel();
    let (ended, is_ended) = watch::channel(false);
    let control = Control { commands: sender.clone(), ended: is_ended };
    (control, Controlled { commands, _handle: sender, ended })
}

impl Drop for Controlled {
    fn drop(&mut self) {
        self.ended.send_replace(true);
    }
}

impl Control {
    fn ask(&self, command: Command) {
        // Nobody listens any more when the run has ended.
        let _ended = self.commands.send(command);
    }

    /// Takes nothing more in and starts nothing, until [`resume`](Self::resume). What has started goes on,
    /// and rebalances are answered.
    pub fn pause(&self) {
        self.ask(Command::Pause);
    }

    /// Goes on after a pause.
    pub fn resume(&self) {
        self.ask(Command::Resume);
    }

    /// Takes nothing more in, finishes everything that was taken in, retries included, and ends. It ends a
    /// pause.
    pub fn drain(&self) {
        self.ask(Command::Drain);
    }

    /// Takes nothing more in, starts nothing, finishes what has started and gives back the rest. After
    /// the time-out (the runner's `shutdown_timeout` when absent) handlers are dropped and rolled back;
    /// commits are never cut.
    pub fn shutdown(&self, timeout: Option<Duration>) {
        self.ask(Command::Shutdown(timeout));
    }

    /// Waits until the run has ended, or its runner was dropped. Cancel-safe.
    pub async fn ended(&self) {
        let mut ended = self.ended.clone();
        // An error means that the sender is gone: ended as well.
        let _ = ended.wait_for(|&ended| ended).await;
    }
}
