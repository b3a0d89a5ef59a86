//! stub
mod crash;
mod delegate;
mod evidence;
mod fake;
mod history;
mod lock;
mod memory;
mod recording;
mod saboteurs;
pub use crash::*;
pub use evidence::*;
pub use fake::*;
pub use history::*;
pub use memory::*;
pub use recording::*;
pub use saboteurs::*;
mod oracle;
pub use oracle::*;
