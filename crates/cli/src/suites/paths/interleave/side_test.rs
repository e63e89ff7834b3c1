use std::sync::atomic::AtomicBool;

use super::*;

/// A vmbell that is a shell script.
fn side(script: &str, timeout: Duration) -> InterleavedSide {
    let vmbell = ["/bin/sh", "-c", script].map(OsString::from);
    InterleavedSide::new("old", vmbell.into(), &["--runs=3".into()], timeout)
}

const LONG: Duration = Duration::from_secs(100);

#[test]
fn the_command_is_asked_for_json_and_gets_the_options() {
    let error = side("echo \"error: $0 $*\" >&2; exit 2", LONG).measure(&CommandLimit::none());
    assert_eq!(
        error.unwrap_err().to_string(),
        "/bin/sh ended with exit status: 2: error: bench --export-json=- --style=none --runs=3"
    );
}

#[test]
fn what_it_says_reaches_no_terminal_as_an_escape() {
    let error = side(r"printf 'a\033[31mb\n' >&2", LONG).measure(&CommandLimit::none());
    let text = error.unwrap_err().to_string();
    assert!(text.ends_with(": a[31mb"), "{text:?}");
}

#[test]
fn a_program_that_does_not_exist_is_named() {
    let side = InterleavedSide::new("old", vec!["/nonexistent/vmbell".into()], &[], LONG);
    let error = side.measure(&CommandLimit::none()).unwrap_err();
    assert_eq!(error.to_string(), "cannot run /nonexistent/vmbell");
}

#[test]
fn output_that_is_no_report_is_an_error() {
    let error = side("echo '{\"a\": 1}'", LONG)
        .measure(&CommandLimit::none())
        .unwrap_err();
    assert!(matches!(error, SideError::Report { .. }), "{error:?}");
}

#[test]
fn a_signal_ends_it() {
    static STOP: AtomicBool = AtomicBool::new(true);
    let stop = CommandLimit::new(None, &STOP);
    let error = side("exec sleep 1000", LONG).measure(&stop).unwrap_err();
    assert!(matches!(error, SideError::Stopped), "{error:?}");
}

#[test]
fn no_limit_of_bench_is_none_here() {
    assert_eq!(side("", Duration::ZERO).limit, Duration::MAX);
    assert!(side("", LONG).limit > LONG);
}
