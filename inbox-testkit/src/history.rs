//! What happened in a run, in order.

use crate::{Call, Evidence, Reaction, Witness, lock::lock};
use inbox_core::{Fingerprint, Settled, Verdict};
use std::{
    fmt::Write as _,
    io,
    path::Path,
    sync::{Arc, Mutex},
};

/// One thing that happened.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Entry {
    /// The broker handed a message over.
    Delivered {
        /// Its id; `-` without one.
        id: String,
        /// Its content.
        content: Fingerprint,
        /// What names the delivery.
        receipt: String,
        /// How often this id was delivered, this time included, as far as this history goes.
        count: u32,
    },
    /// A handler was started.
    HandlerStarted {
        /// For which message.
        id: String,
        /// Its content.
        content: Fingerprint,
        /// What was committed about it then.
        evidence: Evidence,
    },
    /// A handler ended.
    HandlerEnded {
        /// For which message.
        id: String,
        /// Whether it ended well.
        ok: bool,
    },
    /// A settlement reached the broker.
    Settled {
        /// The message's id; `-` without one.
        id: String,
        /// The content that was delivered.
        content: Fingerprint,
        /// What names the delivery.
        receipt: String,
        /// What was said.
        verdict: Verdict,
        /// What was committed about it then.
        evidence: Evidence,
    },
    /// The broker answered a settlement.
    Answered {
        /// The message's id; `-` without one.
        id: String,
        /// The content that was delivered.
        content: Fingerprint,
        /// What was said.
        verdict: Verdict,
        /// How far it got; absent when it failed.
        settled: Option<Settled>,
    },
    /// A counted call was made.
    Call {
        /// Its number.
        at: usize,
        /// Which.
        call: Call,
        /// About what, where that is known.
        about: String,
        /// What happened at it.
        reaction: Option<Reaction>,
    },
    /// The process died.
    Crashed,
    /// Anything a test wants to say.
    Note(String),
}

/// What happened, over all lives of a process. Clones are the same history.
#[derive(Debug, Clone)]
pub struct History {
    entries: Arc<Mutex<Vec<Entry>>>,
    witness: Witness,
}

impl History {
    /// An empty history that asks `witness` whenever something must already be committed.
    pub fn new(witness: Witness) -> Self {
        Self { entries: Arc::default(), witness }
    }

    /// Adds an entry.
    pub fn push(&self, entry: Entry) {
        lock(&self.entries).push(entry);
    }

    /// Adds a remark.
    pub fn note(&self, text: impl Into<String>) {
        self.push(Entry::Note(text.into()));
    }

    /// A delivery was handed over.
    pub fn delivered(&self, id: &str, content: Fingerprint, receipt: String) {
        let mut entries = lock(&self.entries);
        let of_id = |e: &&Entry| matches!(e, Entry::Delivered { id: other, .. } if other == id);
        let before = u32::try_from(entries.iter().filter(of_id).count()).unwrap_or(u32::MAX);
        let count = before.saturating_add(1);
        entries.push(Entry::Delivered { id: id.to_owned(), content, receipt, count });
    }

    /// A settlement is about to reach the broker.
    pub fn settled(&self, id: &str, content: Fingerprint, receipt: String, verdict: Verdict) {
        let evidence = self.witness.ask(id, content);
        self.push(Entry::Settled { id: id.to_owned(), content, receipt, verdict, evidence });
    }

    /// A handler under test begins.
    pub fn handler_started(&self, id: &str, content: Fingerprint) {
        let evidence = self.witness.ask(id, content);
        self.push(Entry::HandlerStarted { id: id.to_owned(), content, evidence });
    }

    /// A handler under test ends.
    pub fn handler_ended(&self, id: &str, ok: bool) {
        self.push(Entry::HandlerEnded { id: id.to_owned(), ok });
    }

    /// Everything so far.
    pub fn entries(&self) -> Vec<Entry> {
        lock(&self.entries).clone()
    }

    /// How often handlers were started for this id.
    pub fn handler_starts(&self, id: &str) -> usize {
        let started = |e: &&Entry| matches!(e, Entry::HandlerStarted { id: other, .. } if other == id);
        lock(&self.entries).iter().filter(started).count()
    }

    /// How many handlers were let fail by the plan.
    pub(crate) fn count_refused_handlers(&self) -> usize {
        let refused = |e: &&Entry| matches!(e, Entry::Call { call: Call::Handler, reaction: Some(reaction), .. } if !reaction.is_crash());
        lock(&self.entries).iter().filter(refused).count()
    }

    /// Writes it down, one entry a line, under a title that should say how to run it again (the seed).
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write_to(&self, path: impl AsRef<Path>, title: &str) -> io::Result<()> {
        std::fs::write(path, self.render(title))
    }

    /// The text of [`write_to`](History::write_to).
    pub fn render(&self, title: &str) -> String {
        let mut text = format!("# {title}\n");
        for (number, entry) in lock(&self.entries).iter().enumerate() {
            // Writing to a string cannot fail.
            let _written = writeln!(text, "{number:4} {entry:?}");
        }
        text
    }
}
