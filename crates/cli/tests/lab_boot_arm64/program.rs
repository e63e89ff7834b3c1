//! What a program finds in an arm64 L1, and what it leaves.

use std::process::Output;
use std::sync::LazyLock;

use super::boots::{lab, output, text};

/// Each boot's last line: the number of guests that process 1 has.
const GUESTS: &str = "ls /sys/kernel/debug/kvm | grep -c '^1-'";

/// A boot with one CPU and the default machine.
static PLAIN: LazyLock<Output> = LazyLock::new(|| {
    let script = format!(
        "uname -m; test -c /dev/kvm && dmesg | grep -c 'GICv3: no GICV'; echo said >&2; {GUESTS}; exit 201"
    );
    output(lab(&["--vcpus", "1"]).args(["--", "/bin/sh", "-c", &script]))
});

/// A boot with two CPUs and all optional parts.
static OTHER: LazyLock<Output> = LazyLock::new(|| {
    let script = format!(
        "grep -q GICv2 /proc/interrupts && echo v2; cd /sys/bus/amba/devices/9010000.pl031
         ls iommu_group/devices; test -e driver || echo free; {GUESTS}"
    );
    let options = [
        "--vcpus",
        "2",
        "--gic",
        "2",
        "--device",
        "pl031,driver=none",
    ];
    output(lab(&options).args(["--", "/bin/sh", "-c", &script]))
});

/// The lines that a boot's program printed before the number of guests, and that number.
fn lines(output: &Output) -> (&str, &str) {
    let said = text(&output.stdout).trim_end();
    said.rsplit_once('\n').unwrap()
}

#[test]
#[ignore = "boots the lab: cargo xtask lab --arch aarch64"]
fn a_program_runs_beside_arm64s_kvm_and_its_status_comes_back() {
    assert_eq!(PLAIN.status.code(), Some(201));
    assert_eq!(lines(&PLAIN).0, "aarch64\n1");
    assert!(text(&PLAIN.stderr).contains("said\n"));
}

#[test]
#[ignore = "boots the lab: cargo xtask lab --arch aarch64"]
fn deterministic_mode_says_the_same_twice() {
    // How many virtio interrupts bring the program depends on the host; all come before it starts.
    let script = "cat /proc/uptime; grep -v virtio /proc/interrupts";
    let run = || output(lab(&["--deterministic"]).args(["--", "/bin/sh", "-c", script]));
    let (one, other) = (run(), run());
    assert!(one.status.success());
    assert_eq!(text(&one.stdout), text(&other.stdout));
}

#[test]
#[ignore = "boots the lab: cargo xtask lab --arch aarch64"]
fn the_interrupt_controller_can_be_a_gicv2_and_the_clock_can_be_assigned() {
    assert_eq!(lines(&OTHER).0, "v2\n9010000.pl031\nfree");
}

#[test]
#[ignore = "boots the lab: cargo xtask lab --arch aarch64"]
fn process_1_holds_a_guest_where_linux_must_not_patch_code_under_a_second_cpu() {
    assert_eq!([lines(&PLAIN).1, lines(&OTHER).1], ["0", "1"]);
}
