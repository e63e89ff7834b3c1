//! `vmbell bench vmms`: a VMM fails, hangs or is missing, or the command ends early. The VMMs are doubles.

use std::fs;
use std::path::Path;
use std::time::Duration;

use predicates::prelude::*;
use serde_json::Value;

use super::common::{argument, read_json, stdout, vmbell};
use super::doubles::{Doubles, printed};
use super::ends::{end, send};
use super::report::read_valid;
use kit::wait::{await_that, growing};

/// Starts the image, which never finishes.
const HANGS: &str = "echo '=== vmbell-probe start ==='; echo row rtc-read; exec sleep 1000";

#[test]
fn the_time_limit_of_the_command_ends_it_with_what_is_finished() {
    let one = Doubles::new().prints("one", &printed(1000));
    let doubles = one.script("two", "exec sleep 1000");
    let report = doubles.path("report.json");
    // With this seed, the first VMM is booted first.
    let is_enough = growing(Duration::from_secs(1)).any(|timeout| {
        let timeout = argument(timeout);
        let args = format!("--seed 1 --export-json {report} --timeout {timeout}");
        let assert = doubles.command(&["one", "two"], &args).assert().code(124);
        let text = String::from_utf8_lossy(&assert.get_output().stdout).into_owned();
        assert!(
            text.contains("; TIME LIMIT reached before the end"),
            "{text}"
        );
        read_json(Path::new(&report))["vmms"][0]["boots"] == 1
    });
    assert!(is_enough);
    let report = read_json(Path::new(&report));
    assert_eq!(report["timed_out"], true);
    assert_eq!(report["interrupted"], false);
    assert_eq!(report["vmms"][1]["status"], "skipped");
}

#[test]
fn each_bad_vmm_has_a_clear_result_and_the_others_go_on() {
    let whole = printed(1000);
    let half = &whole[..whole.find("samples").unwrap()];
    let doubles = Doubles::new()
        .prints("garbage", "\u{1b}[31m\u{fffd}\u{0}one two\n")
        .prints("half", half)
        .prints("nothing", "")
        .script("too-much", "exec yes abc")
        .script("endless", HANGS)
        .script("dies", "echo 'fatal: no such machine' >&2; exit 3")
        .prints("good", &whole);
    let names = [
        "garbage", "half", "nothing", "too-much", "endless", "dies", "good",
    ];
    let report = doubles.path("report.json");
    // One limit is long enough for all but the one that hangs.
    let limit = growing(Duration::from_secs(4)).find(|limit| {
        let limit = argument(*limit);
        let args = format!("--run-timeout {limit} --runs 2 --style none --export-json {report}");
        doubles.command(&names, &args).assert().code(1);
        let vmms = &read_json(Path::new(&report))["vmms"];
        let is_late = |vmm: &&Value| vmm.to_string().contains("it took longer than");
        let has_begun = vmms[4].to_string().contains("it was in the row rtc-read");
        has_begun && vmms.as_array().unwrap().iter().filter(is_late).count() == 1
    });
    let limit = limit.expect("some limit is enough");
    let report = read_json(Path::new(&report));
    let vmms = report["vmms"].as_array().unwrap();
    let facts: Vec<(&str, &str, Value)> = vmms
        .iter()
        .map(|vmm| {
            let text = |field: &str| vmm[field].as_str().unwrap_or("-");
            (text("name"), text("reason"), vmm["last_output"].clone())
        })
        .collect();
    let nothing = "it printed nothing from the image";
    let ended = "it ended with exit status: 0";
    let last = |text: &str| Value::from(text);
    assert_eq!(
        facts,
        [
            (
                "garbage",
                &*format!("{nothing}; {ended}"),
                last("[31m\u{fffd}one two")
            ),
            (
                "half",
                &*format!("the image's results are incomplete; {ended}"),
                last("firmware")
            ),
            ("nothing", &*format!("{nothing}; {ended}"), Value::Null),
            (
                "too-much",
                &*format!("{nothing}; it printed more than 1 MiB and was ended"),
                last("abc")
            ),
            (
                "endless",
                &*format!(
                    "the image started but printed no results (it was in the row rtc-read); \
                     it took longer than {limit:?}"
                ),
                Value::Null
            ),
            (
                "dies",
                &*format!("{nothing}; it ended with exit status: 3"),
                last("fatal: no such machine")
            ),
            ("good", "-", Value::Null),
        ]
    );
    assert_eq!(vmms[6]["boots"], 2);
    assert_eq!(report["results"][0]["backend"], "good");
}

#[test]
fn nothing_is_left_in_the_temporary_folder() {
    let doubles = Doubles::new().prints("one", &printed(1000));
    let temporary = doubles.folder.path().join("tmp");
    fs::create_dir(&temporary).unwrap();
    let mut command = doubles.command("one", "--runs 1");
    command.env("TMPDIR", &temporary).assert().code(0);
    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0);
}

#[test]
fn where_no_vmm_can_run_it_says_which_were_looked_for_and_how_to_add_one() {
    vmbell("bench vmms --accel tcg")
        .env("PATH", "/nonexistent")
        .assert()
        .code(77)
        .stderr(
            predicate::str::contains("qemu-microvm: qemu-system-x86_64 is not on PATH")
                .and(predicate::str::contains("alioth: alioth is not on PATH"))
                .and(predicate::str::contains("vmbell: it has no TCG, only KVM"))
                .and(predicate::str::contains("--vmm NAME='COMMAND ... {image}")),
        );
}

#[test]
fn a_vmm_that_is_named_and_not_here_is_skipped_with_the_reason() {
    vmbell("bench vmms alioth")
        .env("PATH", "/nonexistent")
        .assert()
        .code(77)
        .stdout(predicate::str::contains("skipped: alioth is not on PATH"));
}

