use super::*;
use crate::wait::await_that;

const MOST: usize = 1 << 20;

static GO_ON: AtomicBool = AtomicBool::new(false);
static STOP: AtomicBool = AtomicBool::new(true);

fn is_done(output: &[u8]) -> bool {
    output.windows(12).any(|bytes| bytes == b"=== done ===")
}

fn shell(script: &str, limit: Duration, stop: &AtomicBool) -> Ended {
    let words = ["/bin/sh", "-c", script].map(OsString::from);
    let task = Task {
        words: &words,
        limit,
        most: MOST,
        stop,
        is_complete: &is_done,
    };
    run(&task).unwrap()
}

const LONG: Duration = Duration::from_secs(120);

/// How a script ends at its limit. It says something before that, which a busy host may need a longer limit for.
fn at_its_limit(script: &str) -> Ended {
    let mut limit = Duration::from_secs(1);
    loop {
        let ended = shell(script, limit, &GO_ON);
        assert_eq!(ended.end, End::TimeLimit);
        if !ended.output.is_empty() || limit > LONG {
            return ended;
        }
        limit *= 2;
    }
}

#[test]
fn a_program_that_ends_leaves_its_words_and_status() {
    let ended = shell("echo out; echo err >&2; exit 3", LONG, &GO_ON);
    assert_eq!(
        (&ended.output[..], &ended.errors[..]),
        (&b"out\n"[..], &b"err\n"[..])
    );
    assert!(matches!(ended.end, End::Exited(status) if status.code() == Some(3)));
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
        &GO_ON,
    );
    assert_eq!((ended.output.len(), ended.end), (MOST, End::TooMuch));
}

#[test]
fn a_program_that_is_done_and_lives_on_is_ended() {
    let script = "echo '=== done ==='; exec sleep 1000";
    assert_eq!(shell(script, LONG, &GO_ON).end, End::Lingered);
}

#[test]
fn a_program_that_hangs_is_ended_with_its_children() {
    let script = "sleep 1000 & echo $!; trap '' TERM; wait";
    let ended = at_its_limit(script);
    let child: i32 = String::from_utf8_lossy(&ended.output)
        .trim()
        .parse()
        .unwrap();
    // SIGKILL was sent; the kernel may need a moment, and a reaper another one.
    await_that("the end of the child", || !is_alive(child));
}

fn is_alive(process: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/stat"));
    status.is_ok_and(|status| !status.contains(") Z "))
}

#[test]
fn a_child_that_keeps_the_output_open_is_not_waited_for() {
    let ended = shell("sleep 1000 & echo done", LONG, &GO_ON);
    assert!(matches!(ended.end, End::Exited(_)));
    assert_eq!(ended.output, b"done\n");
}

#[test]
fn a_signal_to_the_command_ends_the_program() {
    assert_eq!(shell("exec sleep 1000", LONG, &STOP).end, End::Stopped);
}

#[test]
fn a_program_that_does_not_exist_is_an_error() {
    let words = [OsString::from("/nonexistent/vmm")];
    let task = Task {
        words: &words,
        limit: LONG,
        most: MOST,
        stop: &GO_ON,
        is_complete: &is_done,
    };
    assert_eq!(run(&task).unwrap_err().kind(), ErrorKind::NotFound);
}
