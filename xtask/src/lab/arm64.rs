//! `cargo xtask lab --arch aarch64`: runs the tests on arm64's KVM.
//!
//! Everything that runs in L1 is built once with the `release` profile, because QEMU emulates every instruction of it.
//! A boot needs one CPU of the host, so two boots run at a time. One of them runs the bench. Alongside it, the
//! following run one after the other: the KVM tests with a GICv3; with a GICv2, those that depend on the interrupt
//! controller's version; the tests of an assigned device; and the tests of vmbell-check. Then both threads run the
//! lab's own tests.

use std::time::Instant;

use anyhow::{Result, anyhow};

use super::{LabLauncher, bench, conclude, inside, own, stage, suites};
use crate::artifacts;

/// Rust's target for static arm64 programs.
const TARGET: &str = "aarch64-unknown-linux-musl";

/// The packages with KVM tests, the command's package, and the checker's.
const PACKAGES: [&str; 6] = [
    "vmbell-hypervisor",
    "vmbell-vfio",
    "vmbell-vmm",
    "vmbell-bench",
    "vmbell-cli",
    "vmbell-check-tests",
];

/// The example program whose guest talks to its host over vsock.
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
