//! Real processes and real ends: consumers that are killed, servers that are killed, connections that are cut, and
//! eight consumers of the same messages. The effects are not idempotent: a table without a key, and a counter.
//!
//! This program is its own consumer process: it is started again with what to do in its environment.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod consumer;
mod ends;
mod kills;
mod rivals;
mod work;

use libtest_mimic::{Arguments, Trial};

fn main() {
    if consumer::is_wanted() {
        return consumer::live();
    }
    let tests: [(&str, fn()); 4] = [
        ("each_message_has_one_effect_after_60_kills", kills::each_message_has_one_effect_after_60_kills),
        ("each_message_has_one_effect_whatever_ends_the_server", ends::whatever_ends_the_server),
        ("each_message_has_one_effect_whatever_the_proxy_cuts", ends::whatever_the_proxy_cuts),
        ("eight_processes_with_the_same_messages_apply_each_once", rivals::apply_each_once),
    ];
    let trials = tests.map(|(name, test)| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.into()).exit();
}
