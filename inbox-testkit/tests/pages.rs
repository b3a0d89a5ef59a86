//! What the pages under `docs` say about tests and names is there.

use inbox_core::ProbePoint;
use std::{fs, path::Path};

const STATE_MACHINE: &str = include_str!("../../docs/state-machine.md");

#[test]
fn the_tests_that_the_state_machine_page_names_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let named: Vec<(&str, &str)> =
        STATE_MACHINE.split('`').filter_map(|quoted| quoted.split_once(".rs::")).collect();
    assert!(named.len() >= 15, "{named:?}");
    for (file, test) in named {
        let code =
            fs::read_to_string(root.join(format!("{file}.rs"))).unwrap_or_else(|e| panic!("{file}: {e}"));
        assert!(code.contains(&format!("fn {test}(")), "{file}.rs has no test {test}");
    }
}

#[test]
fn the_state_machine_page_names_every_probe_point() {
    for point in ProbePoint::ALL {
        assert!(STATE_MACHINE.contains(&format!("`{}`", point.name())), "{}", point.name());
    }
}
