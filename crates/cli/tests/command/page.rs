//! `vmbell report`: what it writes, which files it refuses, and which files it does not touch.

use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use predicates::str::contains;
use tempfile::TempDir;
use vmbell_report::{Host, RecordingHeader, TopLine, TopVm};

use super::common::{quick, stdout, vmbell};

/// A folder with a report.
fn measured() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.json");
    quick("debug-constant debug-double debug-skip --quiet --export-json")
        .arg(&path)
        .assert()
        .success();
    (dir, path)
}

fn report(dir: &Path, args: &[&str]) -> Command {
    let mut command = vmbell("report");
    command.args(args).current_dir(dir);
    command
}

#[test]
fn a_page_is_written_and_said_to_be() {
    let (dir, _) = measured();
    report(dir.path(), &["a.json"])
        .assert()
        .success()
        .stdout("")
        .stderr(contains("wrote report.html"));
    let page = fs::read_to_string(dir.path().join("report.html")).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>"), "{page}");
    assert!(page.contains("debug-double"));
    assert!(page.ends_with("</html>"), "{page}");
}

#[test]
fn stdin_and_stdout_are_a_report_and_a_page() {
    let (dir, path) = measured();
    let of_file = stdout(&mut report(dir.path(), &["a.json", "-o", "-"]));
    let of_pipe = stdout(
        report(dir.path(), &["-", "--output", "-"])
            .pipe_stdin(path)
            .unwrap(),
    );
    assert_eq!(of_pipe, of_file.replace("a.json", "stdin"));
    report(dir.path(), &["-", "-"])
        .assert()
        .code(2)
        .stderr(contains("only one report can come from stdin"));
}

#[test]
fn a_report_is_never_replaced_by_its_page() {
    let (dir, path) = measured();
    let before = fs::read(&path).unwrap();
    std::os::unix::fs::symlink("a.json", dir.path().join("link")).unwrap();
    for output in ["a.json", "./a.json", "link"] {
        report(dir.path(), &["a.json", "-o", output])
            .assert()
            .code(2)
            .stderr(contains("would replace the report 'a.json'"));
    }
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn what_is_no_report_is_refused_with_its_name_and_place() {
    let (dir, path) = measured();
    let whole = fs::read_to_string(&path).unwrap();
    let half: String = whole
        .lines()
        .take(20)
        .map(|line| format!("{line}\n"))
        .collect();
    let foreign = "it is JSON but not a vmbell report";
    let broken = whole.replacen("\"seed\": ", "\"seed\": -", 1);
    for (text, told) in [
        ("", "cannot show the report 'b.json': it is empty"),
        (" \n", "it is empty"),
        ("{\"results\": []}", foreign),
        ("<html>", "expected value at line 1 column 1"),
        (&half, "EOF while parsing"),
        (&half, "at line 21"),
        (&broken, "its field 'seed' cannot be read: "),
    ] {
        fs::write(dir.path().join("b.json"), text).unwrap();
        report(dir.path(), &["a.json", "b.json"])
            .assert()
            .code(1)
            .stderr(contains("'b.json'"))
            .stderr(contains(told));
        assert!(!dir.path().join("report.html").exists());
    }
    fs::write(dir.path().join("b.json"), b"\xff\xfe").unwrap();
    let told = "it is not UTF-8";
    report(dir.path(), &["b.json"])
        .assert()
        .code(1)
        .stderr(contains(told));
    let told = "cannot read 'absent.json'";
    report(dir.path(), &["absent.json"])
        .assert()
        .code(1)
        .stderr(contains(told));
}

#[test]
fn a_disk_that_is_full_in_mid_write_keeps_the_old_page() {
    let (dir, _) = measured();
    let page = dir.path().join("report.html");
    fs::write(&page, "old").unwrap();
    // Every page is larger than 4 kB. The limit's signal is ignored, so that the write fails.
    let program = assert_cmd::cargo::cargo_bin("vmbell");
    Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 8; exec \"$0\" report a.json"])
        .arg(program)
        .current_dir(dir.path())
        .assert()
        .code(1)
        .stderr(contains("cannot finish 'report.html'"));
    assert_eq!(fs::read_to_string(&page).unwrap(), "old");
    let files = fs::read_dir(dir.path()).unwrap().count();
    assert_eq!(files, 2, "a temporary file is left");
}

/// A recording as `vmbell top` writes it, of a VM with these total exits after each second.
fn recording(exits: &[u64]) -> String {
    let host = Host::default();
    let header = RecordingHeader::new("2026-11-26T09:00:00Z".into(), "0.1.0".into(), host);
    let mut text = serde_json::to_string(&header).unwrap() + "\n";
    for (second, exits) in exits.iter().enumerate() {
        let line = TopLine {
            schema_version: TopLine::VERSION,
            seconds: second as f64,
            vms: vec![TopVm {
                pid: 4711,
                vmm: Some("qemu".to_owned()),
                name: Some("web".to_owned()),
                exits_to_vmm: Some(*exits),
                ..TopVm::default()
            }],
            ..TopLine::default()
        };
        text += &(serde_json::to_string(&line).unwrap() + "\n");
    }
    text
}

#[test]
fn a_recording_of_top_is_a_page_alone() {
    let (dir, _) = measured();
    let whole = recording(&[0, 10, 30]);
    fs::write(dir.path().join("top.jsonl"), &whole).unwrap();
    let page = stdout(&mut report(dir.path(), &["top.jsonl", "-o", "-"]));
    let found = "<h1>qemu web (4711) exits to its VMM: 15.0 times a second</h1>";
    assert!(page.contains(found) && page.contains("1 VM in 2.00 s"));
    report(dir.path(), &["a.json", "top.jsonl"])
        .assert()
        .code(2)
        .stderr(contains(
            "'top.jsonl' is a recording of vmbell top: show it alone",
        ));
    // The recorder was killed or has another version, or the file is damaged.
    let cut = &whole[..whole.len() - 20];
    let told = "the last line is cut off: the recorder was killed";
    fs::write(dir.path().join("top.jsonl"), cut).unwrap();
    let mut command = report(dir.path(), &["top.jsonl", "-o", "-"]);
    command.assert().success().stderr(contains(told));
    assert!(stdout(&mut command).contains(told));
    let other = whole.replacen("\"version\":1", "\"version\":2", 1);
    let broken = whole.replacen("{\"pid", "{\u{1b}[2J", 1);
    for (text, told) in [
        (other, "its version is 2, and this vmbell reads 1"),
        (broken, "line 2 cannot be read"),
    ] {
        fs::write(dir.path().join("top.jsonl"), text).unwrap();
        let told = format!("cannot show the recording 'top.jsonl': {told}");
        let refused = report(dir.path(), &["top.jsonl"]).assert().code(1);
        refused.stderr(contains(told));
    }
}
