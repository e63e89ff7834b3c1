//! Readers of the output that close it before its end, as `head` does.

use std::io::pipe;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::common::quick;
use super::ends::end;

/// Commands that print without a VM. `a.json` is a report.
const COMMANDS: [&str; 24] = [
    "--help",
    "--version",
    "bench --help",
    "bench floor-getppid --runs 3 --min-time 1ms",
    "bench floor-getppid --runs 3 --min-time 1ms --export-json -",
    "bench nonsense",
    "compare a.json a.json",
    "compare a.json a.json --export-json - --fail-above 1%",
    "completions bash",
    "lab --help",
    "lab clean",
    "lab status",
    "lab status --key",
    "lab status --verify",
    "list",
    "list --json",
    "list vmms",
    "man",
    "probe",
    "probe --json",
    "report a.json -o -",
    "report a.json",
    "top --source counters --json -d 0.01",
    "top --source counters --batch -d 0.01",
];

#[test]
fn a_command_whose_reader_has_gone_ends_as_otherwise() {
    let folder = TempDir::new().unwrap();
    let report = folder.path().join("a.json").display().to_string();
    quick(&["floor-getppid", "--style", "none", "--export-json", &report])
        .assert()
        .success();
    for command in COMMANDS {
        let run = |stdout: Stdio, stderr: Stdio| {
            let mut vmbell = Command::new(assert_cmd::cargo::cargo_bin!("vmbell"));
            vmbell
                .args(command.split(' '))
                .current_dir(folder.path())
                .env("XDG_CACHE_HOME", folder.path())
                .stdin(Stdio::null())
                .stdout(stdout)
                .stderr(stderr);
            end(&mut vmbell.spawn().unwrap()).code()
        };
        let gone = || Stdio::from(pipe().unwrap().1);
        // `top` prints without end, so it always has this status.
        let status = match command.starts_with("top") {
            true => run(gone(), Stdio::null()),
            false => run(Stdio::null(), Stdio::null()),
        };
        assert!(matches!(status, Some(0..=2 | 69)), "{command}: {status:?}");
        assert_eq!(run(gone(), Stdio::null()), status, "{command}");
        assert_eq!(run(gone(), gone()), status, "{command} 2>&1");
    }
}
