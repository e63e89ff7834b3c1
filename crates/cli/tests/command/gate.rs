//! `vmbell gate` as far as it goes without a boot: what is wrong with its arguments and its file.

#![allow(unsafe_code, reason = "sends a signal")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;
use tempfile::TempDir;

use super::common::vmbell;
use super::ends::end;
use kit::signals::hear_signals;
use kit::wait::await_that;

const BUDGET: &str = "format = 1\nkernels = [\"debian:6.12\"]\n[vmm.alioth]\n";

/// Runs the gate with a budget file of this text.
fn gate(text: &str, words: &[&str]) -> assert_cmd::assert::Assert {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("vmbell-gate.toml"), text).unwrap();
    let words = [&["gate"], words].concat();
    vmbell(&words).current_dir(folder.path()).assert()
}

#[test]
fn without_a_budget_the_gate_says_how_to_write_one() {
    let folder = TempDir::new().unwrap();
    vmbell(&["gate"])
        .current_dir(folder.path())
        .assert()
        .code(2)
        .stderr(contains(
            "cannot read vmbell-gate.toml; `vmbell gate --init` writes a budget",
        ));
}

#[test]
fn a_budget_is_not_written_over() {
    gate(BUDGET, &["--init"])
        .code(2)
        .stderr(contains("vmbell-gate.toml exists").and(contains("--accept")));
}

#[test]
fn a_budget_of_another_version_is_refused() {
    gate("format = 9\nfuture = 1\n", &[])
        .code(2)
        .stderr(contains("has format 9, and this vmbell reads format 1"));
}

#[test]
fn a_mistake_in_the_budget_is_shown_where_it_is() {
    gate("format = 1\nkernals = []\n", &[])
        .code(2)
        .stderr(contains("line 2").and(contains("kernals")));
}

#[test]
fn a_vmm_that_the_budget_does_not_have_is_refused() {
    gate(BUDGET, &["--vmm", "aliot=/bin/true"])
        .code(2)
        .stderr(contains(
            "has no VMM 'aliot', did you mean 'alioth'?; it has alioth",
        ));
}

#[test]
fn a_kernel_that_the_budget_does_not_have_is_refused() {
    gate(BUDGET, &["--kernel", "debian:6.1"])
        .code(2)
        .stderr(contains(
            "does not hold the kernel debian:6.1, only debian:6.12",
        ));
}

#[test]
fn a_kernel_that_is_named_twice_is_refused() {
    let twice = BUDGET.replace("[\"debian:6.12\"]", "[\"debian:6.12\", \"debian:6.12\"]");
    let words = ["--kernel", "debian:6.12", "--kernel", "debian:6.12"];
    for (text, words) in [(twice.as_str(), &[][..]), (BUDGET, &words)] {
        gate(text, words)
            .code(2)
            .stderr(contains("the kernel debian:6.12 is named twice"));
    }
}

#[test]
fn a_figure_that_is_not_a_count_is_refused() {
    for number in ["nan", "inf", "-1"] {
        let row = format!("cpuid = {{ exits = {number}, instructions = 1 }}");
        let text = format!("{BUDGET}[measured.\"debian:6.12\".alioth.rows]\n{row}\n");
        gate(&text, &[])
            .code(2)
            .stderr(contains("line 5").and(contains("numbers of at least 0")));
    }
}

#[test]
fn a_file_that_cannot_be_written_is_found_before_anything_is_measured() {
    let folder = TempDir::new().unwrap();
    for words in [
        &["--init", "vmbell", "--file", "absent/gate.toml"][..],
        &["--init", "vmbell", "--markdown", "absent/verdict.md"],
        &["--init", "vmbell", "--keep", "/dev/null/absent/"],
    ] {
        // Without a cache, to measure means to download first, which `apt-get` would do.
        vmbell(&[&["gate"], words].concat())
            .current_dir(folder.path())
            .env("XDG_CACHE_HOME", folder.path())
            .env("PATH", "")
            .assert()
            .code(1)
            .stderr(contains("error: cannot ").and(contains("absent/")));
    }
}

#[test]
fn what_describes_a_new_budget_needs_init() {
    for words in [&["--rows", "cpuid"][..], &["--boots", "3"], &["alioth"]] {
        gate(BUDGET, words).code(2).stderr(contains("--init"));
    }
}

#[test]
fn an_interrupt_of_the_download_ends_the_gate_as_one() {
    let folder = TempDir::new().unwrap();
    let begun = folder.path().join("begun");
    let client = folder.path().join("apt-get");
    let script = format!("#!/bin/sh\n: > {}\nexec sleep 1000\n", begun.display());
    fs::write(&client, script).unwrap();
    fs::set_permissions(&client, fs::Permissions::from_mode(0o755)).unwrap();
    let path = std::env::var("PATH").unwrap();
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("vmbell"));
    command
        .args(["gate", "--init", "vmbell"])
        .current_dir(folder.path())
        .env("PATH", format!("{}:{path}", folder.path().display()))
        .env("XDG_CACHE_HOME", folder.path())
        .stderr(Stdio::null())
        .process_group(0);
    let mut child = hear_signals(&mut command).spawn().unwrap();
    await_that("the download", || begun.exists());
    let group = libc::pid_t::try_from(child.id()).unwrap();
    // SAFETY: the group is that of a child which is ours and not waited for yet.
    assert_eq!(unsafe { libc::killpg(group, libc::SIGINT) }, 0);
    assert_eq!(end(&mut child).code(), Some(130));
}

