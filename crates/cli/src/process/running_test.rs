use std::cell::Cell;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::*;
use crate::process::find;

const MOST: usize = 1 << 16;
const LONG: Duration = Duration::from_secs(120);

/// Waits until the program has printed the mark.
fn reach(
    running: &mut RunningProgram,
    mark: &str,
    limit: Duration,
    stop: &CommandLimit,
) -> Reached {
    let is_found = |piece: &[u8]| find(piece, mark).is_some();
    running
        .until(is_found, &mut TimeLeft::new(limit), stop)
        .unwrap()
}

fn shell(script: &str) -> RunningProgram {
    let words = ["/bin/sh", "-c", script].map(OsString::from);
    RunningProgram::start(&words, MOST, &[]).unwrap()
}

#[test]
fn a_program_goes_on_after_its_mark() {
    let mut running = shell("echo first; sleep 0.1; echo second; sleep 1000");
    for mark in ["first", "second"] {
        let reached = reach(&mut running, mark, LONG, &CommandLimit::none());
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
        let reached = reach(&mut running, "mark", limit, &CommandLimit::none());
        assert_eq!(reached, Reached::End(end), "{script}");
    }
}

#[test]
fn a_signal_to_the_command_ends_the_wait() {
    static STOP: AtomicBool = AtomicBool::new(true);
    let stop = CommandLimit::new(None, &STOP);
    let reached = reach(&mut shell("sleep 1000"), "mark", LONG, &stop);
    assert_eq!(reached, Reached::End(Some(ProgramEnd::Stopped)));
}

#[test]
fn complete_lines_are_forgotten() {
    let mut running = shell("printf 'one\\ntwo\\nthr'; sleep 1000");
    assert_eq!(
        reach(&mut running, "thr", LONG, &CommandLimit::none()),
        Reached::Mark
    );
    running.forget_lines();
    running.read_output().unwrap();
    assert_eq!(running.printed(), [&b"thr"[..], b""]);
}

#[test]
fn a_mark_of_a_program_that_has_exited_is_found() {
    let mut running = shell("echo mark");
    std::thread::sleep(Duration::from_millis(200));
    let reached = reach(&mut running, "mark", LONG, &CommandLimit::none());
    assert_eq!(reached, Reached::Mark);
}

#[test]
fn no_byte_is_searched_again_but_the_end_of_a_piece() {
    let mut running =
        shell("for i in 1 2 3 4 5 6 7 8; do printf %0500d 0; sleep 0.05; done; echo mark");
    let searched = Cell::new(0);
    let is_found = |piece: &[u8]| {
        searched.set(searched.get() + piece.len().saturating_sub(LONGEST_MARK));
        find(piece, "mark").is_some()
    };
    let reached = running.until(is_found, &mut TimeLeft::new(LONG), &CommandLimit::none());
    assert_eq!(reached.unwrap(), Reached::Mark);
    assert!(searched.get() <= 8 * 500 + 5, "{}", searched.get());
}

#[test]
fn a_mark_in_two_pieces_is_found() {
    let mut running = shell("printf %0500d 0; printf ma; sleep 0.2; printf rk; sleep 1000");
    let reached = reach(&mut running, "mark", LONG, &CommandLimit::none());
    assert_eq!(reached, Reached::Mark);
}

#[test]
fn a_program_that_is_dropped_is_killed() {
    let mut running = shell("echo mark; sleep 1000");
    reach(&mut running, "mark", LONG, &CommandLimit::none());
    let id = running.id();
    drop(running);
    assert!(!std::path::Path::new(&format!("/proc/{id}")).exists());
}
