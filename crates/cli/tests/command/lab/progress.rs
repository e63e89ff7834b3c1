//! Progress records of a program in L1: they draw a bar on a terminal, and nothing otherwise.

use std::io::Read;

use assert_cmd::assert::OutputAssertExt;

use super::support::Sandbox;
use kit::terminal;

/// A QEMU that starts the program, which sends progress records and writes a line, and then runs a script. It needs
/// bash, because dash cannot redirect to descriptors above 9.
fn qemu(then: &str) -> String {
    format!(
        r#"exec bash -c '
    fd() {{ echo "$*" | sed "s/.*id=lab.$1,fd=\([0-9]*\).*/\1/"; }}
    control=$(fd control "$@") stderr=$(fd stderr "$@")
    echo "\"started\"" >&$control; printf "\0363 16 floor-getppid\n" >&$stderr; {then}' bash "$@""#
    )
}

#[test]
fn the_progress_of_a_program_is_a_bar_on_a_terminal() {
    let sandbox = Sandbox::new();
    let (mut screen, terminal) = terminal::open();
    let mut command = sandbox.run(&sandbox.qemu("9.0.0", &qemu("exec sleep 1000")));
    command.args(["--", "/bin/true"]).env("TERM", "xterm");
    let mut lab = command.stderr(terminal).spawn().unwrap();
    // The command's copy of the descriptor would keep the terminal open.
    drop(command);
    let (mut shown, mut piece) = (String::new(), [0; 4096]);
    // The first record says nothing about how long the other steps take.
    while !shown.contains("] 3/16  floor-getppid") {
        let length = screen.read(&mut piece).unwrap_or_default();
        assert_ne!(length, 0, "the lab ended: {shown}");
        shown += &String::from_utf8_lossy(&piece[..length]);
    }
    assert!(!shown.contains('\x1e'), "{shown:?}");
    lab.kill().unwrap();
    lab.wait().unwrap();
}

#[test]
fn the_progress_of_a_program_is_not_in_a_file() {
    let sandbox = Sandbox::new();
    let then = "echo a line >&$stderr; exit 9";
    let mut command = sandbox.run(&sandbox.qemu("9.0.0", &qemu(then)));
    let output = command.args(["--", "/bin/true"]).assert().code(125);
    let said = String::from_utf8_lossy(&output.get_output().stderr).into_owned();
    assert!(said.contains("\na line\n"), "{said}");
    assert!(!said.contains("floor-getppid"), "{said}");
}
