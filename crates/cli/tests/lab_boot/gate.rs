//! `vmbell gate`: a budget is written, kept, exceeded and accepted again; a budget of another kernel is refused; a VMM
//! dies.

use std::fs;
use std::path::Path;
use std::process::Output;

use assert_cmd::Command;
use vmbell_report::{json_by_row, parse};

use super::boots::{host_vmbell, text};

fn run(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(host_vmbell());
    command.current_dir(folder).arg("gate").args(words);
    command.output().unwrap()
}

/// Runs the gate in this folder, and returns its status and what it prints.
fn gate(folder: &Path, words: &[&str]) -> (Option<i32>, String) {
    let output = run(folder, words);
    let all = format!("{}{}", text(&output.stdout), text(&output.stderr));
    (output.status.code(), all)
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn a_budget_is_kept_to_until_a_row_costs_more_and_is_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let plan = folder.path().join("vmbell-gate.toml");
    let file = folder.path().join("vmbell-gate.debian_6.12.json");
    let rows = ["--rows", "cpuid,serial-lsr", "--boots", "1"];
    let (status, said) = gate(
        folder.path(),
        &[&["--init", "qemu-microvm", "--virtio", "rng"], &rows[..]].concat(),
    );
    assert_eq!(status, Some(0), "{said}");
    let plan_text = fs::read_to_string(&plan).unwrap();
    let budget = fs::read_to_string(&file).unwrap();
    // Edit the report so that one row has no exits.
    let mut cheaper = parse(&budget).unwrap();
    let row = cheaper
        .results
        .iter_mut()
        .find(|row| row.command == "serial-lsr");
    let measured = row.unwrap().measured_mut().unwrap();
    let exits = measured.events.iter();
    measured.events = exits.map(|(name, _)| (name.to_owned(), vec![0])).collect();
    fs::write(&file, json_by_row(&cheaper)).unwrap();
    let output = run(folder.path(), &["--json"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = text(&output.stdout);
    let verdict: serde_json::Value = serde_json::from_str(said).expect(said);
    assert_eq!(verdict["within_budget"], false);
    assert!(!said.contains("\"row\": \"cpuid\""), "{said}");
    let (status, said) = gate(folder.path(), &["--accept"]);
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("over budget: 1 row grew"), "{said}");
    assert_eq!(fs::read_to_string(&file).unwrap(), budget);
    // Only `--init` writes the plan.
    assert_eq!(fs::read_to_string(&plan).unwrap(), plan_text);
    let kernel = std::mem::replace(&mut cheaper.host.kernel, "Linux 6.12.1".to_owned());
    fs::write(&file, json_by_row(&cheaper)).unwrap();
    let (status, said) = gate(folder.path(), &[]);
    assert_eq!(status, Some(2), "{said}");
    assert!(
        said.contains(&format!("kernel: Linux 6.12.1 before, {kernel} now")),
        "{said}"
    );
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn a_vmm_that_has_none_of_the_rows_has_no_budget() {
    let folder = tempfile::tempdir().unwrap();
    let rows = ["--rows", "pm-timer-read", "--boots", "1"];
    let words = [&["--init", "qemu-microvm"], &rows[..]].concat();
    let (status, said) = gate(folder.path(), &words);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("no row was measured"), "{said}");
    assert!(!folder.path().join("vmbell-gate.toml").exists());
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn a_vmm_that_dies_is_over_budget_with_its_last_words_and_writes_none() {
    let folder = tempfile::tempdir().unwrap();
    let vmm = folder.path().join("dies");
    fs::write(
        &vmm,
        "#!/bin/sh\necho cannot map the image: $1 >&2\nexit 3\n",
    )
    .unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&vmm, executable).unwrap();
    let vmm = format!("dies={} {{image}}", vmm.display());
    let (status, said) = gate(folder.path(), &["--init", "--vmm", &vmm, "--boots", "1"]);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("failed: dies on debian:6.12"), "{said}");
    assert!(said.contains("cannot map the image: /"), "{said}");
    assert!(!folder.path().join("vmbell-gate.toml").exists());
}
