//! Where a run can be hit, and how.

/// A call that is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Call {
    /// The broker handed deliveries over, or said that it has ended.
    Next,
    /// A transaction is opened.
    Begin,
    /// Keys are claimed.
    Claim,
    /// A point inside a handler.
    Handler,
    /// Letters are written.
    Bury,
    /// Conflicts are written.
    RecordConflicts,
    /// Messages are kept in their claims.
    Keep,
    /// Stored messages are taken, to be handled.
    Reclaim,
    /// A failed attempt is written into a stored row.
    RecordFailure,
    /// Stored messages that are due are read.
    Due,
    /// Checkpoints are locked.
    Hold,
    /// Checkpoints are moved.
    Advance,
    /// A transaction is committed.
    Commit,
    /// A transaction is rolled back.
    Rollback,
    /// The fate of a commit is asked for.
    Resolve,
    /// Partitions are taken over.
    TakeOver,
    /// Checkpoints are read.
    Checkpoints,
    /// A run is opened in the attempt log.
    OpenRun,
    /// A run is closed there.
    CloseRun,
    /// Marks of starts are read.
    Marks,
    /// A start is marked.
    MarkStart,
    /// Marks of starts are cleared.
    ClearMarks,
    /// The broker is told what became of deliveries.
    Settle,
}

impl Call {
    /// The name, in snake case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Next => "next",
            Self::Begin => "begin",
            Self::Claim => "claim",
            Self::Handler => "handler",
            Self::Bury => "bury",
            Self::RecordConflicts => "record_conflicts",
            Self::Keep => "keep",
            Self::Reclaim => "reclaim",
            Self::RecordFailure => "record_failure",
            Self::Due => "due",
            Self::Hold => "hold",
            Self::Advance => "advance",
            Self::Commit => "commit",
            Self::Rollback => "rollback",
            Self::Resolve => "resolve",
            Self::TakeOver => "take_over",
            Self::Checkpoints => "checkpoints",
            Self::OpenRun => "open_run",
            Self::CloseRun => "close_run",
            Self::Marks => "marks",
            Self::MarkStart => "mark_start",
            Self::ClearMarks => "clear_marks",
            Self::Settle => "settle",
        }
    }
}

/// What happens at a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Reaction {
    /// The process dies before the call is performed.
    CrashBefore,
    /// The call is performed, and the process dies before it learns of the result.
    CrashReplyLost,
    /// The call is performed and answered, and the process dies before its next call.
    CrashAfter,
    /// The call is not performed, and the answer says so.
    Refuse,
    /// The call is performed, and the answer is an error: a commit is in doubt.
    AnswerLost,
    /// The call is not performed, and the answer does not tell: a commit is in doubt.
    RequestLost,
}

impl Reaction {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::CrashBefore,
        Self::CrashReplyLost,
        Self::CrashAfter,
        Self::Refuse,
        Self::AnswerLost,
        Self::RequestLost,
    ];

    /// Whether the process dies.
    pub const fn is_crash(self) -> bool {
        matches!(self, Self::CrashBefore | Self::CrashReplyLost | Self::CrashAfter)
    }

    /// Whether it means something of its own at this call. A handler point performs nothing, so it is
    /// only before; deliveries that were fetched cannot be unfetched; and only commits and settlements
    /// tell a lost request from a refused one.
    pub const fn applies_to(self, call: Call) -> bool {
        match (self, call) {
            (Self::CrashBefore | Self::Refuse, Call::Handler) => true,
            (_, Call::Handler) => false,
            (Self::CrashReplyLost | Self::CrashAfter | Self::Refuse, Call::Next) => true,
            (_, Call::Next) => false,
            (Self::RequestLost, Call::Commit) => true,
            (Self::RequestLost, _) => false,
            _ => true,
        }
    }

    /// The name, in snake case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::CrashBefore => "crash_before",
            Self::CrashReplyLost => "crash_reply_lost",
            Self::CrashAfter => "crash_after",
            Self::Refuse => "refuse",
            Self::AnswerLost => "answer_lost",
            Self::RequestLost => "request_lost",
        }
    }
}

/// One thing that happens in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Schedule {
    /// At which passage, counted from 0.
    pub at: usize,
    /// Which call that was in the run without faults.
    pub call: Call,
    /// What happens there.
    pub reaction: Reaction,
}

impl std::fmt::Display for Schedule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}@{}:{}", self.reaction.name(), self.at, self.call.name())
    }
}

/// Every schedule of one fault for a run that passed these calls.
pub fn schedules(passages: &[Call]) -> Vec<Schedule> {
    let of_call = |(at, &call): (usize, &Call)| {
        let meant = Reaction::ALL.into_iter().filter(move |reaction| reaction.applies_to(call));
        meant.map(move |reaction| Schedule { at, call, reaction })
    };
    passages.iter().enumerate().flat_map(of_call).collect()
}
