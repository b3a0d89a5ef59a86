//! The harness of real servers keeps its promises.
#![allow(clippy::unwrap_used)]

use inbox_testkit::servers::{Cut, KafkaServer, PostgresServer, RabbitServer, RedisServer, TcpProxy};
use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// A request for TLS, which PostgreSQL answers with one letter.
const ASK_POSTGRES: &[u8] = &[0, 0, 0, 8, 4, 210, 22, 47];
const ASK_REDIS: &[u8] = b"PING\r\n";
const ASK_RABBITMQ: &[u8] = b"AMQP\0\0\x09\x01";
/// Which versions of requests it takes: request 18 in version 0, number 7, of nobody.
const ASK_KAFKA: &[u8] = &[0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 7, 255, 255];

/// How long something that surely happens may take.
const SURELY: Duration = Duration::from_secs(60);

fn asked(port: u16, request: &[u8]) -> TcpStream {
    let mut connection = TcpStream::connect(("127.0.0.1", port)).unwrap();
    connection.write_all(request).unwrap();
    connection
}

fn answers(mut connection: &TcpStream, within: Duration) -> bool {
    connection.set_read_timeout(Some(within)).unwrap();
    connection.read_exact(&mut [0]).is_ok()
}

/// Between the two, nobody answers, and the answer comes after the second.
fn pauses(port: u16, request: &[u8], pause: impl FnOnce(), resume: impl FnOnce()) {
    assert!(answers(&asked(port, request), SURELY));
    pause();
    let connection = asked(port, request);
    assert!(!answers(&connection, Duration::from_millis(50)), "nobody answers");
    resume();
    assert!(answers(&connection, SURELY));
}

#[test]
fn postgresql_survives_kill_and_pause_with_its_data() {
    let server = PostgresServer::start();
    let database = server.database();
    database.query("CREATE TABLE kept (what text); INSERT INTO kept VALUES ('a')");
    server.kill();
    server.start_again();
    assert_eq!(database.query("SELECT what FROM kept"), "a");
    pauses(server.port(), ASK_POSTGRES, || server.pause(), || server.resume());
    assert_eq!(database.query("SELECT count(*) FROM kept"), "1");
    server.stop();
    server.start_again();
    assert_eq!(database.query("SELECT what FROM kept"), "a");
}

#[test]
fn redis_survives_kill_and_pause_with_its_data() {
    let server = RedisServer::start();
    assert_eq!(server.query(&["SET", "kept", "a"]), "OK");
    server.kill();
    server.start_again();
    assert_eq!(server.query(&["GET", "kept"]), "a");
    pauses(server.port(), ASK_REDIS, || server.pause(), || server.resume());
    server.stop();
    server.start_again();
    assert_eq!(server.query(&["GET", "kept"]), "a");
}

#[test]
fn rabbitmq_survives_kill_and_pause_with_its_data() {
    let server = RabbitServer::start();
    server.control(&["add_vhost", "kept"]);
    server.kill();
    server.start_again();
    let kept = || server.control(&["list_vhosts"]).lines().any(|line| line == "kept");
    assert!(kept());
    pauses(server.port(), ASK_RABBITMQ, || server.pause(), || server.resume());
    server.stop();
    server.start_again();
    assert!(kept());
}

#[test]
fn kafka_survives_kill_and_pause() {
    let server = KafkaServer::start();
    assert_eq!(server.bootstrap(), format!("127.0.0.1:{}", server.port()));
    server.kill();
    assert!(TcpStream::connect(server.bootstrap()).is_err());
    server.start_again();
    pauses(server.port(), ASK_KAFKA, || server.pause(), || server.resume());
    server.stop();
    server.start_again();
    assert!(answers(&asked(server.port(), ASK_KAFKA), SURELY));
}

#[test]
fn a_server_that_runs_is_not_started_again() {
    let server = RedisServer::start();
    let again = server.clone();
    let refused = std::thread::spawn(move || again.start_again()).join().unwrap_err();
    let said = refused.downcast_ref::<String>().unwrap();
    assert_eq!(said, "Redis runs already: stop or kill it first");
    assert_eq!(server.query(&["PING"]), "PONG");
}

#[test]
fn servers_that_exist_are_used_and_not_ended() {
    let redis = RedisServer::start();
    let theirs = RedisServer::existing(redis.url().to_owned());
    assert_eq!(theirs.query(&["PING"]), "PONG");
    let refused = std::thread::spawn(move || theirs.kill()).join().unwrap_err();
    assert_eq!(
        refused.downcast_ref::<String>().unwrap(),
        "the server of INBOX_TEST_REDIS_URL cannot be killed by a test: unset it for this test"
    );
    assert_eq!(redis.query(&["PING"]), "PONG");
    let rabbit = RabbitServer::start();
    assert_eq!(RabbitServer::existing(rabbit.url().to_owned()).url(), rabbit.url());
    let kafka = KafkaServer::start();
    // The first of them is down.
    let both = format!("127.0.0.1:{},{}", inbox_testkit::servers::free_port(), kafka.bootstrap());
    assert_eq!(KafkaServer::existing(both.clone()).bootstrap(), both);
}

