//! The exit codes of the command: the one place that names them.

use std::process::ExitCode;

/// How a run of the command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Everything was done. Letters and conflicts do not change that: they are reported.
    Done,
    /// It failed while it ran: the source or the database gave up, or `--on-failure halt` stopped it.
    Failed,
    /// It was called wrongly: an option, the SQL, a file that cannot be read.
    Usage,
    /// It was drained after Ctrl-C. Not `Done`, so that scripts see that input is left.
    Interrupted,
    /// It was drained after SIGTERM.
    Terminated,
}

impl Exit {
    /// The number that the shell sees: 128 + the number of the signal where one ended the run.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Interrupted => 130,
            Self::Terminated => 143,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// The end of `--help`.
pub(crate) const HELP: &str = "\
Exit codes:
    0  done; dead letters and conflicts are reported, they do not change the code
    1  failed while running: the source or the database gave up, or --on-failure halt stopped it
    2  called wrongly: a bad option, bad SQL, a file that is missing or cannot be read
  130  stopped by Ctrl-C: what had begun was finished, the rest is left for the next run
  143  stopped by SIGTERM, in the same way
A second Ctrl-C or SIGTERM stops at once; what is not committed then is done again by the next run.";
