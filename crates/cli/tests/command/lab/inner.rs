//! `vmbell lab -- vmbell ...` without a boot: what is refused, and what L1 is given.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use assert_cmd::assert::OutputAssertExt;
use predicates::prelude::*;
use predicates::str::contains;

use super::support::Sandbox;

#[test]
fn help_and_wrong_arguments_of_the_command_in_l1_need_no_boot() {
    let sandbox = Sandbox::new();
    let qemu = sandbox.qemu("9.0.0", "echo booted >&2; exit 9");
    let run = |words: &[&str]| {
        let mut command = sandbox.run(&qemu);
        command.arg("--").args(words);
        command.assert().stderr(contains("booted").not())
    };
    let usage = "Usage: vmbell bench vmms [OPTIONS] [NAME]...";
    run(&["vmbell", "bench", "vmms", "--help"])
        .success()
        .stdout(contains(usage));
    let this = env!("CARGO_BIN_EXE_vmbell");
    run(&[this, "bench", "--rounds", "3"])
        .code(2)
        .stderr(contains("unexpected argument '--rounds'").and(contains("vmbell bench")));
    run(&["vmbell", "bench", "net", "no-such-way"]).code(2);
    run(&["vmbell", "bench", "eoi-pb"]).code(2).stderr(contains(
        "unknown scenario 'eoi-pb', did you mean 'eoi-pv'?",
    ));
    run(&["vmbell", "bench", "--baseline", "absent.json"])
        .code(2)
        .stderr(contains("cannot read 'absent.json'"));
    run(&["vmbell", "bench", "vmms", "aliot"])
        .code(2)
        .stderr(contains("did you mean 'alioth'?"));
    run(&["vmbell", "bench", "vmms", "--rows", "nope"])
        .code(2)
        .stderr(contains("no row has this name"));
    run(&["vmbell", "bench", "rings", "--bufs", "5", "--reset=6"])
        .code(2)
        .stderr(contains("never comes"));
    let mut command = sandbox.run(&qemu);
    command.args(["--", "vmbell", "bench", "vmms", "--vmm"]);
    command.arg("mine=no-such-vmm {image}");
    command.assert().code(2).stderr(contains(
        "--vmm: its program cannot be copied into L1: no-such-vmm is not on PATH",
    ));
}

#[test]
fn export_that_would_replace_a_file_that_is_read_is_refused() {
    let sandbox = Sandbox::new();
    let qemu = sandbox.qemu("9.0.0", "echo booted >&2; exit 9");
    let report = sandbox.path("old.json");
    fs::write(&report, "{}").unwrap();
    let mut command = sandbox.run(&qemu);
    command.args(["--", "vmbell", "bench", "--baseline"]);
    command.arg(&report).arg("--export-json").arg(&report);
    command
        .assert()
        .code(2)
        .stderr(contains("the export would replace").and(contains("booted").not()));
    assert_eq!(fs::read_to_string(report).unwrap(), "{}");
}

#[test]
fn l1_is_the_machine_that_the_rows_need_and_the_lab_says_why() {
    let sandbox = Sandbox::new();
    let qemu = sandbox.qemu("9.0.0", "exit 9");
    let says = |options: &[&str], program: &[&str], machine: &str| {
        let mut command = sandbox.run(&qemu);
        command.args(options).arg("--").args(program);
        let machine = format!("QEMU 9.0.0 ({}, --qemu), {machine}\n", qemu.display());
        command.assert().code(125).stderr(contains(machine));
    };
    let one = "deterministic, 1 CPU (the default of bench; --functional for two)";
    says(&[], &["vmbell", "bench"], one);
    says(&[], &["vmbell", "bench", "rings"], one);
    says(&[], &["vmbell", "bench", "irqfd-*"], one);
    says(&["--vcpus", "1"], &["vmbell", "bench", "eoi-pv"], one);
    says(
        &["--depth", "2"],
        &["vmbell", "bench", "ipi"],
        &format!("{one}, depth 2"),
    );
    let two = "2 CPUs (floor-signal needs two; --deterministic for one)";
    let row = &["vmbell", "bench", "eoi-pv", "floor-signal"];
    says(&[], row, two);
    says(&["--deterministic"], row, "deterministic, 1 CPU");
    says(
        &["--seed", "7"],
        &["vmbell", "bench"],
        &one.replace("ic,", "ic, seed 7,"),
    );
    says(&["--functional"], &["vmbell", "bench"], "2 CPUs");
    says(&["--vcpus", "4"], &["vmbell", "bench"], "4 CPUs");
    says(&[], &["vmbell", "probe"], "2 CPUs");
    says(&[], &["/bin/true"], "2 CPUs");
}

