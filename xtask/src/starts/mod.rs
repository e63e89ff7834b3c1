//! `cargo xtask starts`: measures how long `vmbell lab` takes to start from a saved state, compared with a boot of the
//! same machine.
//!
//! Cold and warm runs alternate, so that the load of this host affects both equally. Each round has two runs of each
//! kind: one of a program that does nothing, for CPU and wall time, and one of a shell that prints a line, for the time
//! until that line arrives. The states are in a temporary cache per machine. The first warm run with a cache makes the
//! state. The user's states are neither used nor removed. QEMU and the kernels come from the user's cache.

mod run;
mod table;

use std::env;
use std::env::consts::ARCH;
use std::fmt;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::Args;
use clap::builder::PossibleValuesParser;
use tempfile::TempDir;
use vmbell_lab::board::LabBoard;
use vmbell_lab::cache::{Cache, DiskSize};
use vmbell_lab::saved::Store;

use self::run::take_time;
use self::table::{MeasuredMachine, SavedStarts, Starts, table};
use crate::{artifacts, release};

/// The variable that names the `vmbell` for arm64, and the path where cargo builds it.
const AARCH64: (&str, &str) = (
    "VMBELL_AARCH64",
    "target/aarch64-unknown-linux-musl/release/vmbell",
);
/// A part of the lab's last line if it did not boot.
const FROM_A_STATE: &str = ", from a saved state,";
/// A part of the lab's last line if QEMU cannot save the machine.
const NOT_SAVED: &str = ", booted (QEMU";

/// Measure what the lab takes to start, cold and warm, and print a table
///
/// Measures each kernel in both modes, at each depth and on each architecture.
#[derive(Debug, Args)]
pub(crate) struct StartsArgs {
    /// Measure machines of this architecture; repeat the option for several architectures. For arm64, the binary is
    /// $VMBELL_AARCH64, or else the one that `cargo build --release --target aarch64-unknown-linux-musl -p vmbell-cli`
    /// made
    #[arg(long, default_value = ARCH, value_delimiter = ',', value_parser = PossibleValuesParser::from(LabBoard::ALL.map(|board| board.arch.name)))]
    arch: Vec<String>,
    /// Measure this kernel in addition to the default one; repeat the option for several kernels
    #[arg(long, value_name = "debian:VERSION|FILE")]
    kernel: Vec<String>,
    /// Run the programs in this Linux: 1 is L1, 2 is a guest of L1; repeat the option for several depths
    #[arg(long, value_name = "DEPTH", default_value = "1", value_delimiter = ',')]
    depth: Vec<u32>,
    /// Show the median of this many rounds
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
}

/// A machine of the lab.
#[derive(Clone, Debug)]
struct Machine<'a> {
    arch: &'a str,
    kernel: Option<&'a str>,
    mode: &'static str,
    depth: u32,
}

/// Measures every machine, even after one has failed, and prints the table.
pub(crate) fn run(options: &StartsArgs) -> Result<()> {
    let vmbell = release::program()?;
    let before = load()?;
    let (mut rows, mut failures) = (Vec::new(), Vec::new());
    for machine in machines(options) {
        match measure(&vmbell, &machine, options.runs) {
            Ok(measured) => rows.push(measured),
            Err(error) => {
                eprintln!("{machine} failed");
                failures.push(format!("{machine}: {error:#}"));
            }
        }
    }
    println!(
        "Medians; rounds: {}; load average: {before} before, {} after.\n\n{}",
        options.runs,
        load()?,
        table(&rows)
    );
    ensure!(failures.is_empty(), "failed: {}", failures.join("; "));
    Ok(())
}

fn machines(options: &StartsArgs) -> Vec<Machine<'_>> {
    let kernels = || [None].into_iter().chain(options.kernel.iter().map(Some));
    let mut machines = Vec::new();
    for arch in &options.arch {
        for &depth in &options.depth {
            for kernel in kernels() {
                machines.extend(["functional", "deterministic"].map(|mode| Machine {
                    arch,
                    kernel: kernel.map(String::as_str),
                    mode,
                    depth,
                }));
            }
        }
    }
    machines
}

