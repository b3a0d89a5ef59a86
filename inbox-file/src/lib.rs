//! The transactional inbox over JSON Lines files: imports, replays and local development.
//!
//! [`FileBroker`] delivers the lines of one file to a runner of `inbox-core`. Acknowledgements leave no
//! trace in the file; the runner keeps a checkpoint (the byte position) in the consumer's own database,
//! in the transaction of the effects, and the next run goes on from there.
//!
//! ```
//! use inbox_core::{Broker, Credit, Event};
//! use inbox_file::FileBroker;
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("orders.jsonl");
//! std::fs::write(&path, "{\"id\":\"o-1\"}\n{\"id\":\"o-2\"}\n")?;
//! let mut broker = FileBroker::open(&path)?;
//! let credit = Credit::new(100, 1 << 20);
//! let mut lines = 0;
//! loop {
//!     match broker.next(&credit).await? {
//!         Event::Assigned(assignment) => drop(assignment), // no checkpoint: from the start
//!         Event::Deliveries(deliveries) => lines += deliveries.len(),
//!         _ => break,
//!     }
//! }
//! assert_eq!(lines, 2);
//! # Ok(()) }
//! ```
//!
//! The tour: [`FileBroker`] has the rules of lines and of changed files, [`FileOptions`] the limits and
//! the ordering key, [`FileProgress`] what can be watched from outside, [`OpenError`] what may be wrong
//! with a path.

mod ack;
mod broker;
mod chunks;
mod convert;
mod error;
mod lines;
mod options;
mod progress;
mod reading;
mod start;

pub use ack::{FileAck, FileReceipt};
pub use broker::FileBroker;
pub use error::OpenError;
pub use options::FileOptions;
pub use progress::{FileProgress, Leftover};
