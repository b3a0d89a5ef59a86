//! Contracts name their cases, and every case is named by a clause.

use inbox_testkit::suite::{broker, store};
use std::collections::BTreeSet;

/// The names in backticks in the documentation of a contract that are written like cases.
fn named(sources: &[&str]) -> BTreeSet<String> {
    let docs = sources.iter().flat_map(|source| source.lines()).filter_map(|line| line.strip_prefix("/// "));
    let docs: Vec<&str> = docs.collect();
    let text = docs.join("\n");
    let parts: Vec<&str> = text.split('`').collect();
    let is_name = |name: &str| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    let is_case = |name: &str| name.contains('_') || ["keys", "headers", "tombstones"].contains(&name);
    // Names between backticks have odd numbers; those of links to methods are followed by the target.
    let names = parts.iter().zip(&parts[1..]).skip(1).step_by(2);
    names
        .filter(|(name, behind)| is_name(name) && is_case(name) && !behind.starts_with("]("))
        .map(|(name, _)| (*name).to_owned())
        .collect()
}

fn set(cases: &[&str]) -> BTreeSet<String> {
    cases.iter().map(|case| (*case).to_owned()).collect()
}

#[test]
fn every_case_is_named_by_a_clause_and_every_name_is_a_case() {
    let brokers = [include_str!("../../inbox-core/src/broker.rs")];
    assert_eq!(named(&brokers), set(broker::CASES));
    let stores = [
        include_str!("../../inbox-core/src/store.rs"),
        include_str!("../../inbox-core/src/letters.rs"),
        include_str!("../../inbox-core/src/checkpoint.rs"),
    ];
    assert_eq!(named(&stores), set(store::CASES));
}
