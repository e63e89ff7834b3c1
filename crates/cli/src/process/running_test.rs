use std::sync::atomic::AtomicBool;

use super::*;

const MOST: usize = 1 << 16;
const LONG: Duration = Duration::from_secs(120);

fn shell(script: &str) -> RunningProgram {
    let words = ["/bin/sh", "-c", script].map(OsString::from);
    RunningProgram::start(&words, MOST, &[]).unwrap()
}

#[test]
fn a_program_goes_on_after_its_mark() {
    let mut running = shell("echo first; sleep 0.1; echo second; sleep 1000");
    for mark in ["first", "second"] {
        let reached = running.wait_for(mark, LONG, &CommandLimit::none()).unwrap();
        assert_eq!(reached, Reached::Mark, "{mark}");
    }
    let ended = running.end(Some(ProgramEnd::Lingered)).unwrap();
    assert_eq!(
        (&ended.output[..], ended.end),
        (&b"first\nsecond\n"[..], ProgramEnd::Lingered)
    );
}

#[test]
fn a_mark_that_does_not_come_is_not_waited_for_without_end() {
    for (script, limit, end) in [
        (
            "echo other; sleep 1000",
            Duration::from_millis(200),
            Some(ProgramEnd::TimeLimit),
        ),
        ("yes", LONG, Some(ProgramEnd::TooMuch)),
        ("exit 3", LONG, None),
    ] {
        let mut running = shell(script);
        let reached = running
            .wait_for("mark", limit, &CommandLimit::none())
            .unwrap();
        assert_eq!(reached, Reached::End(end), "{script}");
    }
}

#[test]
fn a_signal_to_the_command_ends_the_wait() {
    static STOP: AtomicBool = AtomicBool::new(true);
    let stop = CommandLimit::new(None, &STOP);
    let reached = shell("sleep 1000").wait_for("mark", LONG, &stop).unwrap();
    assert_eq!(reached, Reached::End(Some(ProgramEnd::Stopped)));
}

#[test]
fn a_mark_of_a_program_that_has_exited_is_found() {
    let mut running = shell("echo mark");
    std::thread::sleep(Duration::from_millis(200));
    let reached = running
        .wait_for("mark", LONG, &CommandLimit::none())
        .unwrap();
    assert_eq!(reached, Reached::Mark);
}

#[test]
fn a_program_that_is_dropped_is_killed() {
    let mut running = shell("echo mark; sleep 1000");
    running
        .wait_for("mark", LONG, &CommandLimit::none())
        .unwrap();
    let id = running.id();
    drop(running);
    assert!(!std::path::Path::new(&format!("/proc/{id}")).exists());
}
