//! An argument that cannot be taken from a message.

use inbox_core::FromMessage;
use std::path::PathBuf;

fn is_extractor<T: FromMessage<()>>() {}

fn check() {
    is_extractor::<inbox_core::MessageId>();
    is_extractor::<PathBuf>();
}

fn main() {}
