//! `cargo xtask lab --arch aarch64`: the same on arm64's KVM.
//!
//! All that runs in L1 is built once, with the profile `release`, because QEMU emulates every instruction of it. A
//! boot needs one CPU of the host, so two run at a time. One is the bench. The other runs, one after the other: the tests on
//! KVM with a GICv3; those that depend on the interrupt controller's version with a GICv2; those of an assigned device; and
//! those of vmbell-check. Then the lab's own tests run on both threads.

use std::time::Instant;

use anyhow::{Result, anyhow};

use super::{LabLauncher, bench, conclude, inside, own, stage, suites};
use crate::artifacts;

/// The target of Rust for static arm64 programs.
const TARGET: &str = "aarch64-unknown-linux-musl";

/// The packages with tests on KVM, the command's own, and the checker.
const PACKAGES: [&str; 6] = [
    "vmbell-hypervisor",
    "vmbell-vfio",
    "vmbell-vmm",
    "vmbell-bench",
    "vmbell-cli",
    "vmbell-check",
];

/// The program of a guest and its host that talks over vsock.
const TALKS: &str = "vsock";

/// Runs all stages, even after one has failed, and prints their results.
pub(super) fn run() -> Result<()> {
    let started = Instant::now();
    let foreign = artifacts::tests_for(TARGET, &PACKAGES)?;
    artifacts::example_for(TARGET, &PACKAGES, TALKS)?;
    let host = artifacts::test_of_the_command(suites::OWN_ARM64)?;
    let launcher = LabLauncher {
        vmbell: &host.vmbell,
        arm64: Some(&foreign.vmbell),
    };
    launcher.prepare()?;
    let boots = suites::named(&host.tests, suites::OWN_ARM64)?;
    let on_kvm = suites::find_foreign(&foreign.tests)?;
    let tests = |machine| inside::run_on_arm64(launcher, machine, &on_kvm);
    let bench = || bench::run(launcher, &bench::AARCH64);
    let own = own::LabTestQueue::new(&boots, Some(("VMBELL_AARCH64", &foreign.vmbell)));
    let mut others = None;
    let own = stage::run("the lab itself", || {
        others = std::thread::scope(|scope| {
            let bench = scope.spawn(|| {
                let bench = stage::run("bench on KVM", bench);
                own.work();
                bench
            });
            let tests = [
                stage::run("tests, GICv3", || tests(inside::Arm64::Gicv3)),
                stage::run("tests, GICv2", || tests(inside::Arm64::Gicv2)),
                stage::run("tests, pl031", || tests(inside::Arm64::Pl031)),
                stage::run("vmbell-check", || {
                    inside::run_checker_on_arm64(launcher, &foreign.tests)
                }),
            ];
            own.work();
            Some((bench.join().ok()?, tests))
        });
        Ok(own.finish())
    });
    let others = others.ok_or_else(|| anyhow!("the thread of the bench panicked"))?;
    let (bench, [newer, older, device, checker]) = others;
    conclude(&[own, bench, newer, older, device, checker], started)
}
