use std::io::ErrorKind;
use std::sync::atomic::AtomicBool;

use super::*;
use kit::wait::await_that;
use vmbell_bench::affinity::allowed_cpus;

/// The limit of a command that a signal asked to end.
fn interrupted() -> CommandLimit {
    static STOP: AtomicBool = AtomicBool::new(true);
    CommandLimit::new(None, &STOP)
}

fn is_done(output: &[u8]) -> bool {
    find(output, "=== done ===").is_some()
}

fn shell(script: &str, limit: Duration, stop: &CommandLimit) -> ProgramOutput {
    let words = ["/bin/sh", "-c", script].map(OsString::from);
    let task = ProgramTask {
        is_complete: &is_done,
        ..ProgramTask::new(&words, limit, stop)
    };
    run(&task).unwrap()
}

const LONG: Duration = Duration::from_secs(120);

/// How a script ends at its limit. It prints something first, so on a busy host the limit may have to be raised.
fn at_its_limit(script: &str) -> ProgramOutput {
    let mut limit = Duration::from_secs(1);
    loop {
        let ended = shell(script, limit, &CommandLimit::none());
        assert_eq!(ended.end, ProgramEnd::TimeLimit);
        if !ended.output.is_empty() || limit > LONG {
            return ended;
        }
        limit *= 2;
    }
}

#[test]
fn a_program_that_ends_leaves_its_words_and_status() {
    let ended = shell(
        "echo out; echo err >&2; exit 3",
        LONG,
        &CommandLimit::none(),
    );
    assert_eq!(
        (&ended.output[..], &ended.errors[..]),
        (&b"out\n"[..], &b"err\n"[..])
    );
    assert!(matches!(ended.end, ProgramEnd::Exited(status) if status.code() == Some(3)));
}

#[test]
fn standard_input_is_a_terminal_that_is_not_at_its_end() {
    let ended = at_its_limit("test -t 0 && echo yes; read line");
    assert_eq!(ended.output, b"yes\n");
}

#[test]
fn a_program_that_prints_without_end_is_ended() {
    let ended = shell(
        "while :; do echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa; done",
        LONG,
        &CommandLimit::none(),
    );
    assert_eq!(
        (ended.output.len(), ended.end),
        (MOST_OUTPUT, ProgramEnd::TooMuch)
    );
}

#[test]
fn output_of_exactly_the_size_that_is_kept_is_not_too_much() {
    let end_of = |bytes: usize, and: &str| {
        let words = ["/bin/sh", "-c", &format!("printf %0{bytes}d 0; {and}")].map(OsString::from);
        let limit = CommandLimit::none();
        let task = ProgramTask {
            most: 1000,
            is_complete: &|piece| piece.ends_with(b"00"),
            ..ProgramTask::new(&words, LONG, &limit)
        };
        let ended = run(&task).unwrap();
        assert_eq!(ended.output, vec![b'0'; 1000], "{bytes}");
        ended.end
    };
    assert!(matches!(end_of(1000, ""), ProgramEnd::Exited(_)));
    assert_eq!(end_of(1000, "exec sleep 1000"), ProgramEnd::Lingered);
    assert_eq!(end_of(1001, ""), ProgramEnd::TooMuch);
    assert_eq!(end_of(1001, "exec sleep 1000"), ProgramEnd::TooMuch);
}

#[test]
fn a_program_that_is_done_and_lives_on_is_ended() {
    let script = "echo '=== done ==='; exec sleep 1000";
    assert_eq!(
        shell(script, LONG, &CommandLimit::none()).end,
        ProgramEnd::Lingered
    );
}

#[test]
fn a_program_that_hangs_is_ended_with_its_children() {
    let script = "sleep 1000 & echo $!; trap '' TERM; wait";
    let ended = at_its_limit(script);
    let child: i32 = String::from_utf8_lossy(&ended.output)
        .trim()
        .parse()
        .unwrap();
    // SIGKILL was sent; the kernel and a reaper may take a moment.
    await_that("the end of the child", || !is_alive(child));
}

fn is_alive(process: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/stat"));
    status.is_ok_and(|status| !status.contains(") Z "))
}

#[test]
fn a_child_that_keeps_the_output_open_is_not_waited_for() {
    let ended = shell("sleep 1000 & echo done", LONG, &CommandLimit::none());
    assert!(matches!(ended.end, ProgramEnd::Exited(_)));
    assert_eq!(ended.output, b"done\n");
}

#[test]
fn a_signal_to_the_command_ends_the_program() {
    let ended = shell("exec sleep 1000", LONG, &interrupted());
    assert_eq!(ended.end, ProgramEnd::Stopped);
}

#[test]
fn the_time_limit_of_the_command_ends_the_program() {
    static NEVER: AtomicBool = AtomicBool::new(false);
    let limit = CommandLimit::new(Some(Duration::from_millis(1)), &NEVER);
    assert_eq!(
        shell("exec sleep 1000", LONG, &limit).end,
        ProgramEnd::Stopped
    );
}

#[test]
fn a_program_runs_on_its_cpus_only() {
    let cpu = *allowed_cpus().unwrap().last().unwrap();
    let words = ["grep", "Cpus_allowed_list", "/proc/self/status"].map(OsString::from);
    let limit = CommandLimit::none();
    let task = ProgramTask {
        cpus: &[cpu],
        ..ProgramTask::new(&words, LONG, &limit)
    };
    let output = String::from_utf8(run(&task).unwrap().output).unwrap();
    assert_eq!(output.trim(), format!("Cpus_allowed_list:\t{cpu}"));
}

#[test]
fn a_program_that_does_not_exist_is_an_error() {
    let words = [OsString::from("/nonexistent/vmm")];
    let limit = CommandLimit::none();
    let task = ProgramTask::new(&words, LONG, &limit);
    assert_eq!(run(&task).unwrap_err().kind(), ErrorKind::NotFound);
}
