//! Private servers for tests: processes of this host with data folders of their own, on free loopback
//! ports, which a test can kill, pause and start again.
//!
//! Nothing is skipped: where a server's programs are missing, the test fails and says in one line what to
//! install. Environment variables point a run at a server that exists already; what such a server cannot
//! do (be killed, say) then fails with a clear message.
//!
//! A server ends with its value. One that is shared by all tests of a program, and any whose test dies
//! in whatever way, is ended by a watcher: a process that waits for the end of this one.

// These are helpers of tests: what goes wrong is a panic with a message for people.
#![allow(clippy::panic)]

mod kafka;
mod ports;
mod postgres;
mod process;
mod proxy;
mod rabbitmq;
mod redis;
mod server;

pub use kafka::{Kafka, KafkaServer};
pub use ports::free_port;
pub use postgres::{Postgres, PostgresServer, TestDatabase};
pub use process::ServerProcess;
pub use proxy::{Cut, TcpProxy};
pub use rabbitmq::{Rabbit, RabbitServer};
pub use redis::{Redis, RedisServer};
pub use server::Server;
