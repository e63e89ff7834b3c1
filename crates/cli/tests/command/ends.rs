//! How `vmbell bench` ends early, and what it has written by then.
#![allow(unsafe_code, reason = "sends signals")]

use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use super::common::{argument, quick, read_json, vmbell};
use kit::signals::hear_signals;
use kit::wait::{await_that, growing};
use predicates::str::contains;
use serde_json::Value;

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
    // SAFETY: the child is ours and was not reaped, so the PID is still its own.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
}

/// Whether a process has a handler for a signal.
pub fn catches(child: &Child, signal: libc::c_int) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let mask = u64::from_str_radix(mask.unwrap().trim(), 16).unwrap();
    mask & 1 << (signal - 1) != 0
}

/// Waits until the process catches signals and has a second thread, which measures.
fn wait_until_measuring(child: &Child) {
    let tasks = format!("/proc/{}/task", child.id());
    await_that("a handler and a thread that measures", || {
        catches(child, libc::SIGTERM) && std::fs::read_dir(&tasks).unwrap().count() > 1
    });
}

/// Waits for the end of a process.
pub fn end(child: &mut Child) -> ExitStatus {
    let mut status = None;
    await_that("the end of the command", || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    status.unwrap()
}

/// Fails unless this signal ends a measurement with this exit status and a report. Returns the report and the output.
fn ended_by(signal: libc::c_int, status: i32) -> (Value, String) {
    for time in growing(Duration::from_millis(100)) {
        let dir = tempfile::tempdir().unwrap();
        let json = dir.path().join("out.json");
        let mut child = spawn(
            &["floor-getppid", "--min-time", "2ms", "--runs", "100000"],
            &json,
        );
        wait_until_measuring(&child);
        std::thread::sleep(time);
        send(&child, signal);
        assert_eq!(end(&mut child).code(), Some(status));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        let report = read_json(&json);
        assert_eq!(report["interrupted"], true);
        // Before the first sample there is nothing to write.
        if report["results"][0]["status"] != "skipped" {
            let mut table = String::new();
            child.stdout.unwrap().read_to_string(&mut table).unwrap();
            return (report, table);
        }
    }
    panic!("nothing is ever measured");
}

#[test]
fn sigint_writes_what_is_finished_and_is_130() {
    let (report, table) = ended_by(libc::SIGINT, 130);
    let row = &report["results"][0];
    assert_eq!(row["status"], "ok");
    assert!(!row["times"].as_array().unwrap().is_empty());
    assert!(table.contains("INTERRUPTED"), "{table}");
}

#[test]
fn sigterm_and_sighup_write_what_is_finished_and_leave_no_temporary_file() {
    for (signal, status) in [(libc::SIGTERM, 143), (libc::SIGHUP, 129)] {
        let (report, _) = ended_by(signal, status);
        assert_eq!(report["results"][0]["status"], "ok");
    }
}

#[test]
fn an_interrupt_ends_a_long_calibration_and_a_long_floor() {
    for name in ["floor-getppid", "floor-signal", "floor-futex-same-core"] {
        let dir = tempfile::tempdir().unwrap();
        let json = dir.path().join("out.json");
        let mut child = spawn(&[name, "--ops", "1000000000000"], &json);
        wait_until_measuring(&child);
        interrupt(&child);
        assert_eq!(end(&mut child).code(), Some(130), "{name}");
        let report = read_json(&json);
        assert_eq!(report["interrupted"], true);
        assert_eq!(report["results"][0]["status"], "skipped", "it ended itself");
    }
}

#[test]
fn sigint_before_the_first_sample_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let json = dir.path().join("out.json");
    let mut child = spawn(&["debug-loop"], &json);
    wait_until_measuring(&child);
    interrupt(&child);
    assert_eq!(end(&mut child).code(), Some(130));
    let row = &read_json(&json)["results"][0];
    assert_eq!(row["status"], "skipped");
    assert_eq!(row["median"], serde_json::Value::Null);
}

#[test]
fn a_second_sigint_kills() {
    let dir = tempfile::tempdir().unwrap();
    let json = dir.path().join("out.json");
    await_that("the second to come before the first has ended it", || {
        let mut child = spawn(&["debug-stuck"], &json);
        wait_until_measuring(&child);
        interrupt(&child);
        await_that("the first to be heard", || !catches(&child, libc::SIGINT));
        interrupt(&child);
        let end = end(&mut child);
        let is_killed = end.signal() == Some(libc::SIGINT);
        // A stuck entry is given up after a while; on a busy host that may be after the second signal.
        assert!(is_killed || end.code() == Some(130), "{end}");
        is_killed && !json.exists()
    });
}

#[test]
fn a_time_limit_writes_what_is_finished_and_is_124() {
    let dir = tempfile::tempdir().unwrap();
    let json = dir.path().join("out.json");
    let has_begun = growing(Duration::from_millis(300)).any(|limit| {
        quick("debug-constant debug-loop")
            .args(["--timeout", &argument(limit), "--export-json"])
            .arg(&json)
            .assert()
            .code(124)
            .stdout(contains("TIME LIMIT"));
        let report = read_json(&json);
        assert_eq!(report["timed_out"], true);
        let row = &report["results"][1];
        assert_eq!(row["command"], "debug-loop");
        let reason = row["reason"].as_str().unwrap();
        assert!(reason.contains("time limit"), "{reason}");
        row["status"] == "failed"
    });
    assert!(has_begun);
}

#[test]
fn even_an_entry_that_never_returns_ends_in_a_report() {
    quick("debug-stuck --timeout 200ms")
        .assert()
        .code(124)
        .stdout(contains("failed: debug-stuck\n  did not stop on request"));
}

#[test]
fn a_run_that_never_ends_costs_its_own_row_only() {
    for (endless, reason) in [
        ("debug-loop", "one run took longer than 200ms"),
        ("debug-stuck", "did not stop on request"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let json = dir.path().join("out.json");
        quick(&["debug-constant", endless, "debug-double"])
            .args(["--run-timeout", "200ms", "--only", "--export-json"])
            .arg(&json)
            .assert()
            .code(1);
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
    let is_measured = growing(Duration::from_millis(500)).any(|limit| {
        vmbell("bench floor-getppid --runs 100000")
            .args(["--timeout", &argument(limit), "--export-json"])
            .arg(&json)
            .assert()
            .code(124);
        let row = &read_json(&json)["results"][0];
        // The limit came before the first sample.
        if row["status"] != "ok" {
            return false;
        }
        assert!(row["median"].as_f64().unwrap() > 0.0);
        true
    });
    assert!(is_measured);
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