#[test]
fn a_program_that_may_not_be_executed_says_so() {
    let doubles = Doubles::new();
    let program = doubles.path("vmm");
    fs::write(&program, "").unwrap();
    vmbell(&[
        "bench",
        "vmms",
        "mine",
        "--vmm",
        &format!("mine='{program}' {{image}}"),
    ])
    .assert()
    .code(77)
    .stdout(predicate::str::contains("may not be executed"));
}

#[test]
fn a_boot_that_hung_is_repeated_once_and_the_report_says_so() {
    let once = format!("[ -e $folder/flag ] || {{ : > $folder/flag; {HANGS}; }}");
    let doubles = Doubles::new().boots_after(&once, "once");
    let doubles = doubles.script("always", HANGS);
    let (flag, report) = (doubles.path("flag"), doubles.path("report.json"));
    // A limit is too short if, on a busy host, a boot that does not hang also reaches it.
    let is_enough = growing(Duration::from_secs(2)).any(|limit| {
        let _ = fs::remove_file(&flag);
        let limit = argument(limit);
        let args = format!("--run-timeout {limit} --runs 2 --export-json {report}");
        let output = doubles.command(&["once", "always"], &args).assert().code(1);
        let printed = String::from_utf8_lossy(&output.get_output().stdout).into_owned();
        assert!(
            printed.contains("a boot hung and was repeated"),
            "{printed}"
        );
        let vmms = &read_json(Path::new(&report))["vmms"];
        let has_begun = |vmm: &Value| {
            let reason = vmm["repeated"].as_str().unwrap_or_default();
            reason.contains("it was in the row rtc-read")
        };
        vmms[0]["status"] == "ok" && vmms.as_array().unwrap().iter().all(has_begun)
    });
    assert!(is_enough);
    let report = read_valid(Path::new(&report));
    let vmm = |index: usize| &report["vmms"][index];
    assert_eq!(
        (&vmm(0)["status"], &vmm(0)["boots"]),
        (&"ok".into(), &2.into())
    );
    assert_eq!(
        (&vmm(1)["status"], &vmm(1)["boots"]),
        (&"failed".into(), &0.into())
    );
}

#[test]
fn a_signal_ends_the_vmm_and_writes_what_is_finished() {
    let doubles = Doubles::new().prints("one", &printed(1000));
    let doubles = doubles.script("two", "echo $$ > $folder/pid; exec sleep 1000");
    let (pid, report) = (doubles.path("pid"), doubles.path("report.json"));
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_vmbell"));
    // With this seed, the first VMM is booted first.
    command.args(["bench", "vmms", "one", "two", "--seed", "1"]);
    command.args(["--export-json", &report]);
    for word in &doubles.words {
        command.args(["--vmm", word]);
    }
    let mut child = command.stdout(std::process::Stdio::null()).spawn().unwrap();
    let mut vmm = None;
    await_that("the second vmm", || {
        let text = fs::read_to_string(&pid).unwrap_or_default();
        vmm = text.trim().parse::<i32>().ok();
        vmm.is_some()
    });
    let vmm = vmm.unwrap();
    send(&child, libc::SIGTERM);
    assert_eq!(end(&mut child).code(), Some(143));
    await_that("the end of the vmm", || {
        !Path::new(&format!("/proc/{vmm}")).exists()
    });
    let report = read_json(Path::new(&report));
    assert_eq!(report["interrupted"], true);
    assert_eq!(report["vmms"][0]["boots"], 1);
    assert_eq!(report["vmms"][1]["status"], "skipped");
}

/// The reasons why no exits of the VMMs were counted. A double has no guest, so there always is one.
fn exits_reasons(exits: &str) -> Vec<Option<String>> {
    let doubles = Doubles::new()
        .prints("one", &printed(1000))
        .prints("two", &printed(1000));
    let path = doubles.path("report.json");
    let args = ["--runs", "1", "--exits", exits, "--export-json", &path];
    let text = stdout(&mut doubles.command(&["one", "two"], &args));
    let report = read_valid(Path::new(&path));
    let vmms = report["vmms"].as_array().unwrap();
    let reason = |vmm: &Value| vmm["exits_reason"].as_str().map(str::to_owned);
    let reasons: Vec<Option<String>> = vmms.iter().map(reason).collect();
    let is_said = text.contains("exits not counted of one, two: ");
    assert_eq!(is_said, reasons[0].is_some(), "{text}");
    reasons
}

#[test]
fn a_host_that_may_not_trace_says_why_there_are_no_exits() {
    let reasons = exits_reasons("auto");
    let reason = reasons[0].as_deref().unwrap();
    let known = [
        "tracefs is not mounted at /sys/kernel/tracing",
        "this needs root and tracefs",
        "the kernel has no event kvm_exit",
        "the trace has no marks from the image",
    ];
    assert!(
        known.iter().any(|known| reason.starts_with(known)),
        "{reason}"
    );
    assert_eq!(reasons[0], reasons[1]);
    assert_eq!(exits_reasons("off"), [None, None]);
}

#[test]
fn exits_that_must_be_counted_and_cannot_are_an_error() {
    let reasons = exits_reasons("auto");
    let reason = reasons[0].as_deref().unwrap();
    let doubles = Doubles::new().prints("one", &printed(1000));
    let args = ["--runs", "1", "--exits", "on"];
    let assert = doubles.command(&["one"], &args).assert();
    if reason.contains("no marks") {
        assert.code(0);
        return;
    }
    let said = predicate::str::contains(format!("exits cannot be counted here: {reason}"));
    assert.code(1).stderr(said);
}