/// The job for L1, from the memory window that QEMU gets.
fn job(sandbox: &Sandbox, lab: &[&str], words: &[&str]) -> String {
    let file = sandbox.path("window");
    let script = format!(
        "window=$(echo \"$*\" | sed 's/.*id=lab.window,[^ ]*mem-path=\\([^,]*\\).*/\\1/'); \
         cp --sparse=always $window {}; exit 9",
        file.display()
    );
    let mut command = sandbox.run_as(lab, &sandbox.qemu("9.0.0", &script));
    command.current_dir(sandbox.path("")).args(words);
    command.assert().code(125);
    let archive = String::from_utf8_lossy(&archive(sandbox)).into_owned();
    let begin = archive.rfind("{\"program\"").unwrap();
    let (job, _) = archive[begin..].split_once('\0').unwrap();
    job.to_owned()
}

/// The archive in the memory window.
fn archive(sandbox: &Sandbox) -> Vec<u8> {
    let window = File::open(sandbox.path("window")).unwrap();
    let mut length = [0; 8];
    window.read_exact_at(&mut length, 8).unwrap();
    let mut archive = vec![0; usize::try_from(u64::from_le_bytes(length)).unwrap()];
    window.read_exact_at(&mut archive, 4096).unwrap();
    archive
}

#[test]
fn command_in_l1_writes_its_report_where_it_comes_back_from_and_gets_the_files_that_it_names() {
    let sandbox = Sandbox::new();
    let report = include_str!("../../../../report/tests/data/report.json");
    fs::write(sandbox.path("old.json"), report).unwrap();
    let words = [
        "--env",
        "A=B",
        "--",
        "vmbell",
        "bench",
        "self-ipi",
        "--baseline",
        "old.json",
        "--export-json",
        "new.json",
    ];
    let job = job(&sandbox, &["lab", "kernel", "--cold"], &words);
    for part in [
        r#""bench","--backend=kvm","--timeout=0","--export-json=/out/report.json","--baseline=old.json","--","self-ipi""#,
        r#"["A","B"]"#,
    ] {
        assert!(job.contains(part), "{part}: {job}");
    }
    assert!(!job.contains("XDG_CACHE_HOME"), "{job}");
    let archive = archive(&sandbox);
    let baseline = sandbox.path("old.json");
    let baseline = baseline.to_str().unwrap().trim_start_matches('/');
    assert!(
        archive
            .windows(baseline.len())
            .any(|part| part == baseline.as_bytes())
    );
}

#[test]
fn other_programs_get_their_words_as_they_are() {
    let sandbox = Sandbox::new();
    let words = ["--", "/bin/true", "bench", "--export-json", "new.json"];
    let job = job(&sandbox, &["lab", "kernel", "--cold"], &words);
    let part = r#""/bin/true","bench","--export-json","new.json""#;
    assert!(job.contains(part), "{job}");
    assert!(job.contains("XDG_CACHE_HOME"), "{job}");
}

#[test]
fn folder_that_cannot_take_the_programs_files_is_refused_before_the_boot() {
    let sandbox = Sandbox::new();
    let qemu = sandbox.qemu("9.0.0", "echo booted >&2; exit 9");
    let file = sandbox.path("file");
    fs::write(&file, "mine").unwrap();
    for out in [file.as_path(), "/proc/files".as_ref()] {
        let mut command = sandbox.run(&qemu);
        command.arg("--out").arg(out).args(["--", "/bin/true"]);
        let message = format!("cannot write into the folder {} (--out)", out.display());
        let refused = command.assert().code(125);
        refused.stderr(contains(message).and(contains("booted").not()));
    }
    assert_eq!(fs::read_to_string(file).unwrap(), "mine");
}
