//! What the command says about wrong invocations, compared with files.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Stands for the folder of a case, in arguments and in golden files.
pub const DIR: &str = "DIR";

/// The options of a run that works, but for what a case adds or replaces.
const FROM: [&str; 2] = ["--from", "file:DIR/orders.jsonl"];
const INTO: [&str; 2] = ["--into", "sqlite:DIR/shop.db"];
const GROUP: [&str; 2] = ["--group", "billing"];
const INIT: [&str; 2] = ["--init", "DIR/schema.sql"];
const SQL: [&str; 2] = ["--sql", "INSERT INTO invoices VALUES (:order_id, :amount)"];

/// The arguments of a run: `more` behind the options that it does not give itself.
pub fn run(more: &[&str]) -> Vec<String> {
    let mut args = vec!["run"];
    for option in [FROM, INTO, GROUP, INIT, SQL] {
        if !more.contains(&option[0]) {
            args.extend(option);
        }
    }
    args.extend(more);
    args.into_iter().map(str::to_owned).collect()
}

pub fn args(args: &[&str]) -> Vec<String> {
    args.iter().map(|arg| (*arg).to_owned()).collect()
}

/// A run without one of its options.
pub fn without(option: &str) -> Vec<String> {
    let mut args = run(&[]);
    let at = args.iter().position(|arg| arg == option).unwrap();
    args.drain(at..at + 2);
    args
}

/// Compares what is told in each case with its file in a folder; no file may be left over.
pub fn check(folder: &str, cases: Vec<(&str, Vec<String>)>, tell: impl Fn(&str, &[String]) -> String) {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(folder);
    let mut wrong = Vec::new();
    for (name, args) in &cases {
        wrong.extend(differs(&golden.join(name).with_extension("txt"), &tell(name, args)));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for entry in fs::read_dir(golden).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        assert!(cases.iter().any(|(case, _)| *case == name), "{} belongs to no case", path.display());
    }
}

fn differs(path: &PathBuf, told: &str) -> Option<String> {
    if env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(path, told).unwrap();
        return None;
    }
    let expected = fs::read_to_string(path).unwrap_or_default();
    (expected != told).then(|| format!("{}\nexpected: {expected}\nfound: {told}", path.display()))
}

pub fn fixtures() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    file("orders.jsonl", "{\"id\":\"o-1\",\"order_id\":1,\"amount\":100}\n");
    file("schema.sql", "CREATE TABLE invoices (order_id BIGINT NOT NULL, amount BIGINT NOT NULL);");
    file("bad.sql", "CREATE TABLE invoices (order_id BIGINT);\nCREATE TABEL other (a);");
    file("commit.sql", "CREATE TABLE invoices (order_id BIGINT);\nCOMMIT;");
    file("twice.sql", "CREATE TABLE invoices (order_id BIGINT);\nCREATE TABLE invoices (order_id BIGINT);");
    #[cfg(unix)]
    assert!(Command::new("mkfifo").arg(folder.path().join("pipe")).status().unwrap().success());
    // An empty file is an empty database.
    file("other.db", "");
    fs::create_dir(folder.path().join("folder")).unwrap();
    folder
}

/// The exit code and the one line on stderr.
pub fn inbox(name: &str, args: impl Iterator<Item = String>) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_inbox"));
    let output = command.args(args).env_remove("RUST_BACKTRACE").output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(stderr.lines().count(), 1, "{name}: {stderr}");
    assert!(output.stdout.is_empty(), "{name} wrote to stdout");
    format!("exit {}\n{stderr}", output.status.code().unwrap())
}
