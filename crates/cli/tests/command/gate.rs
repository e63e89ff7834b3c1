//! `vmbell gate` without a boot: errors in its arguments and its file.

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

const PLAN: &str = "kernels = [\"debian:6.12\"]\n[vmm.alioth]\n";

/// Runs the gate with these files, and returns its standard error. It must report wrong arguments or files before the
/// lab downloads or boots anything.
fn refused(files: &[(&str, &str)], words: &[&str]) -> String {
    let folder = TempDir::new().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let assert = vmbell("gate")
        .args(words)
        .current_dir(folder.path())
        .env("XDG_CACHE_HOME", folder.path().join("cache"))
        .assert()
        .code(2)
        .stdout("");
    assert!(!folder.path().join("cache").exists());
    String::from_utf8(assert.get_output().stderr.clone()).unwrap()
}

/// Expects a plan to be refused before the lab downloads or boots anything.
fn refuses(plan: &str, words: &[&str], why: &str) {
    let said = refused(&[("vmbell-gate.toml", plan)], words);
    assert!(said.contains(why), "{why}: {said}");
}

#[test]
fn without_a_plan_the_gate_says_how_to_write_one() {
    let said = refused(&[], &[]);
    let told = "cannot read vmbell-gate.toml; `vmbell gate --init` writes a plan and measures it";
    assert!(said.contains(told), "{said}");
}

#[test]
fn what_does_not_fit_a_plan_is_refused() {
    let twice = PLAN.replace("[\"debian:6.12\"]", "[\"debian:6.12\", \"debian:6.12\"]");
    let named_twice = "the kernel debian:6.12 is named twice";
    for (plan, words, why) in [
        (
            PLAN,
            &["--init"][..],
            "vmbell-gate.toml exists: `vmbell gate --accept`",
        ),
        (
            PLAN,
            &["--vmm", "aliot=/bin/true"],
            "has no VMM 'aliot', did you mean 'alioth'?; it has alioth",
        ),
        (
            PLAN,
            &["--kernel", "debian:6.1"],
            "does not hold the kernel debian:6.1, only debian:6.12",
        ),
        (&twice, &[], named_twice),
        (
            PLAN,
            &["--kernel", "debian:6.12", "--kernel", "debian:6.12"],
            named_twice,
        ),
        (
            "kernals = []\n",
            &[],
            "vmbell-gate.toml: TOML parse error at line 1",
        ),
        ("kernals = []\n", &[], "unknown field `kernals`"),
        (PLAN, &["--rows", "cpuid"], "--init"),
        (PLAN, &["--boots", "3"], "--init"),
        (PLAN, &["alioth"], "--init"),
    ] {
        refuses(plan, words, why);
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
        // Without a cache, measuring would begin with a download by `apt-get`.
        vmbell("gate")
            .args(words)
            .current_dir(folder.path())
            .env("XDG_CACHE_HOME", folder.path())
            .env("PATH", "")
            .assert()
            .code(1)
            .stderr(contains("error: cannot ").and(contains("absent/")));
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
    // SAFETY: the group is that of our child, which was not reaped.
    assert_eq!(unsafe { libc::killpg(group, libc::SIGINT) }, 0);
    assert_eq!(end(&mut child).code(), Some(130));
}

#[test]
fn a_download_that_fails_is_the_labs_failure_and_nothing_is_booted() {
    let folder = TempDir::new().unwrap();
    let client = folder.path().join("apt-get");
    fs::write(
        &client,
        "#!/bin/sh\n[ \"$1\" = --version ] && exit\necho 'E: no network' >&2\nexit 100\n",
    )
    .unwrap();
    fs::set_permissions(&client, fs::Permissions::from_mode(0o755)).unwrap();
    let path = std::env::var("PATH").unwrap();
    vmbell("gate --init vmbell")
        .current_dir(folder.path())
        .env("PATH", format!("{}:{path}", folder.path().display()))
        .env("XDG_CACHE_HOME", folder.path())
        .assert()
        .code(125)
        .stdout("")
        .stderr(contains("no network").and(contains("the lab with").not()));
    assert!(!folder.path().join("vmbell-gate.toml").exists());
}

/// A plan whose VMM has this command.
fn plan_of(command: &str) -> String {
    format!("kernels = [\"debian:6.12\"]\n[vmm.mine]\ncommand = {command:?}\n")
}

#[test]
fn a_row_or_device_that_does_not_exist_is_refused_before_a_boot() {
    let with = |key: &str| format!("{key}\n{}", plan_of("/bin/true {image}"));
    let mistakes = [
        (
            r#"rows = ["cpuid", "cpiud"]"#,
            "vmbell-gate.toml: rows: 'cpiud': no row has this name, did you mean 'cpuid'?",
        ),
        (
            r#"virtio = ["rgn"]"#,
            "vmbell-gate.toml: virtio: no device is called 'rgn', did you mean 'rng'?; there are rng, blk",
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
            "the command has the unknown placeholder {imgae}, did you mean '{image}'?",
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
        refuses(&plan_of(command), &[], &why);
    }
    let good = plan_of("/bin/true {image}");
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
        "vmbell-gate.toml: kernels: debain:6.12: there is no such file, did you mean 'debian:6.12'?",
    );
    refuses(
        &good.replace("mine", "aliot").replace("command", "#"),
        &[],
        "[vmm.aliot]: no VMM is called 'aliot', did you mean 'alioth'?",
    );
}

#[test]
fn a_byte_order_mark_is_no_part_of_a_plan() {
    let marked = format!("\u{feff}{}", plan_of("/bin/true {imgae}"));
    refuses(
        &marked,
        &[],
        "[vmm.mine]: the command has the unknown placeholder {imgae}",
    );
}

#[test]
fn a_baseline_that_is_damaged_or_holds_nothing_is_refused_with_its_name() {
    const REPORT: &str = include_str!("../../../report/tests/data/report.json");
    let plan = plan_of("/bin/true {image}");
    let baseline = "vmbell-gate.debian_6.12.json";
    let accept = "`vmbell gate --accept` measures them";
    let of = |text: Option<&str>| {
        let mut files = vec![("vmbell-gate.toml", plan.as_str())];
        files.extend(text.map(|text| (baseline, text)));
        let said = refused(&files, &[]);
        assert!(said.contains(baseline), "{said}");
        said
    };
    for (text, why) in [
        (None, accept),
        (Some(""), "it is empty"),
        (Some("{}"), "it is JSON but not a vmbell report"),
        (Some(&REPORT[..REPORT.len() / 2]), "it is not whole JSON"),
        (
            Some(&REPORT.replace("\"schema_version\": 2", "\"schema_version\": 9")),
            "is 9, and this vmbell reads 2",
        ),
        (Some(REPORT), "has no figures of [vmm.mine] on debian:6.12"),
        (Some(REPORT), accept),
        (
            Some(&REPORT.replace("\"backend\": \"usermode\"", "\"backend\": \"mine\"")),
            "unit: native before, instructions now; `vmbell gate --accept` takes new figures",
        ),
    ] {
        let said = of(text);
        assert!(said.contains(why), "{why}: {said}");
    }
}
