//! `vmbell report --export-svg`: the diagram that it writes, and what it refuses to draw.

use std::fs;
use std::path::{Path, PathBuf};

use predicates::str::contains;
use vmbell_report::{Host, RecordingHeader};

use super::common::{quick, stdout, vmbell};

/// The report that the README's picture is made from, or the picture.
fn docs(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs")
        .join(file)
}

#[test]
fn the_command_makes_the_picture_of_the_readme() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = vmbell(&["report", "--export-svg", "paths.svg"]);
    command.arg(docs("paths.json")).current_dir(dir.path());
    let wrote = contains("wrote paths.svg (");
    command.assert().success().stdout("").stderr(wrote);
    let picture = fs::read_to_string(docs("paths.svg")).unwrap();
    let made = fs::read_to_string(dir.path().join("paths.svg")).unwrap();
    assert!(made == picture, "{made}");
    assert!(!dir.path().join("report.html").exists());
    let mut command = vmbell(&["report", "--export-svg", "-"]);
    assert!(stdout(command.arg(docs("paths.json"))) == picture);
}

#[test]
fn what_has_no_paths_to_draw_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let report = dir.path().join("a.json");
    let measured = quick(&["debug-constant", "--quiet", "--export-json"])
        .arg(&report)
        .assert();
    measured.success();
    let draw = |args: &[&str], code, told| {
        let mut command = vmbell(&["report", "--export-svg", "paths.svg"]);
        let assert = command.args(args).current_dir(dir.path()).assert();
        assert.code(code).stderr(contains(told));
        assert!(!dir.path().join("paths.svg").exists());
    };
    fs::write(dir.path().join("b.json"), "").unwrap();
    let told = "cannot draw the report 'a.json': no path of the diagram was measured";
    draw(&["a.json"], 1, told);
    draw(
        &["b.json"],
        1,
        "cannot draw the report 'b.json': it is empty",
    );
    draw(&["a.json", "a.json"], 2, "--export-svg draws one report");
    draw(&["a.json", "-o", "b.html"], 2, "cannot be used with");
    let header = RecordingHeader::new(
        "2026-11-26T09:00:00Z".into(),
        "0.1.0".into(),
        Host::default(),
    );
    let recording = serde_json::to_string(&header).unwrap() + "\n";
    fs::write(dir.path().join("top.jsonl"), recording).unwrap();
    let told = "'top.jsonl' is a recording of vmbell top: --export-svg draws reports";
    draw(&["top.jsonl"], 2, told);
    let mut command = vmbell(&["report", "a.json", "--export-svg", "a.json"]);
    let told = "the diagram would replace the report 'a.json'";
    let assert = command.current_dir(dir.path()).assert();
    assert.code(2).stderr(contains(told));
}
