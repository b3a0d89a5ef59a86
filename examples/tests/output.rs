//! What the examples print is part of the promise.

use std::process::Command;

fn stdout_of(program: &str) -> String {
    let output = Command::new(program).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn one_message_published_twice() {
    assert_eq!(
        stdout_of(env!("CARGO_BIN_EXE_published_twice")),
        "delivery 1 processed=true duplicate=false committed=true invoices=1\n\
         delivery 2 processed=false duplicate=true committed=true invoices=1\n"
    );
}

/// The values that a published study measured, on every strategy.
#[test]
fn the_table_of_strategies() {
    assert_eq!(
        stdout_of(env!("CARGO_BIN_EXE_strategies")),
        "| strategy | first run | second consumer | handler ran | invoices |\n\
         |---|---|---|---|---|\n\
         | at most once | processed=false committed=true | nothing delivered | 1 | 0 |\n\
         | at least once, on persist | processed=false committed=true | nothing delivered | 1 | 0 |\n\
         | at least once, on success | processed=false committed=false | processed=true | 2 | 1 |\n\
         | exactly once (inbox) | processed=false committed=false | processed=true | 2 | 1 |\n\
         \n\
         One message published twice, exactly once:\n\
         delivery 1 processed=true duplicate=false committed=true invoices=1\n\
         delivery 2 processed=false duplicate=true committed=true invoices=1\n"
    );
}

/// The program in the README is the one that is compiled here.
#[test]
fn the_readme_shows_the_consumer_as_it_is() {
    let readme = include_str!("../../README.md");
    let program = include_str!("../src/bin/consumer.rs");
    assert!(
        readme.contains(&format!("```rust\n{program}```")),
        "copy examples/src/bin/consumer.rs into README.md"
    );
    assert!(program.lines().count() <= 44, "the README promises a short program");
}
