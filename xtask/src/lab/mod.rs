//! `cargo xtask lab`: runs every test that needs `/dev/kvm`, on real KVM in the lab.
//!
//! There are four stages: the lab's own tests, which boot the lab themselves; a deterministic bench, whose exit counts
//! are checked; all KVM tests of the workspace, in one boot; and the doorbell tests a second time, with the module
//! kvm_ioeventfd. Two boots run at a time: the own tests run alongside the other stages, whose thread helps with them
//! when it is done. The own tests use the release build, because QEMU emulates every instruction of `vmbell` in L1.
//! Nothing may be skipped: a test that no stage runs, a binary in which no test passed, and a row without numbers are
//! failures. The lab itself boots again if L1's kernel panics, and a test runs again if its L1 panicked or a Linux in
//! L1 oopsed. These retries are counted here; nothing else is retried.

mod arm64;
mod bench;
mod inside;
mod own;
mod stage;
mod suites;

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Result, anyhow, ensure};
use clap::{Args, ValueEnum};

use crate::{artifacts, child, release};
use stage::LabStage;

/// Run every test that needs real KVM, in the lab
///
/// Prepares the lab first, which downloads about 62 MB once and needs no network afterwards: docs/lab.md.
#[derive(Debug, Args)]
pub(crate) struct LabArgs {
    /// Run the tests with FILTER in BINARY::TEST, e.g. interrupts::resamplers, and no bench
    filter: Option<String>,
    /// Build the tests for this architecture, and run them on its KVM
    #[arg(long, conflicts_with = "filter")]
    arch: Option<Foreign>,
    /// Run the tests of the module kvm_ioeventfd, and no others, on a kernel with lockdep, KASAN and kmemleak, which is built
    /// first
    #[arg(long, conflicts_with_all = ["filter", "arch"])]
    debug_kernel: bool,
}

/// An architecture whose tests are built for it on another one.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Foreign {
    Aarch64,
}

/// The `vmbell` of this machine, which starts the lab's boots, and the `vmbell` for arm64 if L1 is an arm64 machine.
#[derive(Clone, Copy, Debug)]
struct LabLauncher<'a> {
    vmbell: &'a Path,
    arm64: Option<&'a Path>,
}

impl<'a> LabLauncher<'a> {
    /// Makes a launcher of machines with this machine's architecture.
    fn native(vmbell: &'a Path) -> Self {
        let arm64 = None;
        Self { vmbell, arm64 }
    }

    /// Returns `vmbell lab kernel` with these words, run in the workspace's folder. It has the options of all limits.
    fn lab(&self, words: &[&str]) -> Command {
        let mut command = Command::new(self.vmbell);
        // L1 has fewer CPUs than the number of test threads that cargo uses here.
        command
            .current_dir(artifacts::root())
            .env_remove("RUST_TEST_THREADS")
            .args(["lab", "kernel"])
            .args(words);
        if let Some(arm64) = self.arm64 {
            command.args(["--arch", "aarch64"]);
            command.env("VMBELL_AARCH64", arm64);
        }
        command
    }

    fn prepare(&self) -> Result<()> {
        let prepared = child::run(&mut self.lab(&["prepare"]))?;
        ensure!(prepared.status.success(), "the lab cannot be prepared");
        Ok(())
    }
}

/// Runs what the options ask for.
pub(crate) fn run(options: &LabArgs) -> Result<()> {
    if options.debug_kernel {
        return run_on_debug_kernel();
    }
    match (options.arch, &options.filter) {
        (Some(Foreign::Aarch64), _) => arm64::run(),
        (None, Some(filter)) => run_filtered(filter),
        (None, None) => run_all(),
    }
}

/// Runs the tests with `filter` in their names: first the KVM tests, then the lab's own.
fn run_filtered(filter: &str) -> Result<()> {
    let started = Instant::now();
    let debug = artifacts::tests()?;
    let suites = suites::find(&debug.tests)?.filtered(filter)?;
    let launcher = LabLauncher::native(&debug.vmbell);
    let mut stages = Vec::new();
    if !suites.on_kvm.is_empty() {
        stages.push(stage::run("tests on KVM", || {
            inside::run(launcher, &suites.on_kvm)
        }));
    }
    if !suites.own.tests.is_empty() {
        let tests = own::LabTestQueue::new(&suites.own, None);
        stages.push(stage::run("the lab itself", || {
            tests.work();
            Ok(tests.finish())
        }));
    }
    conclude(&stages, started)
}

/// Runs all stages, even after one has failed, and prints their results.
fn run_all() -> Result<()> {
    let started = Instant::now();
    let debug = artifacts::tests()?;
    let release = release::program()?;
    let launcher = LabLauncher::native(&debug.vmbell);
    launcher.prepare()?;
    let suites = suites::find(&debug.tests)?;
    // A boot needs one CPU most of the time. The bench counts instructions, which no load changes.
    let optimized = Some(("VMBELL_OPTIMIZED", &*release));
    let tests = own::LabTestQueue::new(&suites.own, optimized);
    let mut others = None;
    let own = stage::run("the lab itself", || {
        others = std::thread::scope(|scope| {
            let others = scope.spawn(|| {
                let measured = LabLauncher::native(&release);
                let others = [
                    stage::run("bench on KVM", || bench::run(measured, &bench::X86_64)),
                    stage::run("tests on KVM", || inside::run(launcher, &suites.on_kvm)),
                    stage::run("doorbells in groups of the kernel", || {
                        inside::run_with_groups(launcher, &suites.on_kvm)
                    }),
                ];
                tests.work();
                others
            });
            tests.work();
            others.join().ok()
        });
        Ok(tests.finish())
    });
    let [bench, inside, groups] =
        others.ok_or_else(|| anyhow!("the thread of a stage panicked"))?;
    conclude(&[own, bench, inside, groups], started)
}

/// Runs the tests of the module kvm_ioeventfd on a kernel that checks itself.
fn run_on_debug_kernel() -> Result<()> {
    let started = Instant::now();
    let debug = artifacts::tests()?;
    let suites = suites::find(&debug.tests)?;
    let launcher = LabLauncher::native(&debug.vmbell);
    let mut prepare = launcher.lab(&["prepare", inside::DEBUG_KERNEL]);
    let prepared = child::run(prepare.args(inside::GROUPS))?;
    ensure!(
        prepared.status.success(),
        "the kernel cannot be built for the lab"
    );
    let stages = [
        stage::run("selftests on a debug kernel", || {
            inside::run_selftests_on_debug_kernel(launcher)
        }),
        stage::run("doorbells on a debug kernel", || {
            inside::run_on_debug_kernel(launcher, &suites.on_kvm)
        }),
    ];
    conclude(&stages, started)
}

fn conclude(stages: &[LabStage], started: Instant) -> Result<()> {
    println!("\n{}", stage::table(stages, started.elapsed()));
    let failed: Vec<&str> = stages
        .iter()
        .filter(|stage| stage.failure.is_some())
        .map(|stage: &LabStage| stage.name)
        .collect();
    ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    Ok(())
}
