//! The harness of real servers keeps its promises.
#![allow(clippy::unwrap_used)]

use inbox_testkit::servers::{Cut, PostgresServer, TcpProxy};
use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::Path,
    time::Duration,
};

#[test]
fn a_server_survives_kill_and_pause_with_its_data() {
    let server = PostgresServer::start();
    let database = server.database();
    database.query("CREATE TABLE kept (what text); INSERT INTO kept VALUES ('a')");
    server.kill();
    server.start_again();
    assert_eq!(database.query("SELECT what FROM kept"), "a");
    server.pause();
    let mut connection = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    connection.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    // A request for TLS, which a server that runs answers with one letter.
    connection.write_all(&[0, 0, 0, 8, 4, 210, 22, 47]).unwrap();
    assert!(connection.read(&mut [0]).is_err(), "nobody answers");
    server.resume();
    assert_eq!(database.query("SELECT count(*) FROM kept"), "1");
    server.stop();
    server.start_again();
    assert_eq!(database.query("SELECT what FROM kept"), "a");
}

#[test]
fn nothing_is_left_after_a_panic() {
    let (send, receive) = std::sync::mpsc::channel();
    let ended = std::thread::spawn(move || {
        let server = PostgresServer::start();
        send.send(server.query("SHOW data_directory")).unwrap();
        panic!("on purpose");
    });
    let folder = receive.recv().unwrap();
    assert!(ended.join().is_err());
    assert!(!Path::new(&folder).exists());
}

fn echo() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            std::thread::spawn(move || {
                let mut bytes = [0; 100];
                while let Ok(count @ 1..) = connection.read(&mut bytes) {
                    connection.write_all(&bytes[..count]).unwrap();
                }
            });
        }
    });
    port
}

fn ask(connection: &mut TcpStream, what: &str) -> Option<String> {
    connection.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let mut answer = vec![0; what.len()];
    connection.write_all(what.as_bytes()).and_then(|()| connection.read_exact(&mut answer)).ok()?;
    Some(String::from_utf8(answer).unwrap())
}

#[test]
fn a_proxy_forwards_cuts_swallows_and_refuses() {
    let proxy = TcpProxy::to_port(echo());
    let connect = || TcpStream::connect(proxy.address()).unwrap();
    let mut connection = connect();
    assert_eq!(ask(&mut connection, "a").as_deref(), Some("a"));
    proxy.drop_replies(true);
    assert_eq!(ask(&mut connection, "b"), None);
    proxy.drop_replies(false);
    proxy.cut_at(Cut::ReplyTo(b"COMMIT".to_vec()));
    assert_eq!(ask(&mut connect(), "a").as_deref(), Some("a"));
    assert_eq!(ask(&mut connect(), "x COMMIT"), None);
    assert_eq!(ask(&mut connect(), "x COMMIT").as_deref(), Some("x COMMIT"), "once");
    proxy.cut_at(Cut::BeforeRequest(b"COMMIT".to_vec()));
    assert_eq!(ask(&mut connect(), "COMMIT"), None);
    let mut connection = connect();
    assert_eq!(ask(&mut connection, "a").as_deref(), Some("a"));
    proxy.cut();
    assert_eq!(ask(&mut connection, "a"), None);
    proxy.refuse(true);
    assert_eq!(ask(&mut connect(), "a"), None);
    proxy.refuse(false);
    assert_eq!(ask(&mut connect(), "a").as_deref(), Some("a"));
}
