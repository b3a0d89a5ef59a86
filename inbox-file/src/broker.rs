//! The broker: assignment first, then lines as far as there is credit, then the end.

use crate::{
    FileAck, FileOptions, FileProgress, FileReceipt, Leftover, OpenError, chunks::Chunks,
    convert::delivery_of, error::ReadError, reading::Reading,
};
use async_trait::async_trait;
use inbox_core::{
    AckStrength, Assignment, Broker, BrokerError, Capabilities, Checkpoint, Credit, Delivery, Event, Order,
    Partition, Source,
};
use std::{collections::HashMap, fs, fs::File, path::Path, sync::Arc};
use tokio::{
    sync::oneshot,
    time::{Instant, timeout_at},
};

/// The most deliveries in one answer: what is made of lines is larger than the lines, and making it
/// must not hold up the thread it runs on.
const DELIVERIES_MAX: usize = 1024;

/// A broker over one JSON Lines file.
///
/// | characteristic | value |
/// |---|---|
/// | order | partition |
/// | acknowledgement | checkpoint |
/// | delayed retry | no |
/// | counts deliveries | no |
/// | positional | yes |
/// | rebalances | no |
///
/// The file is one partition, number 0. It is assigned by the first answer, read from the checkpoint
/// that the assignment is given (from the start without one), and ends where the file ends then: it
/// does not wait for more. What is appended later is delivered by the next run.
///
/// # Lines
/// * The position of a line is the byte at which it begins; reading goes on behind its newline.
/// * The payload is the line as it is, without LF or CRLF. It may be anything: what is not JSON is
///   delivered too, and becomes a letter.
/// * A line of spaces, tabs and CRs only is passed over; so is a UTF-8 byte order mark at the start.
/// * A last line without a newline is taken when it is one whole JSON value. Otherwise it may still be
///   being written: it is left alone, with a warning, and shown as [`leftover`](Self::leftover).
/// * A line over the limit is delivered as its first bytes, marked as oversize; the rest is passed over
///   in bounded memory.
///
/// # A file that changed
/// A checkpoint carries a digest of the record it stands behind. Before reading goes on, that record is
/// read again: a file that is shorter than the checkpoint, or has another record there, is refused with
/// an error that says what to do. A file that becomes shorter while it is read is refused as well.
/// A file that grew is simply read on.
///
/// Two changes cannot be seen: one to lines before the last finished one, and one that cuts the file
/// and fills it up again between two looks at it. When another file takes over the path (as log
/// rotation does) while this one is read, reading stays with the file that was opened.
#[derive(Debug)]
pub struct FileBroker {
    path: Arc<Path>,
    partition: Partition,
    options: FileOptions,
    progress: FileProgress,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    /// To be assigned.
    Opened(File),
    /// Assigned; where to begin is not known yet.
    Assigned {
        file: File,
        reply: oneshot::Receiver<HashMap<Partition, Checkpoint>>,
    },
    Reading(Reading),
    Ended,
    Failed(ReadError),
}

impl FileBroker {
    /// Opens the file at `path` with the default options.
    ///
    /// # Errors
    /// [`OpenError`] when it is missing, no regular file, or unreadable.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        Self::options().open(path)
    }

    /// Options to open a file with.
    pub fn options() -> FileOptions {
        FileOptions::new()
    }

    pub(crate) fn open_with(options: FileOptions, path: &Path) -> Result<Self, OpenError> {
        let failed = |error| OpenError::of(path, error);
        // Opening a pipe would wait for its writer, so what it is comes first.
        let kind = fs::metadata(path).map_err(failed)?;
        if kind.is_dir() {
            return Err(OpenError::Directory { path: path.to_owned() });
        }
        if !kind.is_file() {
            return Err(OpenError::NotRegular { path: path.to_owned() });
        }
        let path = fs::canonicalize(path).map_err(failed)?;
        let source = match &options.source {
            Some(source) => source.clone(),
            None => match path.to_str() {
                Some(text) => Source::new(format!("file:{text}")),
                None => return Err(OpenError::PathNotUtf8 { path }),
            },
        };
        let file = File::open(&path).map_err(failed)?;
        let progress = FileProgress::default();
        progress.opened(file.metadata().map_err(failed)?.len());
        let partition = Partition { source, number: 0 };
        Ok(Self { path: path.into(), partition, options, progress, phase: Phase::Opened(file) })
    }

    /// The name under which progress is kept.
    pub fn source(&self) -> &Source {
        &self.partition.source
    }

    /// The only partition.
    pub fn partition(&self) -> &Partition {
        &self.partition
    }

    /// The file's absolute path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What was left alone at the end; known after [`Event::Ended`].
    pub fn leftover(&self) -> Option<Leftover> {
        self.progress.leftover()
    }

    /// A handle that shows how far reading has come while a runner owns the broker.
    pub fn progress(&self) -> FileProgress {
        self.progress.clone()
    }

    /// Starts reading where the assignment's reply says. Without a wait, so that it is not cancelled
    /// half-way.
    fn begin(&mut self, mut checkpoints: HashMap<Partition, Checkpoint>) {
        let phase = std::mem::replace(&mut self.phase, Phase::Ended);
        self.phase = match phase {
            Phase::Assigned { file, .. } => {
                let chunks = Chunks::new(file, self.path.clone(), self.options.chunk_bytes);
                let checkpoint = checkpoints.remove(&self.partition);
                self.progress.reached(checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.next));
                match Reading::start(chunks, self.options.limits(), checkpoint) {
                    Ok(reading) => Phase::Reading(reading),
                    Err(error) => Phase::Failed(error),
                }
            }
            other => other,
        };
    }
}

