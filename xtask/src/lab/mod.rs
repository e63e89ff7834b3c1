//! `cargo xtask lab`: every test that needs `/dev/kvm`, on real KVM in the lab.
//!
//! It has three stages: the lab's own tests, which boot the lab themselves; beside them a deterministic bench whose
//! exit counts are checked; and the workspace's tests on KVM, all in one boot. Nothing may be
//! skipped: a test that no stage runs, a binary without a test that passed, and a row without numbers
//! are failures. The lab itself boots again after a panic of its kernel; such retries are counted here,
//! and nothing else is tried twice.

mod bench;
mod inside;
mod own;
mod stage;
mod suites;

use std::process::Command;
use std::time::Instant;

use anyhow::{Result, anyhow, ensure};

use crate::artifacts;
use crate::child;
use stage::Stage;

/// Runs all stages, even after one has failed, and prints their results.
pub(crate) fn run() -> Result<()> {
    let started = Instant::now();
    let debug = artifacts::tests()?;
    let release = artifacts::release()?;
    let prepared = child::run(Command::new(&debug.vmbell).args(["lab", "prepare"]))?;
    ensure!(prepared.status.success(), "the lab cannot be prepared");
    let suites = suites::find(&debug.tests)?;
    // A boot needs one CPU most of the time, and the bench counts instructions, which no load changes.
    let (own, bench) = std::thread::scope(|scope| {
        let bench = scope.spawn(|| stage::run("bench on KVM", || bench::run(&release.vmbell)));
        let own = stage::run("the lab itself", || {
            own::run(&suites.own, own::RETRIES_ON_PURPOSE)
        });
        (own, bench.join())
    });
    let bench = bench.map_err(|_| anyhow!("the thread of the bench panicked"))?;
    let inside = stage::run("tests on KVM", || {
        inside::run(&debug.vmbell, &suites.on_kvm)
    });
    conclude(&[own, bench, inside], started)
}

/// The target of Rust for static arm64 programs.
const ARM64: &str = "aarch64-unknown-linux-musl";

/// Runs on arm64's KVM what has tests for it: the lab's own tests of that machine, and the workspace's tests on KVM.
pub(crate) fn run_on_arm64() -> Result<()> {
    let started = Instant::now();
    let foreign = artifacts::tests_for(ARM64)?;
    let own = artifacts::test_of_the_command(suites::OWN_ARM64)?;
    let prepare = ["lab", "prepare", "--arch", "aarch64"];
    let prepared = child::run(Command::new(&own.vmbell).args(prepare))?;
    ensure!(prepared.status.success(), "the lab cannot be prepared");
    let boots = suites::named(&own.tests, suites::OWN_ARM64)?;
    let on_kvm = suites::find_foreign(&foreign.tests)?;
    let stages = [
        stage::run("the lab itself", || own::run(&boots, 0)),
        stage::run("tests on KVM", || {
            inside::run_on_arm64(&own.vmbell, &on_kvm)
        }),
    ];
    conclude(&stages, started)
}

fn conclude(stages: &[Stage], started: Instant) -> Result<()> {
    println!("\n{}", stage::table(stages, started.elapsed()));
    let failed: Vec<&str> = stages
        .iter()
        .filter(|stage| stage.failure.is_some())
        .map(|stage: &Stage| stage.name)
        .collect();
    ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    Ok(())
}
