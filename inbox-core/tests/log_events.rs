//! The names of log events are documented, and those that are documented are logged.

use std::{fs, path::Path};

fn sources(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.extend(fs::read_to_string(&path));
        }
    }
}

#[test]
fn documented_events_are_those_that_are_logged_loudly() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let page = fs::read_to_string(src.join("runner/mod.rs")).unwrap_or_default();
    let documented: Vec<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("//! | `"))
        .filter_map(|row| row.split_once('`').map(|(name, _)| name))
        .collect();
    assert!(documented.len() > 10, "{documented:?}");
    let mut files = Vec::new();
    sources(&src, &mut files);
    for name in &documented {
        let literal = format!("\"{name}\"");
        assert!(files.iter().any(|text| text.contains(&literal)), "{name} is documented and not logged");
    }
    // What wakes somebody up has to stand in the table: whatever the run itself warns about.
    let quiet = ["failed", "panicked", "took"];
    for text in &files {
        for call in text.split("tracing::warn!(").skip(1) {
            let call = call.split(");").next().unwrap_or_default();
            let name = call.rsplit('"').nth(1).unwrap_or_default();
            let is_minor = quiet.iter().any(|word| name.split(' ').any(|part| part == *word));
            assert!(documented.contains(&name) || is_minor, "{name:?} is logged and not documented");
        }
    }
}