/// A budget whose VMM has this command, with figures.
fn budget_of(command: &str) -> String {
    let figures = "[measured.\"debian:6.12\".mine.rows]\ncpuid = { instructions = 1 }\n";
    let vmm = format!("[vmm.mine]\ncommand = {command:?}\n");
    format!("format = 1\nkernels = [\"debian:6.12\"]\n{vmm}{figures}")
}

/// Refuses a budget before the lab downloads or boots anything, with the status of a wrong file.
fn refuses(text: &str, words: &[&str], why: &str) {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("vmbell-gate.toml"), text).unwrap();
    vmbell(&[&["gate"], words].concat())
        .current_dir(folder.path())
        .env("XDG_CACHE_HOME", folder.path().join("cache"))
        .assert()
        .code(2)
        .stdout("")
        .stderr(contains(why));
    assert!(!folder.path().join("cache").exists());
}

#[test]
fn a_row_or_device_that_does_not_exist_is_refused_before_a_boot() {
    let with = |key: &str| format!("{key}\n{}", budget_of("/bin/true {image}"));
    let mistakes = [
        (
            r#"rows = ["cpuid", "cpiud"]"#,
            "vmbell-gate.toml: rows: 'cpiud': no row has this name, did you mean 'cpuid'?",
        ),
        (
            r#"virtio = ["rgn"]"#,
            "vmbell-gate.toml: virtio: no device is called 'rgn'; there are rng, blk",
        ),
        (
            r#"rows = ["virtio-net-eoi"]"#,
            "vmbell-gate.toml: rows: the row virtio-net-eoi needs the device net",
        ),
        (
            r#"rows = ["linux-boot"]"#,
            "vmbell-gate.toml: rows: the row linux-boot needs",
        ),
    ];
    for (key, why) in mistakes {
        refuses(&with(key), &[], why);
    }
    for (words, why) in [
        (["--rows", "cpuid,nope"], "no row has this name"),
        (["--virtio", "rgn"], "[possible values: rng, blk"),
    ] {
        let words = [&["--init", "--file", "new.toml"], &words[..]].concat();
        refuses("", &words, why);
    }
}

#[test]
fn a_mistake_in_the_command_of_a_vmm_names_its_table() {
    for (command, why) in [
        (
            "/bin/true {imgae}",
            "the command has {imgae}, which stands for nothing, did you mean '{image}'?",
        ),
        (
            "/bin/true {disk}",
            "the command has no {image} or {bzimage}",
        ),
        ("/bin/true", "no VMM is called 'mine'"),
        (
            "/bin/true '{image}",
            "the command cannot be split into words",
        ),
        ("no-such-vmm {image}", "no-such-vmm is not on PATH"),
        ("./no-such-vmm {image}", "there is no file ./no-such-vmm"),
    ] {
        let why = format!("vmbell-gate.toml: [vmm.mine]: {why}");
        refuses(&budget_of(command), &[], &why);
    }
    let good = budget_of("/bin/true {image}");
    refuses(
        &good,
        &["--vmm", "mine=/bin/true {disk}"],
        "--vmm mine: the command has no {image}",
    );
    refuses(
        &good.replace("[vmm.mine]\n", "[vmm.mine]\nwith = [\"absent\"]\n"),
        &[],
        "[vmm.mine]: with: there is no file absent",
    );
    refuses(
        &good.replace("debian:6.12", "debain:6.12"),
        &[],
        "vmbell-gate.toml: kernels: there is no file debain:6.12",
    );
    refuses(
        &good.replace("mine", "aliot").replace("command", "#"),
        &[],
        "[vmm.aliot]: no VMM is called 'aliot', did you mean 'alioth'?",
    );
}

#[test]
fn a_byte_order_mark_is_no_part_of_a_budget() {
    let marked = format!("\u{feff}{}", budget_of("/bin/true {imgae}"));
    refuses(&marked, &[], "[vmm.mine]: the command has {imgae}");
}

#[test]
fn a_budget_without_figures_holds_nothing_and_is_refused() {
    let without = budget_of("/bin/true {image}");
    let without = without.split_once("[measured").unwrap().0;
    for text in [
        without.to_owned(),
        format!("{without}[measured.\"debian:6.12\".mine.rows]\n"),
    ] {
        refuses(
            &text,
            &[],
            "[vmm.mine] has no figures on debian:6.12: `vmbell gate --accept` measures them",
        );
    }
}
