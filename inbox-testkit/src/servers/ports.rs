//! Loopback ports that nobody uses.

use std::{
    collections::HashSet,
    net::TcpListener,
    sync::{Mutex, PoisonError},
};

/// What was given out before. A port is free until its server listens, so the system could give it twice.
static GIVEN: Mutex<Option<HashSet<u16>>> = Mutex::new(None);

/// A loopback port that is free now, and was not given out before by this process.
///
/// # Panics
/// When the system has none.
pub fn free_port() -> u16 {
    loop {
        let listener = TcpListener::bind(("127.0.0.1", 0))
            .unwrap_or_else(|error| panic!("no free loopback port: {error}"));
        let port = listener.local_addr().map(|address| address.port()).unwrap_or_default();
        let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
        if port != 0 && given.get_or_insert_with(HashSet::new).insert(port) {
            return port;
        }
    }
}
