//! `vmbell lab`: real KVM inside QEMU.

use std::ffi::OsString;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};

use crate::lab::board::Board;
use crate::lab::boot::{BootError, Mode, Settings, exec_applet};
use crate::lab::cache::{Cache, Size};
use crate::lab::job::Ending;
use crate::lab::{KernelChoice, Lab, LabError, Outcome, Progress, Provision, Recipe, Task, init};

/// The time limit, as `timeout` reports it.
const TIME_LIMIT: u8 = 124;
/// The lab itself failed, so that a test's own failures stay apart.
const LAB_FAILED: u8 = 125;

/// Variables that say where things are on this host, and not in L1.
const HOST_VARIABLES: &[&str] = &[
    "HOME",
    "LD_PRELOAD",
    "LOGNAME",
    "OLDPWD",
    "PATH",
    "PWD",
    "SHLVL",
    "TMPDIR",
    "USER",
    "XDG_RUNTIME_DIR",
    "_",
];
/// What L1 has instead.
const L1_VARIABLES: &[(&str, &str)] = &[
    ("HOME", "/root"),
    (
        "PATH",
        "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    ),
    ("TMPDIR", "/tmp"),
];

/// Run programs on real KVM, on machines that have none
///
/// Boots a stock Linux inside QEMU's emulation (TCG), which emulates hardware virtualization well
/// enough for that Linux's own KVM. QEMU and the kernel come from the distribution's packages,
/// downloaded by its own client and unpacked into $XDG_CACHE_HOME/vmbell/lab, without root.
#[derive(Debug, Args)]
pub struct LabArguments {
    #[command(subcommand)]
    command: LabCommand,
}

#[derive(Debug, Subcommand)]
enum LabCommand {
    /// Download and prepare what is missing
    Prepare(Parts),
    /// Show what is prepared
    Status {
        /// Read every file and compare its SHA-256
        #[arg(long)]
        verify: bool,
    },
    /// Remove everything that was downloaded and prepared
    Clean,
    /// Run a program of this host in the lab
    ///
    /// The program is copied with its libraries, environment and working directory's path; give it
    /// further files with --with. Its output and exit status are this command's: 128 plus the
    /// signal's number when a signal killed it, 124 at the time limit, 125 when the lab failed.
    ///
    /// As cargo's runner it puts any project's tests on real KVM:
    /// CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="vmbell lab run --" cargo test
    Run(RunArguments),
    /// Become another program that dies with its parent
    #[command(hide = true)]
    Exec {
        /// The program and its arguments
        #[arg(last = true, required = true)]
        words: Vec<OsString>,
    },
}

/// Which QEMU and kernel.
#[derive(Debug, Args)]
struct Parts {
    /// Use this QEMU instead of the one on PATH or the package's
    #[arg(long, value_name = "FILE")]
    qemu: Option<PathBuf>,
    /// Use this kernel (bzImage or ELF vmlinux) instead of the package's
    #[arg(long, value_name = "FILE")]
    kernel: Option<PathBuf>,
    /// Where the modules of --kernel are, or `none` if KVM is built in [default: ../lib/modules/VERSION beside it]
    #[arg(long, value_name = "FOLDER", requires = "kernel")]
    modules: Option<PathBuf>,
    /// Say nothing but errors
    #[arg(short, long)]
    quiet: bool,
}

#[derive(Debug, Args)]
struct RunArguments {
    #[command(flatten)]
    parts: Parts,
    /// Count time in instructions, on one CPU: the same run again gives the same figures
    #[arg(long, conflicts_with = "smp")]
    deterministic: bool,
    /// Virtual CPUs of L1
    #[arg(long, value_name = "N", default_value = "2")]
    smp: NonZeroU32,
    /// Memory of L1, in MiB
    #[arg(long, value_name = "MIB", default_value = "1024", value_parser = clap::value_parser!(u32).range(128..))]
    memory: u32,
    /// Time limit of one boot, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "300", value_parser = clap::value_parser!(u64).range(1..))]
    timeout: u64,
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
    /// Load a kernel module of the kernel in use
    #[arg(long, value_name = "NAME")]
    module: Vec<String>,
    /// Add a kernel parameter
    #[arg(long, value_name = "PARAMETER")]
    append: Vec<String>,
    /// Add a QEMU argument
    #[arg(long, value_name = "ARGUMENT", allow_hyphen_values = true)]
    qemu_arg: Vec<String>,
    /// Show the kernel's console on the standard error stream
    #[arg(short, long)]
    verbose: bool,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

/// Becomes process 1 of the lab's own kernel if this process is that; to be called before anything
/// looks at the arguments, which are the kernel's.
pub fn init_if_called() {
    if init::is_called() {
        init::main();
    }
}

/// Runs `vmbell lab`.
pub fn run(arguments: LabArguments) -> ExitCode {
    let result = match arguments.command {
        LabCommand::Exec { words } => {
            let error = exec_applet(&words);
            Err(anyhow::Error::new(error).context(format!("cannot become {}", words[0].display())))
        }
        LabCommand::Prepare(parts) => prepare(&parts),
        LabCommand::Status { verify } => status(verify),
        LabCommand::Clean => clean(),
        LabCommand::Run(arguments) => run_program(arguments),
    };
    result.unwrap_or_else(|error| {
        eprintln!("vmbell: {error:#}");
        let time_limit = matches!(
            error.downcast_ref(),
            Some(LabError::Boot(BootError::TimeLimit { .. }))
        );
        ExitCode::from(if time_limit { TIME_LIMIT } else { LAB_FAILED })
    })
}

fn prepare(parts: &Parts) -> anyhow::Result<ExitCode> {
    let lab = open(parts)?;
    println!(
        "{}\n{}\n{}",
        lab.kernel.title,
        lab.qemu,
        Cache::user()?.root().display()
    );
    Ok(ExitCode::SUCCESS)
}

fn status(verify: bool) -> anyhow::Result<ExitCode> {
    let cache = Cache::user()?;
    let board = board()?;
    let mut good = true;
    let current: Vec<String> = [Recipe::qemu(&board), Recipe::linux(&board)]
        .iter()
        .map(|recipe| format!("{}-{}", recipe.kind, recipe.hash()))
        .collect();
    println!("{}", cache.root().display());
    for (name, entry) in cache.entries()? {
        let checked = entry.and_then(|entry| {
            if verify {
                entry.verify().map(|()| entry)
            } else {
                Ok(entry)
            }
        });
        let short: String = name.chars().take(18).collect();
        match checked {
            Ok(entry) => {
                let manifest = entry.manifest();
                let downloaded = manifest.packages.iter().map(|package| package.size).sum();
                let note = if name.starts_with("kernel-") || current.contains(&name) {
                    ""
                } else {
                    ", of another version of vmbell"
                };
                println!(
                    "{short}  {}, {}, downloaded {}{note}",
                    manifest.title,
                    Size(manifest.size()),
                    Size(downloaded)
                );
            }
            Err(error) => {
                good = false;
                println!("{short}  {error}");
            }
        }
    }
    for name in &current {
        if !cache.root().join(name).exists() {
            let kind = name.split('-').next().unwrap_or(name);
            println!("{kind:18}  not prepared");
        }
    }
    Ok(if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn clean() -> anyhow::Result<ExitCode> {
    let cache = Cache::user()?;
    println!("removed {} from {}", cache.clean()?, cache.root().display());
    Ok(ExitCode::SUCCESS)
}

fn run_program(arguments: RunArguments) -> anyhow::Result<ExitCode> {
    let settings = Settings {
        mode: if arguments.deterministic {
            Mode::Deterministic
        } else {
            Mode::Functional {
                cpus: arguments.smp.get(),
            }
        },
        memory: arguments.memory,
        limit: Duration::from_secs(arguments.timeout),
        parameters: arguments.append.clone(),
        qemu: arguments.qemu_arg.clone(),
        show_console: arguments.verbose,
    };
    let quiet = arguments.parts.quiet;
    let task = task(&arguments)?;
    let lab = open(&arguments.parts)?;
    let progress = Progress::new(quiet);
    let mode = match settings.mode {
        Mode::Deterministic => "deterministic, 1 CPU".to_owned(),
        Mode::Functional { cpus } => format!("{cpus} CPU{}", if cpus == 1 { "" } else { "s" }),
    };
    progress.say(format_args!("{}, {}, {mode}", lab.kernel.title, lab.qemu));
    let outcome = lab.run(&task, &settings)?;
    summarize(&outcome, progress);
    Ok(ExitCode::from(outcome.ending.status()))
}

fn summarize(outcome: &Outcome, progress: Progress) {
    for note in &outcome.notes {
        progress.say(format_args!("L1: {note}"));
    }
    let ending = match &outcome.ending {
        Ending::Exited(status) => format!("exit status {status}"),
        Ending::Signalled { signal, core } => {
            format!(
                "killed by signal {signal}{}",
                if *core { ", core dumped" } else { "" }
            )
        }
        Ending::Failed(reason) => reason.clone(),
    };
    let (wall, cpu) = (outcome.wall.as_secs_f64(), outcome.cpu.as_secs_f64());
    progress.say(format_args!(
        "{ending}; {wall:.1} s, {cpu:.1} s of CPU, retries {}",
        outcome.retries
    ));
}

fn task(arguments: &RunArguments) -> anyhow::Result<Task> {
    let Some((program, rest)) = arguments.program.split_first() else {
        bail!("no program")
    };
    let host =
        |(name, _): &(OsString, OsString)| !HOST_VARIABLES.iter().any(|variable| *variable == name);
    let mut environment: Vec<(OsString, OsString)> = if arguments.clear_env {
        Vec::new()
    } else {
        std::env::vars_os().filter(host).collect()
    };
    environment.extend(
        L1_VARIABLES
            .iter()
            .map(|(name, value)| (name.into(), value.into())),
    );
    environment.extend(
        arguments
            .env
            .iter()
            .map(|(name, value)| (name.into(), value.into())),
    );
    let with = arguments
        .with
        .iter()
        .map(|pair| copied(pair))
        .collect::<anyhow::Result<_>>()?;
    Ok(Task {
        program: program.clone(),
        arguments: rest.to_vec(),
        environment,
        directory: std::env::current_dir().context("cannot tell the working directory")?,
        with,
        modules: arguments.module.clone(),
        out: arguments.out.clone(),
        stdin: arguments.stdin,
    })
}

fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("not of the form NAME=VALUE".to_owned()),
    }
}

/// `HOST` or `HOST:PATH`; a file whose name has a colon is taken as it is.
fn copied(argument: &std::path::Path) -> anyhow::Result<(PathBuf, PathBuf)> {
    let absolute = |path: &std::path::Path| {
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

fn open(parts: &Parts) -> anyhow::Result<Lab> {
    let board = board()?;
    let cache = Cache::user()?;
    let progress = Progress::new(parts.quiet);
    let kernel = parts.kernel.clone().map(|image| {
        let modules = parts
            .modules
            .clone()
            .map(|folder| (folder.as_os_str() != "none").then_some(folder));
        KernelChoice { image, modules }
    });
    let lock = cache.lock_use()?;
    let mut provision = Provision::new(&board, &cache, progress);
    let qemu = provision.qemu(parts.qemu.as_deref())?;
    let kernel = provision.kernel(kernel.as_ref())?;
    provision.finish()?;
    let vmbell = std::env::current_exe().context("cannot tell where vmbell is")?;
    Ok(Lab {
        board,
        qemu,
        kernel,
        vmbell,
        lock,
        progress,
    })
}

fn board() -> Result<Board, LabError> {
    Board::native().ok_or(LabError::NoBoard {
        arch: std::env::consts::ARCH,
    })
}
