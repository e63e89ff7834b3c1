//! The ways in which `vmbell bench` ends early, and what it has written by then.
#![allow(unsafe_code, reason = "sends signals")]

use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::common::{quick, read_json};
use super::signals::hear_signals;
use predicates::str::contains;

/// Starts `vmbell bench` with stdout and stderr kept.
fn spawn(args: &[&str], json: &Path) -> Child {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("vmbell"));
    command
        .arg("bench")
        .args(args)
        .arg("--export-json")
        .arg(json)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    hear_signals(&mut command).spawn().unwrap()
}

fn interrupt(child: &Child) {
    send(child, libc::SIGINT);
}

pub fn send(child: &Child, signal: libc::c_int) {
    let pid = libc::pid_t::try_from(child.id()).unwrap();
    // SAFETY: the child is ours and not waited for yet, so the number is still its own.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
}

/// Waits until the process has a second thread, which measures, and 300 ms more: handlers are installed
/// by then.
fn wait_until_measuring(child: &Child) {
    let stat = format!("/proc/{}/task", child.id());
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(20) {
        // The measuring thread is the second one of the process.
        if std::fs::read_dir(&stat).is_ok_and(|tasks| tasks.count() > 1) {
            std::thread::sleep(Duration::from_millis(300));
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("nothing is being measured");
}

#[test]
fn sigint_writes_what_is_finished_and_is_130() {
    let dir = tempfile::tempdir().unwrap();
    let json = dir.path().join("out.json");
    let mut child = spawn(
        &["floor-getppid", "--min-time", "2ms", "--runs", "100000"],
        &json,
    );
    wait_until_measuring(&child);
    interrupt(&child);
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(130));
    let report = read_json(&json);
    assert_eq!(report["interrupted"], true);
    let row = &report["results"][0];
    assert_eq!(row["status"], "ok");
    assert!(!row["times"].as_array().unwrap().is_empty());
    let mut table = String::new();
    child.stdout.unwrap().read_to_string(&mut table).unwrap();
    assert!(table.contains("INTERRUPTED"), "{table}");
}

#[test]
fn sigterm_and_sighup_write_what_is_finished_and_leave_no_temporary_file() {
    for (signal, status) in [(libc::SIGTERM, 143), (libc::SIGHUP, 129)] {
        let dir = tempfile::tempdir().unwrap();
        let json = dir.path().join("out.json");
        let mut child = spawn(
            &["floor-getppid", "--min-time", "2ms", "--runs", "100000"],
            &json,
        );
        wait_until_measuring(&child);
        send(&child, signal);
        assert_eq!(child.wait().unwrap().code(), Some(status));
        assert_eq!(read_json(&json)["interrupted"], true);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}

#[test]
fn an_interrupt_ends_a_long_calibration_and_a_long_floor() {
    for name in ["floor-getppid", "floor-signal", "floor-futex-same-core"] {
        let dir = tempfile::tempdir().unwrap();
        let json = dir.path().join("out.json");
        let mut child = spawn(&[name, "--ops", "1000000000000"], &json);
        wait_until_measuring(&child);
        let begun = Instant::now();
        interrupt(&child);
        assert_eq!(child.wait().unwrap().code(), Some(130), "{name}");
        assert!(begun.elapsed() < Duration::from_secs(10), "{name}");
        assert_eq!(read_json(&json)["interrupted"], true);
    }
}

#[test]
fn sigint_before_the_first_sample_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let json = dir.path().join("out.json");
    let mut child = spawn(&["debug-loop"], &json);
    wait_until_measuring(&child);
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let row = &read_json(&json)["results"][0];
    assert_eq!(row["status"], "skipped");
    assert_eq!(row["median"], serde_json::Value::Null);
}

#[test]
fn a_second_sigint_kills() {
    let dir = tempfile::tempdir().unwrap();
    let json = dir.path().join("out.json");
    let mut child = spawn(&["debug-stuck"], &json);
    wait_until_measuring(&child);
    interrupt(&child);
    std::thread::sleep(Duration::from_millis(200));
    interrupt(&child);
    assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGINT));
    assert!(!json.exists());
}

#[test]
fn a_time_limit_writes_what_is_finished_and_is_124() {
    let dir = tempfile::tempdir().unwrap();
    let json = dir.path().join("out.json");
    quick(&["debug-constant", "debug-loop", "--timeout", "300ms"])
        .arg("--export-json")
        .arg(&json)
        .assert()
        .code(124)
        .stdout(contains("TIME LIMIT"));
    let report = read_json(&json);
    assert_eq!(report["timed_out"], true);
    assert_eq!(report["results"][1]["command"], "debug-loop");
    assert_eq!(report["results"][1]["status"], "failed");
    let reason = report["results"][1]["reason"].as_str().unwrap();
    assert!(reason.contains("time limit"), "{reason}");
}

#[test]
fn even_an_entry_that_never_returns_ends_in_a_report() {
    let begun = Instant::now();
    quick(&["debug-stuck", "--timeout", "200ms"])
        .assert()
        .code(124)
        .stdout(contains(
            "failed: debug-stuck\n  did not stop when it was told to",
        ));
    assert!(begun.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_run_that_never_ends_costs_its_own_row_only() {
    for (endless, reason) in [
        ("debug-loop", "one run took longer than 200ms"),
        ("debug-stuck", "did not stop when it was told to"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let json = dir.path().join("out.json");
        let begun = Instant::now();
        quick(&["debug-constant", endless, "debug-double"])
            .args(["--run-timeout", "200ms", "--only", "--export-json"])
            .arg(&json)
            .assert()
            .code(1);
        assert!(begun.elapsed() < Duration::from_secs(20));
        let report = read_json(&json);
        assert_eq!(report["timed_out"], false);
        for row in report["results"].as_array().unwrap() {
            if row["command"] == endless {
                assert_eq!(row["status"], "failed");
                let said = row["reason"].as_str().unwrap();
                assert!(
                    said.contains(reason) && said.contains("--run-timeout"),
                    "{said}"
                );
            } else {
                assert_eq!(row["status"], "ok", "{row}");
                assert_eq!(row["times"].as_array().unwrap().len(), 3, "{row}");
            }
        }
    }
}

#[test]
fn measured_entries_survive_one_that_hits_the_time_limit() {
    let dir = tempfile::tempdir().unwrap();
    let json = dir.path().join("out.json");
    let child = spawn(
        &["floor-getppid", "--runs", "100000", "--timeout", "500ms"],
        &json,
    );
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(124));
    let row = &read_json(&json)["results"][0];
    assert_eq!(row["status"], "ok");
    assert!(row["median"].as_f64().unwrap() > 0.0);
}

#[test]
fn a_reader_that_goes_away_is_no_panic() {
    let mut child = Command::new(assert_cmd::cargo::cargo_bin!("vmbell"))
        .args(["bench", "debug-constant", "--runs", "3", "--style", "basic"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(!stderr.contains("panicked"), "{stderr}");
    assert_eq!(output.status.code(), Some(0), "{stderr}");
}
