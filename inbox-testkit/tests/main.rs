//! The tests of the kit, and of the runner over what the kit has, in one program: what they share is compiled once.
//! Bugs that are planted into the runner are planted for a whole process and have a program of their own, `mutants.rs`; so have
//! the real servers.

#![allow(clippy::unwrap_used)]

mod broker_suite;
mod check;
mod clauses;
mod common;
mod crash;
mod enumerated;
mod enumeration;
mod fake_broker;
mod harness;
mod identity;
mod memory_store;
mod oracle;
mod pages;
mod rig;
mod runner_batch;
mod runner_bounds;
mod runner_breaker;
mod runner_builder;
mod runner_chaos;
mod runner_checkpoints;
mod runner_control;
mod runner_copies;
mod runner_defects;
mod runner_doubt;
mod runner_enumeration;
mod runner_failures;
mod runner_handlers;
mod runner_metrics;
mod runner_middleware;
mod runner_order;
mod runner_rebalance;
mod runner_router;
mod runner_setbacks;
mod runner_shutdown;
mod runner_strategies;
mod runner_suspects;
mod runner_trouble;
mod saboteurs;
mod simulation;
mod store_suite;
mod stored;
mod toy_backend;
