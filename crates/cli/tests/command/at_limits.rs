//! `vmbell lab` at its fixed time limits of about 15 s. Tests begin in the order of their names, so these tests wait
//! while all others run.

use std::fs;

use assert_cmd::assert::OutputAssertExt;

use super::lab::ends::begins;
use super::lab::support::{self, Sandbox};
use kit::wait::await_that;

#[test]
fn a_program_that_hangs_in_an_l1_that_hangs_is_told_with_its_times() {
    let sandbox = Sandbox::new();
    let qemu = sandbox.qemu("9.0.0", &begins("echo stuck; exec sleep 1000"));
    let mut command = sandbox.run(&qemu);
    command.args(["--timeout", "2", "--", "/bin/true"]);
    let assert = command.assert().code(124).stdout("partial\n");
    let said = String::from_utf8_lossy(&assert.get_output().stderr);
    let (_, began) = said.split_once("the program started at ").expect(&said);
    let message = " s and did not end: its limit is 2 s (--timeout), and L1 does not answer; its console ends with:\n  | stuck";
    let (seconds, _) = began.split_once(message).expect(&said);
    assert!(seconds.parse::<f64>().is_ok(), "{said}");
}

#[test]
fn sources_that_never_answer_are_told_after_some_seconds_and_given_up() {
    let sandbox = Sandbox::new();
    // apt starts other programs to fetch files.
    let update = "sleep 600 & echo $! > $root/method; wait";
    sandbox.apt(update, "exit 100", "exit 100");
    let mut vmbell = sandbox
        .vmbell()
        .args(["lab", "prepare"])
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let said = std::io::BufReader::new(vmbell.stderr.take().unwrap());
    let mut lines = std::io::BufRead::lines(said).map(Result::unwrap);
    assert_eq!(lines.next().unwrap(), "lab: fetching the package indexes");
    assert_eq!(
        lines.next().unwrap(),
        "lab: no answer from the package sources yet: is there a network, or a proxy to be set?"
    );
    assert_eq!(
        lines.next().unwrap(),
        "error: cannot fetch the package indexes: no answer within 15 s"
    );
    assert_eq!(vmbell.wait().unwrap().code(), Some(125));
    let method = fs::read_to_string(sandbox.path("method")).unwrap();
    await_that("the end of what apt-get started", || {
        support::is_gone(&method)
    });
}
