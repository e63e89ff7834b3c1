//! `cargo xtask check`: the format, the lints and the unit tests of what changed.
//!
//! Lints are those of the whole workspace: cargo looks again only at what changed and at what depends on it, and
//! dependencies keep the features that `cargo test --workspace` built them with. Unit tests are built in the same way; those of
//! the packages that have a changed file are run.

mod changes;

use std::fmt::Write;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::{artifacts, lab};
use changes::Changes;

const EXAMPLES: &str = "\
Examples:
  cargo xtask check                    while you work
  cargo xtask check --all              after a rebase
  cargo xtask check --lab interrupts   with the tests on KVM that have 'interrupts' in their name

What changed is compared with the last commit that HEAD shares with upstream/main, or else origin/main, or else main. \
Files that are not committed count, too. `.ci/run` has every check.";

/// Check the format, the lints and the unit tests of what changed
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Run the unit tests of all packages
    #[arg(long)]
    all: bool,
    /// Then run `cargo xtask lab FILTER`
    #[arg(long, value_name = "FILTER")]
    lab: Option<String>,
}

/// Runs all checks, up to the first that fails.
pub(crate) fn run(options: &Options) -> Result<()> {
    let changes = match options.all {
        true => None,
        false => Some(Changes::find(artifacts::root())?),
    };
    if let Some(changes) = &changes {
        println!("check: {changes}");
    }
    let mut times = String::new();
    let mut timed = |name: &str, check: &dyn Fn() -> Result<()>| {
        let begun = Instant::now();
        check()?;
        let seconds = begun.elapsed().as_secs_f64();
        // Writing to a String cannot fail.
        let _ = write!(times, ", {name} {seconds:.1} s");
        Ok::<_, anyhow::Error>(())
    };
    timed("format", &|| {
        cargo(&["fmt", "--all", "--check"]).context("run `cargo fmt --all`")
    })?;
    timed("clippy", &|| {
        let lints = ["--workspace", "--all-targets", "--", "-D", "warnings"];
        cargo(&[&["clippy", "--locked"][..], &lints].concat())
    })?;
    timed("unit tests", &|| {
        let touched = |package: &Path| changes.as_ref().is_none_or(|all| all.touch(package));
        unit_tests(touched)
    })?;
    println!("check: passed{times}");
    match &options.lab {
        Some(filter) => lab::run(&lab::Options::filtered(filter)),
        None => Ok(()),
    }
}

fn cargo(arguments: &[&str]) -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(arguments)
        .current_dir(artifacts::root())
        .status()
        .context("cannot run cargo")?;
    ensure!(status.success(), "cargo {} failed", arguments.join(" "));
    Ok(())
}

/// Runs the unit tests of the packages whose folder is `wanted`.
fn unit_tests(wanted: impl Fn(&Path) -> bool) -> Result<()> {
    for test in artifacts::unit_tests()? {
        if !wanted(&test.package) {
            continue;
        }
        let status = Command::new(&test.path)
            .arg("--quiet")
            .current_dir(&test.package)
            .env("CARGO_MANIFEST_DIR", &test.package)
            .status()
            .with_context(|| format!("cannot run {}", test.path.display()))?;
        ensure!(
            status.success(),
            "unit tests of {} failed: cd {} && {}",
            test.name,
            test.package.display(),
            test.path.display()
        );
    }
    Ok(())
}
