//! What ends a boot: a panic, an oops, a time limit.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use super::boots::states::States;
use super::boots::{host_vmbell, lab, lab_within_its_limits, only_boot, output, text};

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn after_a_real_panic_a_program_begins_again_from_a_boot_as_often_as_the_user_says() {
    let shared = States::of("default");
    assert!(shared.run(&[], "true").status.success());
    let states = shared.copy();
    states.only();
    let panics = "echo c > /proc/sysrq-trigger; while :; do :; done";
    for (retries, says) in [
        ("1", "L1's kernel panicked in each of 2 boots; "),
        ("0", "L1's kernel panicked; "),
    ] {
        let lab = lab_within_its_limits(&["--retries", retries, "--", "/bin/sh", "-c", panics]);
        let output = output(&mut states.with(lab));
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{said}");
        assert!(said.contains(says), "{said}");
        assert!(said.contains("sysrq triggered crash"), "{said}");
        let advice = "the program had started, so it is not run again; `vmbell lab kernel --retries N` allows that";
        assert_eq!(said.contains(advice), retries == "0", "{said}");
        // The state that the first boot started from is not used again, and the second boot saves none.
        assert_eq!(states.names(), [""; 0]);
    }
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn an_oops_of_l1s_kernel_ends_the_run_with_its_text() {
    // With SMAP, the usermode backend makes L1's kernel oops if QEMU is older than 9.1.
    let vmbell = host_vmbell();
    let cpu = ["--qemu-arg", "-cpu", "--qemu-arg", "max"];
    let smap = [
        &["--functional", "--retries", "1"],
        &cpu[..],
        &["--", vmbell],
    ]
    .concat();
    let row = ["--only", "portio-wildcard-eventfd", "--ops", "100"];
    let output = output(
        lab_within_its_limits(&smap)
            .args(["bench", "--backend", "usermode"])
            .args(row),
    );
    let said = text(&output.stderr);
    if output.status.success() {
        assert!(!said.contains("panicked"));
    } else {
        assert_eq!(output.status.code(), Some(125));
        assert!(said.contains("panicked in each of 2 boots"));
        assert!(said.contains("  | ") && said.contains("supervisor read access in user mode"));
    }
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn a_program_whose_reader_has_gone_ends_as_it_would_outside() {
    for mode in ["--vcpus=2", "--deterministic", "--depth=2"] {
        let mut lab = lab(&[mode, "--", "/bin/sh", "-c", "yes; echo status $? >&2"]);
        let _one = only_boot();
        let mut run = lab
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut first = [0; 2];
        run.stdout.take().unwrap().read_exact(&mut first).unwrap();
        assert_eq!(&first, b"y\n");
        let output = run.wait_with_output().unwrap();
        let said = text(&output.stderr);
        assert!(output.status.success(), "{said}");
        // 128 + SIGPIPE.
        assert!(said.contains("status 141\n"), "{said}");
    }
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn a_program_goes_on_after_the_lab_was_stopped_for_longer_than_its_limit() {
    // The loop keeps an RCU grace period in progress, so L1's kernel reports a stall when its clock jumps after the
    // stop.
    let script =
        "(while :; do /lab/bin/true; done) & echo began; /lab/bin/sleep 5; echo ended; exit 3";
    let mut lab = lab_within_its_limits(&["--timeout", "30s", "--", "/bin/sh", "-c", script]);
    let _one = only_boot();
    let lab = lab.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut run = lab.process_group(0).spawn().unwrap();
    let mut word = [0; 6];
    run.stdout.as_mut().unwrap().read_exact(&mut word).unwrap();
    let all = format!("-{}", run.id());
    let kill = |signal| {
        Command::new("kill")
            .args(["-s", signal, "--", &all])
            .status()
    };
    assert!(kill("STOP").unwrap().success());
    thread::sleep(Duration::from_secs(40));
    assert!(kill("CONT").unwrap().success());
    let output = run.wait_with_output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert_eq!(text(&output.stdout), "ended\n");
    assert!(said.contains("retries 0"), "{said}");
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn lost_output_is_an_error_of_the_lab_or_a_remark_after_the_programs() {
    for (own, expected) in [(0, 125), (3, 3)] {
        let script = format!("echo lost; exit {own}");
        let _one = only_boot();
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut lab = lab(&["--", "/bin/sh", "-c", &script]);
        let output = lab.stdout(full).stderr(Stdio::piped()).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(expected), "{said}");
        let lost = "a part of what the program wrote is lost: cannot write it: No space left";
        assert!(said.contains(lost), "{said}");
    }
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn a_program_that_never_ends_is_asked_to_and_killed_and_its_output_and_files_come_back() {
    let folder = tempfile::tempdir().unwrap();
    // A stopped process does not get the signal that asks it to end.
    for (mode, never) in [
        ("--vcpus=2", "kill -STOP $$"),
        ("--deterministic", "while :; do :; done"),
    ] {
        let out = folder.path().join(mode);
        let arguments = ["--timeout", "5s", "--out", out.to_str().unwrap(), mode];
        let script = format!("echo started; echo content > /out/a; {never}");
        let output =
            output(lab_within_its_limits(&arguments).args(["--", "/bin/sh", "-c", &script]));
        assert_eq!(output.status.code(), Some(124), "{mode}");
        assert_eq!(text(&output.stdout), "started\n", "{mode}");
        assert_eq!(fs::read_to_string(out.join("a")).unwrap(), "content\n");
        let said = text(&output.stderr);
        assert!(said.contains("lab: ended at its time limit; "));
        assert!(said.contains("error: the program started at "));
        assert!(said.contains(": its limit is 5 s (--timeout)"));
    }
}