/// Makes the state of this machine in a new cache, and measures the rounds.
fn measure(vmbell: &Path, machine: &Machine<'_>, rounds: u32) -> Result<MeasuredMachine> {
    let cache = cache()?;
    let lab = |cold, prints| {
        let mut command = machine.command(vmbell, cold, prints)?;
        let run = take_time(command.env("XDG_CACHE_HOME", cache.path()))?;
        let mut endings = [FROM_A_STATE, NOT_SAVED].into_iter();
        ensure!(
            cold || endings.any(|ending| run.messages.contains(ending)),
            "a run that should be warm booted: {}",
            run.messages
        );
        Ok(run)
    };
    eprintln!("{machine}: the first runs");
    // The first run prepares what is missing, and is not counted.
    lab(true, false)?;
    let made = lab(false, false)?;
    let store = Store::at(cache.path().join("vmbell/states"), DiskSize(u64::MAX));
    let size = store.list()?.iter().map(|state| state.size.0).sum();
    let name = machine.with(made.kernel());
    let is_saved = made.messages.contains(FROM_A_STATE);
    let (mut cold, mut warm) = (Starts::default(), Starts::default());
    for round in 1..=rounds {
        eprintln!("{machine}: round {round} of {rounds}");
        for (starts, is_cold) in [(&mut cold, true), (&mut warm, false)] {
            if is_cold || is_saved {
                starts.empty.push(lab(is_cold, false)?);
                starts.line.push(lab(is_cold, true)?);
            }
        }
    }
    Ok(MeasuredMachine {
        machine: name,
        cold,
        saved: is_saved.then_some(SavedStarts { warm, made, size }),
    })
}

/// Makes a cache without states, on the disk of this workspace.
fn cache() -> Result<TempDir> {
    let target = artifacts::root().join("target");
    let cache = TempDir::with_prefix_in("starts-", target).context("cannot make a cache")?;
    let lab = Cache::user()?.root().to_path_buf();
    let link = cache.path().join("vmbell/lab");
    let link_it = || format!("cannot link {}", lab.display());
    fs::create_dir_all(&lab).with_context(link_it)?;
    fs::create_dir(link.with_file_name("")).with_context(link_it)?;
    symlink(&lab, &link).with_context(link_it)?;
    Ok(cache)
}

impl Machine<'_> {
    /// Returns a `vmbell lab kernel` command for this machine. It can boot cold, and runs a program that prints a line
    /// or nothing.
    fn command(&self, vmbell: &Path, cold: bool, prints: bool) -> Result<Command> {
        let mut command = Command::new(vmbell);
        command
            .current_dir(artifacts::root())
            // Every state must be kept until its machine has been measured.
            .env_remove("VMBELL_STATE_LIMIT")
            .args(["lab", "kernel", "--arch", self.arch])
            .arg(format!("--{}", self.mode))
            .args(["--depth", &self.depth.to_string()]);
        if cold {
            command.arg("--cold");
        }
        if let Some(kernel) = self.kernel {
            command.args(["--kernel", kernel]);
        }
        let is_native = self.arch == ARCH;
        if !is_native && self.arch == "aarch64" {
            command.env(AARCH64.0, arm64()?);
        }
        command.arg("--").args(match (is_native, prints) {
            (true, false) => &["/bin/true"][..],
            (true, true) => &["/bin/sh", "-c", "echo"],
            // This shell is the machine's busybox.
            (false, false) => &["sh", "-c", "true"],
            (false, true) => &["sh", "-c", "echo"],
        });
        Ok(command)
    }

    /// Describes this machine in words, with this name of its kernel.
    fn with(&self, kernel: &str) -> String {
        let Self {
            arch, mode, depth, ..
        } = self;
        format!("{arch}, {kernel}, {mode}, depth {depth}")
    }
}

impl fmt::Display for Machine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.with(self.kernel.unwrap_or("default kernel")))
    }
}

/// Returns the `vmbell` for arm64.
fn arm64() -> Result<PathBuf> {
    let (variable, built) = AARCH64;
    let path = env::var_os(variable).map_or_else(|| artifacts::root().join(built), PathBuf::from);
    ensure!(
        path.is_file(),
        "there is no vmbell for arm64 at {}: build one, or name one with {variable}",
        path.display()
    );
    Ok(path)
}

/// Returns the load of this host in the last minute.
fn load() -> Result<String> {
    let text = fs::read_to_string("/proc/loadavg").context("cannot read /proc/loadavg")?;
    Ok(text.split(' ').take(1).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(words: &[&str]) -> StartsArgs {
        #[derive(clap::Parser)]
        struct Parsed {
            #[command(flatten)]
            options: StartsArgs,
        }
        let words = ["starts"].iter().chain(words);
        <Parsed as clap::Parser>::try_parse_from(words)
            .unwrap()
            .options
    }

    #[test]
    fn the_default_kernel_is_measured_before_the_named_ones() {
        let options = options(&["--kernel", "debian:6.1", "--depth", "1,2"]);
        let machines: Vec<_> = machines(&options).iter().map(Machine::to_string).collect();
        assert_eq!(machines.len(), 8);
        assert_eq!(
            machines[..3],
            [
                "default kernel, functional, depth 1",
                "default kernel, deterministic, depth 1",
                "debian:6.1, functional, depth 1"
            ]
            .map(|machine| format!("{ARCH}, {machine}"))
        );
    }
}
