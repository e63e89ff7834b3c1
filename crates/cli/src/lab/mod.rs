//! `vmbell lab`: real KVM inside QEMU, one file a subcommand.
//!
//! `arch` chooses the machine, `parts` finds QEMU and the kernel, `init` the `vmbell` for inside, `machine` has the options of L1, `environment` makes the
//! environment of a program in L1. The exit status is that of the program in L1, so failures of the lab
//! itself have a status of their own.

mod arch;
mod bench;
mod cache;
mod columns;
mod device;
mod environment;
mod exported;
mod init;
mod machine;
mod net;
mod parts;
mod run;
mod signals;
mod vmm;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Args, Subcommand};

use self::bench::LabBenchArguments;
use self::net::LabNetArguments;
use self::parts::Parts;
use self::run::RunArguments;
use self::vmm::LabVmmArguments;
use vmbell_lab::LabError;
use vmbell_lab::boot::exec_applet;

const EXAMPLES: &str = "\
Examples:
  vmbell lab prepare                                   download what is missing
  vmbell lab run -- PROGRAM                            a program on real KVM
  vmbell lab --arch aarch64 run -- PROGRAM             an arm64 program on arm64's KVM
  vmbell lab --arch aarch64 bench --deterministic      the bench there, in instructions
  vmbell lab status --verify                           what is prepared, and whether it is undamaged
";

/// The exit status at the time limit, as that of `timeout(1)`.
const TIME_LIMIT: u8 = 124;
/// The exit status if the lab itself failed, which keeps it apart from a failed test.
const LAB_FAILED: u8 = 125;

/// Run programs on real KVM, on machines that have none
///
/// Boots a stock Linux inside QEMU's emulation (TCG), which emulates hardware virtualization well
/// enough for that Linux's own KVM. QEMU and the kernel come from the distribution's packages,
/// downloaded by its own client and unpacked into $XDG_CACHE_HOME/vmbell/lab, without root.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct LabArguments {
    /// The architecture of the Linux inside and of its programs [default: this machine's]
    #[arg(long, global = true, value_name = "ARCH", value_parser = arch::names())]
    arch: Option<String>,
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
        /// Print one word that changes when other parts are needed: a key for a CI's cache
        #[arg(long, conflicts_with = "verify")]
        key: bool,
    },
    /// Remove everything that was downloaded and prepared
    Clean,
    Run(Box<RunArguments>),
    Bench(Box<LabBenchArguments>),
    Vmm(Box<LabVmmArguments>),
    Net(Box<LabNetArguments>),
    /// Become another program that dies with its parent
    #[command(hide = true)]
    Exec {
        /// The program and its arguments
        #[arg(last = true, required = true)]
        words: Vec<OsString>,
    },
}

/// If this process is process 1 of the lab's own kernel, runs as that. It must be called before the
/// arguments are looked at, because there they are the kernel's.
pub(super) fn init_if_called() {
    if vmbell_lab::init::is_called() {
        vmbell_lab::init::main();
    }
}

/// Runs `vmbell lab`.
pub(super) fn run(arguments: LabArguments) -> ExitCode {
    let arch = arguments.arch.as_deref();
    let result = match arguments.command {
        LabCommand::Exec { words } => {
            let error = exec_applet(&words);
            Err(anyhow::Error::new(error).context(format!("cannot become {}", words[0].display())))
        }
        LabCommand::Prepare(parts) => cache::prepare(arch, &parts),
        LabCommand::Status { key: true, .. } => cache::key(arch),
        LabCommand::Status { verify, .. } => cache::status(arch, verify),
        LabCommand::Clean => cache::clean(),
        LabCommand::Run(arguments) => run::run(arch, &arguments),
        LabCommand::Bench(arguments) => bench::run(arch, &arguments),
        LabCommand::Vmm(arguments) => vmm::run(arch, &arguments),
        LabCommand::Net(arguments) => net::run(arch, &arguments),
    };
    result.unwrap_or_else(|error| {
        eprintln!("vmbell: {error:#}");
        let status = match error.downcast_ref() {
            Some(LabError::Boot(error)) if error.is_time_limit() => TIME_LIMIT,
            _ => LAB_FAILED,
        };
        ExitCode::from(status)
    })
}
