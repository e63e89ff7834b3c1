//! What the tests of the command share.
use std::path::Path;
use std::time::Duration;

use assert_cmd::Command;
use serde_json::Value;

use kit::wait::HANG;

/// The command, without the environment variables that change its output.
pub fn vmbell(args: &[&str]) -> Command {
    let mut command = Command::cargo_bin("vmbell").expect("the binary is built with the tests");
    command
        .args(args)
        .env_remove("NO_COLOR")
        .env_remove("COLUMNS")
        .timeout(HANG);
    command
}

/// A time as an argument.
pub fn argument(time: Duration) -> String {
    format!("{}ms", time.as_millis())
}

/// `bench` of entries that take no time.
pub fn quick(args: &[&str]) -> Command {
    let mut command = vmbell(&["bench", "--runs", "3", "--min-time", "1ms"]);
    command.args(args);
    command
}

/// What the command printed.
pub fn stdout(command: &mut Command) -> String {
    let output = command.output().expect("the command runs");
    String::from_utf8(output.stdout).expect("output is UTF-8")
}

/// A file as JSON.
pub fn read_json(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).expect("the file was written");
    serde_json::from_str(&text).expect("the file is JSON")
}
