//! A TCP proxy in front of a server, for what networks do.

use std::{
    io::{ErrorKind, Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

/// How long a blocked read may keep a thread from seeing that its connection was cut.
const LOOK_PAUSE: Duration = Duration::from_millis(5);

/// When a connection is cut by what goes through it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cut {
    /// When the client has sent these bytes: before they reach the server.
    BeforeRequest(Vec<u8>),
    /// When the client has sent these bytes: they reach the server, and nothing comes back any more.
    /// The connection is cut as soon as the server has answered.
    ReplyTo(Vec<u8>),
}

#[derive(Debug, Default)]
struct State {
    refusing: bool,
    drop_requests: bool,
    drop_replies: bool,
    delay: Duration,
    cut: Option<Cut>,
    cuts_done: u32,
    /// Connections older than this number are cut.
    generation: u64,
    ended: bool,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Forwards connections to a server. It has threads of its own, so it works under every runtime and under
/// paused time. Dropped, it cuts everything.
#[derive(Debug)]
pub struct TcpProxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl TcpProxy {
    /// A proxy on a free loopback port in front of `127.0.0.1:port`.
    ///
    /// # Panics
    /// When no port can be had.
    pub fn to_port(port: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0));
        let listener = listener.unwrap_or_else(|error| panic!("no port for a proxy: {error}"));
        let address = listener.local_addr().unwrap_or_else(|error| panic!("the port of a proxy: {error}"));
        let shared = Arc::new(Shared { state: Mutex::default() });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || accept(&listener, port, &accepting));
        Self { address, shared }
    }

    /// Where it listens, as host and port.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// Cuts all connections now; new ones are accepted.
    pub fn cut(&self) {
        let mut state = self.shared.state();
        state.generation += 1;
        state.cuts_done += 1;
    }

    /// Cuts the next connection through which something goes, once.
    pub fn cut_at(&self, cut: Cut) {
        self.shared.state().cut = Some(cut);
    }

    /// How often connections were cut.
    pub fn cuts_done(&self) -> u32 {
        self.shared.state().cuts_done
    }

    /// Whether new connections are refused (cut at once).
    pub fn refuse(&self, refuse: bool) {
        self.shared.state().refusing = refuse;
    }

    /// How long everything is held back, in both directions.
    pub fn delay(&self, delay: Duration) {
        self.shared.state().delay = delay;
    }

    /// Swallows what clients send, while connections stay open.
    pub fn drop_requests(&self, drop: bool) {
        self.shared.state().drop_requests = drop;
    }

    /// Swallows what the server answers, while connections stay open.
    pub fn drop_replies(&self, drop: bool) {
        self.shared.state().drop_replies = drop;
    }
}

impl Drop for TcpProxy {
    fn drop(&mut self) {
        self.shared.state().ended = true;
        self.cut();
        // Wakes the thread that accepts.
        let _already_gone = TcpStream::connect(self.address);
    }
}

fn accept(listener: &TcpListener, port: u16, shared: &Arc<Shared>) {
    for client in listener.incoming() {
        let (ended, refusing, generation) = {
            let state = shared.state();
            (state.ended, state.refusing, state.generation)
        };
        if ended {
            return;
        }
        let Ok(client) = client else { continue };
        if refusing {
            continue;
        }
        let Ok(server) = TcpStream::connect(("127.0.0.1", port)) else { continue };
        let link = Arc::new(Link { client, server, generation, reply_doomed: Mutex::new(false) });
        for direction in [Direction::Request, Direction::Reply] {
            let (link, shared) = (Arc::clone(&link), Arc::clone(shared));
            thread::spawn(move || link.forward(direction, &shared));
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Request,
    Reply,
}

struct Link {
    client: TcpStream,
    server: TcpStream,
    generation: u64,
    /// The answer to what went through is the end of this connection.
    reply_doomed: Mutex<bool>,
}

impl Link {
    fn forward(&self, direction: Direction, shared: &Shared) {
        let (mut from, mut to) = match direction {
            Direction::Request => (&self.client, &self.server),
            Direction::Reply => (&self.server, &self.client),
        };
        let _without_it_cuts_come_late = from.set_read_timeout(Some(LOOK_PAUSE));
        let _slower = to.set_nodelay(true);
        let mut buffer = [0; 16 * 1024];
        loop {
            let read = from.read(&mut buffer);
            if shared.state().generation != self.generation {
                break;
            }
            let bytes = match read {
                Ok(0) => break,
                Ok(count) => &buffer[..count],
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => continue,
                Err(_) => break,
            };
            let (delay, dropped) = {
                let state = shared.state();
                let dropped = match direction {
                    Direction::Request => state.drop_requests,
                    Direction::Reply => state.drop_replies,
                };
                (state.delay, dropped)
            };
            if !delay.is_zero() {
                thread::sleep(delay);
            }
            let is_cut = match direction {
                Direction::Request => self.request_is_cut(bytes, shared),
                Direction::Reply => *self.reply_doomed.lock().unwrap_or_else(PoisonError::into_inner),
            };
            if is_cut {
                shared.state().cuts_done += 1;
                break;
            }
            if !dropped && to.write_all(bytes).is_err() {
                break;
            }
        }
        let _already_gone = self.client.shutdown(Shutdown::Both);
        let _already_gone = self.server.shutdown(Shutdown::Both);
    }

    /// Decides by what a client sends. Only bytes of one write are looked at.
    fn request_is_cut(&self, bytes: &[u8], shared: &Shared) -> bool {
        let mut state = shared.state();
        let holds = |wanted: &[u8]| bytes.windows(wanted.len().max(1)).any(|window| window == wanted);
        match &state.cut {
            Some(Cut::BeforeRequest(wanted)) if holds(wanted) => {
                state.cut = None;
                true
            }
            Some(Cut::ReplyTo(wanted)) if holds(wanted) => {
                *self.reply_doomed.lock().unwrap_or_else(PoisonError::into_inner) = true;
                state.cut = None;
                false
            }
            _ => false,
        }
    }
}
