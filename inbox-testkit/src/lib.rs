//! stub
mod lock;
mod evidence;
mod fake;
mod memory;
pub use fake::*;
pub use memory::*;
pub use evidence::*;