/// Takes lines as far as they are there and `credit` goes.
fn collect(
    reading: &mut Reading,
    partition: &Partition,
    options: &FileOptions,
    credit: &Credit,
    progress: &FileProgress,
) -> Vec<Delivery<FileReceipt>> {
    let most = credit.messages.min(DELIVERIES_MAX);
    let mut deliveries = Vec::new();
    let mut bytes = 0_usize;
    while deliveries.len() < most {
        let Some(line) = reading.peek() else { break };
        // Its bytes are known only with its key, and cloning a line copies no payload.
        let delivery = delivery_of(line.clone(), partition, options.key.as_ref());
        bytes = bytes.saturating_add(delivery.inbound.bytes());
        if bytes > credit.bytes && !deliveries.is_empty() {
            break;
        }
        reading.take();
        deliveries.push(delivery);
    }
    if let Some(last) = deliveries.last() {
        progress.reached(last.receipt.position.next);
    }
    deliveries
}

#[async_trait]
impl Broker for FileBroker {
    type Receipt = FileReceipt;
    type Ack = FileAck;

    fn capabilities(&self) -> Capabilities {
        Capabilities::new(AckStrength::Checkpoint).order(Order::Partition).positional(true)
    }

    fn ack_handle(&self) -> FileAck {
        FileAck
    }

    async fn next(&mut self, credit: &Credit) -> Result<Event<FileReceipt>, BrokerError> {
        loop {
            match &mut self.phase {
                Phase::Opened(_) => {
                    let (assignment, reply) = Assignment::new(vec![self.partition.clone()]);
                    if let Phase::Opened(file) = std::mem::replace(&mut self.phase, Phase::Ended) {
                        self.phase = Phase::Assigned { file, reply };
                    }
                    return Ok(Event::Assigned(assignment));
                }
                Phase::Assigned { reply, .. } => {
                    // Dropped unanswered: from the start.
                    let checkpoints = reply.await.unwrap_or_default();
                    self.begin(checkpoints);
                }
                Phase::Reading(reading) => match reading.line_comes().await {
                    Ok(true) => {
                        if credit.is_empty() || credit.held.contains(&self.partition) {
                            // A line is there and may not be given: only a call with credit can go on.
                            std::future::pending::<()>().await;
                        }
                        let all = collect(reading, &self.partition, &self.options, credit, &self.progress);
                        return Ok(Event::Deliveries(all));
                    }
                    Ok(false) => {
                        if let Some(leftover) = reading.leftover() {
                            self.progress.left(leftover);
                        }
                        self.phase = Phase::Ended;
                    }
                    Err(error) => self.phase = Phase::Failed(error),
                },
                Phase::Ended => return Ok(Event::Ended),
                Phase::Failed(error) => return Err(BrokerError::from(&*error)),
            }
        }
    }

    async fn close(self, by: Instant) -> Result<(), BrokerError> {
        if let Phase::Reading(reading) = self.phase {
            // A read that hangs longer than that ends by itself, and then its thread does.
            let _ = timeout_at(by, reading.stop()).await;
        }
        Ok(())
    }
}
