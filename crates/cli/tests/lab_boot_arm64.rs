//! Real boots of the lab's arm64 machine, each some seconds of CPU. `cargo xtask lab --arch aarch64` runs them: they need
//! a `vmbell` that was built for arm64.
#![allow(clippy::unwrap_used, clippy::tests_outside_test_module)]

#[path = "lab_boot_arm64/flat.rs"]
mod flat;
#[path = "lab_boot_arm64/linux.rs"]
mod linux;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// `vmbell lab run` on arm64 with these arguments, in this package's folder.
fn lab(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vmbell"));
    command
        .args(["lab", "--arch", "aarch64", "run"])
        .args(arguments)
        .stdin(Stdio::null());
    command
}

/// Runs the command, with what it says on standard error shown.
fn output(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    output
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn a_program_runs_beside_arm64s_kvm_and_its_status_comes_back() {
    let script =
        "uname -m; test -c /dev/kvm && dmesg | grep -c 'GICv3: no GICV' ; echo said >&2; exit 201";
    let output = output(&mut lab(&["--", "/bin/sh", "-c", script]));
    assert_eq!(output.status.code(), Some(201));
    assert_eq!(text(&output.stdout), "aarch64\n1\n");
    assert!(text(&output.stderr).contains("said\n"));
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn deterministic_mode_says_the_same_twice() {
    // How many interrupts bring the program depends on the host: virtio's, all before it starts.
    let script = "cat /proc/uptime; grep -v virtio /proc/interrupts";
    let run = || {
        output(&mut lab(&[
            "--deterministic",
            "--",
            "/bin/sh",
            "-c",
            script,
        ]))
    };
    let (one, other) = (run(), run());
    assert!(one.status.success());
    assert!(text(&one.stdout).starts_with("3.") || text(&one.stdout).starts_with("4."));
    assert_eq!(text(&one.stdout), text(&other.stdout));
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn the_interrupt_controller_can_be_a_gicv2_and_the_clock_can_be_assigned() {
    let script = "grep -q GICv2 /proc/interrupts && echo v2; cd /sys/bus/amba/devices/9010000.pl031; \
                  ls iommu_group/devices; test -e driver || echo free";
    let options = ["--gic", "2", "--device", "pl031,driver=none"];
    let output = output(lab(&options).args(["--", "/bin/sh", "-c", script]));
    assert!(output.status.success());
    assert_eq!(text(&output.stdout), "v2\n9010000.pl031\nfree\n");
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn process_1_holds_a_guest_where_linux_must_not_patch_code_under_a_second_cpu() {
    let script = "ls /sys/kernel/debug/kvm | grep -c '^1-'";
    for (cpus, guests) in [("1", "0\n"), ("2", "1\n")] {
        let output = output(&mut lab(&["--smp", cpus, "--", "/bin/sh", "-c", script]));
        assert_eq!(text(&output.stdout), guests, "{cpus} CPUs");
    }
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn each_command_works_there_or_says_what_arm64_lacks() {
    let script = r#"
        "$0" list | grep -c -e '^mmio-no-eventfd' -e '^floor-kvm-run-mmio' -e portio
        "$0" probe | grep -m 1 -o 'usermode backend is for x86-64, and this is aarch64'
        "$0" stat --deterministic -n 20 | grep -e '^interrupts taken' -e 'no paravirtual EOI' | tr -s ' '
        "$0" virtqueue --one-thread --bufs 100 --repeat 2 --quiet >/dev/null; echo virtqueue $?
        "$0" run no-image 2>&1; echo $?
        "$0" bench floor-kvm-run-pio 2>&1; echo $?
        "$0" bench --backend usermode mmio-no-eventfd 2>&1; echo $?
    "#;
    let guest = guest();
    let output = output(&mut lab(&[
        "--with", &guest, "--", "/bin/sh", "-c", script, &guest,
    ]));
    assert!(output.status.success());
    let expected = "2\nusermode backend is for x86-64, and this is aarch64\ninterrupts taken 20\n\
        pv-eoi-off: arm64 has no paravirtual EOI, so there is nothing to compare with\nvirtqueue 0\n\
        error: cannot read image no-image: No such file or directory (os error 2)\n126\n\
        error: 'floor-kvm-run-pio' needs port I/O, which this architecture does not have: 'mmio-*' rings there \
        (see `vmbell list`)\n2\n\
        error: the usermode backend cannot run a guest here: the usermode backend is for x86-64, and this is \
        aarch64 (see `vmbell probe`)\n1\n";
    assert_eq!(text(&output.stdout), expected);
}

/// The `vmbell` that was built for arm64, where the lab looks for it.
fn guest() -> String {
    let built = "../../target/aarch64-unknown-linux-musl/release/vmbell";
    std::env::var("VMBELL_AARCH64").unwrap_or_else(|_| built.to_owned())
}

/// An example that was built with it.
fn example(name: &str) -> PathBuf {
    Path::new(&guest()).with_file_name("examples").join(name)
}
