//! `vmbell lab run`: runs a program of this host in L1.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;

use super::arch::boards;
use super::environment;
use super::machine::{Machine, announce, status, summarize};
use super::parts::Parts;
use vmbell_lab::Task;

const EXAMPLES: &str = "\
Examples:
  vmbell lab run -- target/debug/examples/kvm_smoke    a program on real KVM
  vmbell lab run --out results --with data -- PROGRAM  with files that go in and come back
  vmbell lab run --arch aarch64 -- target/aarch64-unknown-linux-musl/debug/PROGRAM
                                                       an arm64 program on arm64's KVM
  vmbell lab run --arch aarch64 --gic 2 -- /bin/sh -c 'dmesg | grep -i kvm'
                                                       a shell there, and GICv2
  vmbell lab run --device edu -- PROGRAM               with a PCI device to assign to a guest
  vmbell lab run --device edu,driver=none -- PROGRAM   the same, not yet bound to vfio-pci
";

/// Run a program of this host in the lab
///
/// The program is copied with its libraries, environment and working directory's path; give it
/// further files with --with. Its output and exit status are this command's: 128 plus the
/// signal's number when a signal killed it, 124 at the time limit, 125 when the lab failed.
///
/// As cargo's runner it puts any project's tests on real KVM:
/// CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="vmbell lab run --" cargo test
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct RunArguments {
    #[command(flatten)]
    parts: Parts,
    #[command(flatten)]
    machine: Machine,
    /// Copy a file or folder into L1, to the same path or to PATH
    #[arg(long, value_name = "HOST[:PATH]")]
    with: Vec<PathBuf>,
    /// Put what the program leaves in /out into this folder
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Set a variable for the program
    #[arg(short, long, value_name = "NAME=VALUE", value_parser = variable)]
    env: Vec<(String, String)>,
    /// Pass no variable of this environment
    #[arg(long)]
    clear_env: bool,
    /// Connect standard input
    #[arg(short = 'i', long)]
    stdin: bool,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

/// Runs the program; its exit status is the command's.
pub(super) fn run(arch: Option<&str>, arguments: &RunArguments) -> anyhow::Result<ExitCode> {
    let (host, board) = boards(arch)?;
    let settings = arguments.machine.settings(&board)?;
    let task = task(arguments)?;
    let lab = arguments.parts.open(host, board, &settings)?;
    announce(&lab, &settings);
    if is_doctest(Path::new(&task.program)) {
        lab.progress.say(
            "this is a doctest, and before edition 2024 each boots by itself: \
             `cargo test --lib --bins --tests` leaves them out",
        );
    }
    let mut outcome = lab.run(&task, &settings)?;
    summarize(&outcome, lab.progress);
    if let (Some(files), Some(folder)) = (outcome.files.take(), &arguments.out) {
        files.unpack(folder)?;
    }
    Ok(ExitCode::from(status(&outcome, &settings)?))
}

/// Whether this is the program that rustdoc makes of a doctest, or of all that it merges.
fn is_doctest(program: &Path) -> bool {
    let folder = program.parent().and_then(Path::file_name);
    program.file_name() == Some("rust_out".as_ref())
        && folder.is_some_and(|name| name.to_string_lossy().starts_with("rustdoctest"))
}

fn task(arguments: &RunArguments) -> anyhow::Result<Task> {
    let Some((program, rest)) = arguments.program.split_first() else {
        bail!("no program")
    };
    let host = if arguments.clear_env {
        Vec::new()
    } else {
        environment::of_host()
    };
    let with = arguments
        .with
        .iter()
        .map(|pair| copied(pair))
        .collect::<anyhow::Result<_>>()?;
    Ok(Task {
        program: program.clone(),
        arguments: rest.to_vec(),
        environment: environment::in_l1(host, &arguments.env, arguments.machine.timing()),
        directory: std::env::current_dir().context("cannot tell the working directory")?,
        with,
        modules: arguments.machine.module.clone(),
        out: arguments.out.is_some(),
        stdin: arguments.stdin,
        ..Task::default()
    })
}

fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("not of the form NAME=VALUE".to_owned()),
    }
}

/// Parses `HOST` or `HOST:PATH`; the name of a file that exists may contain a colon.
pub(super) fn copied(argument: &Path) -> anyhow::Result<(PathBuf, PathBuf)> {
    let absolute = |path: &Path| {
        std::path::absolute(path).with_context(|| format!("--with {}", path.display()))
    };
    if !argument.exists()
        && let Some((host, path)) = argument.to_str().and_then(|text| text.split_once(':'))
    {
        return Ok((absolute(host.as_ref())?, PathBuf::from(path)));
    }
    let host = absolute(argument)?;
    Ok((host.clone(), host))
}