#[test]
fn a_server_that_does_not_answer_is_a_failure_that_names_its_variable() {
    let nobody = format!("127.0.0.1:{}", inbox_testkit::servers::free_port());
    let said = |panicked: std::thread::Result<()>| *panicked.unwrap_err().downcast::<String>().unwrap();
    let url = format!("postgres://postgres:secret@{nobody}/postgres");
    let postgres = said(std::thread::spawn(move || drop(PostgresServer::existing(url))).join());
    let url = format!("redis://:secret@{nobody}/");
    let redis = said(std::thread::spawn(move || drop(RedisServer::existing(url))).join());
    let url = format!("amqp://guest:secret@{nobody}/%2f");
    let rabbit = said(std::thread::spawn(move || drop(RabbitServer::existing(url))).join());
    let kafka = said(std::thread::spawn(move || drop(KafkaServer::existing(nobody))).join());
    for (said, variable) in [
        (postgres, "INBOX_TEST_POSTGRES_URL"),
        (redis, "INBOX_TEST_REDIS_URL"),
        (rabbit, "INBOX_TEST_RABBITMQ_URL"),
        (kafka, "INBOX_TEST_KAFKA"),
    ] {
        assert!(said.contains("does not answer") && said.contains(variable), "{said}");
        assert!(!said.contains("secret") && said.lines().count() == 1, "{said}");
    }
}

/// The processes that work in a folder, also in one that is gone.
fn processes_in(folder: &Path) -> Vec<PathBuf> {
    let all = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let works_there = |process: &PathBuf| {
        std::fs::read_link(process.join("cwd")).is_ok_and(|at| {
            at.starts_with(folder) || at.to_string_lossy() == format!("{} (deleted)", folder.display())
        })
    };
    all.filter(works_there).collect()
}

macro_rules! nothing_is_left_after_a_panic {
    ($($name:ident: $server:ty),* $(,)?) => {$(
        #[test]
        fn $name() {
            let (send, receive) = std::sync::mpsc::channel();
            let ended = std::thread::spawn(move || {
                let server = <$server>::start();
                let folder = server.folder().to_owned();
                send.send((folder.clone(), server.port(), processes_in(&folder).len())).unwrap();
                panic!("on purpose");
            });
            let (folder, port, processes) = receive.recv().unwrap();
            assert!(ended.join().is_err());
            assert!(processes > 0);
            assert_eq!(processes_in(&folder), <Vec<PathBuf>>::new());
            assert!(!folder.exists());
            assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
            let log = folder.with_extension("log");
            assert!(!std::fs::read(&log).unwrap().is_empty(), "a test that fails leaves the log");
            std::fs::remove_file(log).unwrap();
        }
    )*};
}

nothing_is_left_after_a_panic! {
    nothing_is_left_of_postgresql_after_a_panic: PostgresServer,
    nothing_is_left_of_redis_after_a_panic: RedisServer,
    nothing_is_left_of_rabbitmq_after_a_panic: RabbitServer,
    nothing_is_left_of_kafka_after_a_panic: KafkaServer,
}

/// This test program again, for one of its tests alone.
fn program_of(test: &str, variable: &str, value: &str) -> Command {
    let mut program = Command::new(std::env::current_exe().unwrap());
    program.args(["--exact", test, "--nocapture"]).env(variable, value);
    for url in ["INBOX_TEST_REDIS_URL", "INBOX_TEST_RABBITMQ_URL", "INBOX_TEST_KAFKA"] {
        program.env_remove(url);
    }
    program
}

/// In the program where nothing is installed: what it asks for.
const ASKS_FOR: &str = "INBOX_TEST_ASKS_FOR";

#[test]
fn a_missing_server_is_a_failure_that_says_what_to_install() {
    match std::env::var(ASKS_FOR).as_deref() {
        Ok("Redis") => drop(RedisServer::shared()),
        Ok(_) => drop(KafkaServer::shared()),
        Err(_) => {
            for (server, install) in [
                ("Redis", "apt-get install redis-server"),
                ("Kafka", "apt-get install default-jre-headless maven"),
            ] {
                let test = "a_missing_server_is_a_failure_that_says_what_to_install";
                let ended = program_of(test, ASKS_FOR, server).env("PATH", "").output().unwrap();
                assert!(!ended.status.success());
                let said = String::from_utf8_lossy(&ended.stderr);
                assert!(said.lines().any(|line| line.contains(server) && line.contains(install)), "{said}");
            }
        }
    }
}

/// In the program that is to be killed.
const VICTIM: &str = "INBOX_TEST_VICTIM";

#[test]
fn nothing_is_left_of_a_program_that_is_killed() {
    if std::env::var_os(VICTIM).is_some() {
        for folder in [RedisServer::shared().folder(), RabbitServer::shared().folder()] {
            println!("folder {}", folder.display());
        }
        println!("ready");
        // Until it is killed; its input ends with whoever would do that.
        std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
        return;
    }
    let mut program = program_of("nothing_is_left_of_a_program_that_is_killed", VICTIM, "1");
    let mut program = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let said = BufReader::new(program.stdout.take().unwrap()).lines().map(Result::unwrap);
    let said: Vec<String> = said.take_while(|line| line != "ready").collect();
    let folders: Vec<&Path> =
        said.iter().filter_map(|line| line.split_once("folder ")).map(|(_, path)| Path::new(path)).collect();
    assert_eq!(folders.len(), 2, "{said:?}");
    assert!(folders.iter().all(|folder| !processes_in(folder).is_empty()));
    program.kill().unwrap();
    program.wait().unwrap();
    let asked = Instant::now();
    while folders.iter().any(|folder| folder.exists() || !processes_in(folder).is_empty()) {
        assert!(asked.elapsed() < SURELY, "the watchers end everything");
        std::thread::sleep(Duration::from_millis(10));
    }
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
