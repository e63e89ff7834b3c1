//! What the tests of the command share.
use std::path::Path;
use std::time::Duration;

use assert_cmd::Command;
use serde_json::Value;

use kit::wait::HANG;

/// Arguments of a command: a list, or one string with spaces between them.
pub trait Words {
    fn words(&self) -> Vec<&str>;
}

impl Words for &str {
    fn words(&self) -> Vec<&str> {
        self.split_whitespace().collect()
    }
}

impl Words for &String {
    fn words(&self) -> Vec<&str> {
        self.split_whitespace().collect()
    }
}

impl Words for &[&str] {
    fn words(&self) -> Vec<&str> {
        self.to_vec()
    }
}

impl<const N: usize> Words for &[&str; N] {
    fn words(&self) -> Vec<&str> {
        self.to_vec()
    }
}

/// The command, without the environment variables that change its output.
pub fn vmbell(words: impl Words) -> Command {
    let mut command = Command::cargo_bin("vmbell").expect("the binary is built with the tests");
    command
        .args(words.words())
        .env_remove("NO_COLOR")
        .env_remove("COLUMNS")
        .timeout(HANG);
    command
}

/// A time as an argument.
pub fn argument(time: Duration) -> String {
    format!("{}ms", time.as_millis())
}

/// `bench` with entries that take no time.
pub fn quick(words: impl Words) -> Command {
    let mut command = vmbell("bench --runs 3 --min-time 1ms");
    command.args(words.words());
    command
}

/// What the command printed.
pub fn stdout(command: &mut Command) -> String {
    let output = command.output().expect("the command runs");
    String::from_utf8(output.stdout).expect("output is UTF-8")
}

/// What the command printed, as JSON.
pub fn json(command: &mut Command) -> Value {
    serde_json::from_str(&stdout(command)).expect("the output is JSON")
}

/// A file as JSON.
pub fn read_json(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).expect("the file was written");
    serde_json::from_str(&text).expect("the file is JSON")
}
