//! `vmbell lab`: runs a program on real KVM, on a CPU that QEMU or Bochs emulates.
//!
//! `parts` chooses the machine and finds the emulator and the kernel, `init` finds the `vmbell` that is process 1 inside, and
//! `machine` has the options of L1. `run` boots L1 with the program. If the program is vmbell itself, `inner` parses
//! its command line, `needs` says what the command needs in L1, and `exported` brings its reports back. `vmbell lab`
//! has the options that most users need, `vmbell lab kernel` has all; there, `selftests` runs the kernel's tests of
//! KVM, and `bisect` finds a kernel. The exit status is the program's, so failures of the lab itself have their own
//! status.

mod bisect;
mod cache;
mod carried;
mod device;
mod environment;
mod exits;
mod exported;
mod init;
mod inner;
mod lacks;
mod machine;
mod needs;
mod parts;
mod run;
mod selftests;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Command, Subcommand};

pub(super) use self::carried::to_copy;
use self::parts::{LabParts, PlainParts};
pub(super) use self::parts::{cpu_name, kernel};
use self::run::{PlainArguments, RunArguments};
use self::selftests::SelftestsArguments;
use super::exit::{Exit, Usage, refused};
use crate::args::MACHINE;
use crate::args::exports::BlockExportArgs;
use vmbell_lab::boot::exec_applet;
use vmbell_lab::debian::KernelVersion;
use vmbell_lab::selftests::run_each;
use vmbell_lab::{LabError, LabFailure};

const EXAMPLES: &str = "\
Examples:
  vmbell lab -- target/debug/examples/kvm_smoke
      run a program on real KVM
  vmbell lab --out results --with data -- PROGRAM
      copy files in, and bring files back
  vmbell lab --device edu -- PROGRAM
      add a PCI device that can be assigned to a guest
  vmbell lab --arch aarch64 -- target/aarch64-unknown-linux-musl/debug/PROGRAM
      run an arm64 program on arm64's KVM
  vmbell lab -- vmbell bench --all --export-json kvm.json
      measure there, and bring the report back
  vmbell lab --arch aarch64 -- vmbell bench
      measure on arm64's KVM
  vmbell lab -- vmbell bench vmms
      compare VMMs there, in instructions
  vmbell lab -- vmbell bench net
      measure Linux's network driver there
  vmbell lab --kernel debian:6.1 -- PROGRAM
      run it on the KVM of Debian's Linux 6.1
  vmbell lab --kernel debian:6.1 --kernel debian:newest -- vmbell bench
      compare the KVM of two kernels
  vmbell lab kernel --help
      show the options that patch KVM or find a change, and all others
  vmbell lab prepare
      download what is missing
  vmbell lab status --verify
      check what has been downloaded
";

const EXIT_STATUS: &str = "\
Exit status:
  N        PROGRAM exited with N
  124      a time limit expired
  125      the lab itself failed
  128 + N  signal N killed PROGRAM
";

const ENVIRONMENT: &str = "\
Environment variables:
  VMBELL_STATE_LIMIT
      keep at most this much of saved machines, those last used [default: 4G]
  VMBELL_AARCH64
      run this vmbell in L1 with --arch aarch64 on another architecture
      [default: the one that cargo built for aarch64-unknown-linux-musl]
";

const KERNEL_EXAMPLES: &str = "\
Examples:
  vmbell lab kernel --kernel debian:6.12 --kvm-patch my.patch --unpatched \\
      -- vmbell bench
      measure what a patch of KVM changes
  vmbell lab kernel --bisect --kernel debian:6.12 --kernel debian:newest \\
      -- vmbell bench ROW --only
      find the kernel that changed a row
  vmbell lab kernel --kernel bzImage --modules none -- PROGRAM
      run it on your own kernel
  vmbell lab kernel --retries 2 --console -- PROGRAM
      show L1's console
  vmbell lab kernel prepare --kernel debian:6.12 --kvm-patch my.patch
      build this KVM ahead of a run
  vmbell lab kernel selftests --kernel debian:6.12
      build and run the kernel's selftests of KVM
";

const PREPARE_EXAMPLES: &str = "\
Examples:
  vmbell lab prepare                      download what a run needs by default
  vmbell lab prepare --kernel debian:6.1  download another kernel
  vmbell lab prepare --depth 2            save the machines with a nested Linux
";

const KERNEL_PREPARE_EXAMPLES: &str = "\
Examples:
  vmbell lab kernel prepare --kernel debian:6.12 --kvm-patch my.patch
      build this KVM ahead of a run
  vmbell lab kernel prepare --kernel debian:6.12 --debug-kernel
      build a kernel that checks itself
";

/// Run a program on real KVM, on a machine without /dev/kvm
///
/// Boots a stock Linux (L1) on an emulated CPU with hardware virtualization, where KVM works, and runs
/// PROGRAM there as root, in an empty folder at the path of its working directory. PROGRAM's libraries are copied and
/// its environment is passed; name further files with --with.
///
/// PROGRAM may be vmbell itself (`vmbell`, or the path of this program). Then files that its command line names are
/// copied, its --export-... files are brought back, and a suite finds what it needs: QEMU for `bench vmms`; QEMU, a
/// kernel, netperf and a network card for `bench net`; the devices of the rows that `bench` names. `bench` uses the
/// backend kvm unless --backend says otherwise, and counts instructions on one CPU (--deterministic) unless it names a
/// row that needs two.
///
/// QEMU and the kernel are packages of the distribution, downloaded by apt-get and unpacked into
/// $XDG_CACHE_HOME/vmbell/lab, without root. `--cpu intel` builds Bochs there. `--kernel debian:VERSION` takes another kernel from Debian's archive. The
/// command `kernel` has further options: it builds KVM with a patch, finds the kernel at which a row changed, and runs
/// the kernel's selftests.
///
/// As cargo's runner, the lab runs the tests of any project on real KVM:
/// CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="vmbell lab --" cargo test
#[derive(Debug, Args)]
#[command(
    after_help = format!("{EXAMPLES}\n{EXIT_STATUS}\n{ENVIRONMENT}"),
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
pub(super) struct LabArguments {
    /// Emulate this architecture, which must be the program's [default: this machine's]
    #[arg(long, global = true, help_heading = MACHINE, value_name = "ARCH", value_parser = parts::architectures())]
    arch: Option<String>,
    #[command(subcommand)]
    command: Option<LabCommand>,
    #[command(flatten)]
    run: PlainArguments,
}

/// Run a program on a KVM or a kernel that you change, with all options of the lab
///
/// It has the options of `vmbell lab`, and those to build KVM with a patch, to find the kernel that changed a row, to load modules, to
/// give QEMU arguments, to start again after a crash, and more.
#[derive(Debug, Args)]
#[command(
    after_help = format!("{KERNEL_EXAMPLES}\n{EXIT_STATUS}\n{ENVIRONMENT}"),
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
struct KernelArguments {
    #[command(subcommand)]
    command: Option<KernelCommand>,
    #[command(flatten)]
    run: RunArguments,
}

#[derive(Debug, Subcommand)]
enum KernelCommand {
    /// Prepare and build what a run with these options needs, and save its machines
    #[command(after_help = KERNEL_PREPARE_EXAMPLES)]
    Prepare {
        #[command(flatten)]
        parts: Box<LabParts>,
        #[command(flatten)]
        depth: PreparedDepth,
    },
    Selftests(Box<SelftestsArguments>),
}

/// What a preparation is for.
#[derive(Debug, Args)]
struct PreparedDepth {
    /// Prepare what a run with this --depth needs
    #[arg(long, help_heading = MACHINE, value_name = "DEPTH", default_value_t = 1, hide_default_value = true, value_parser = machine::depth)]
    depth: u32,
}

#[derive(Debug, Subcommand)]
enum LabCommand {
    /// Download and prepare what is missing, and save the machines that runs have by default
    #[command(after_help = PREPARE_EXAMPLES)]
    Prepare {
        #[command(flatten)]
        parts: PlainParts,
        #[command(flatten)]
        depth: PreparedDepth,
    },
    Kernel(Box<KernelArguments>),
    /// Show what is prepared, and the saved machines
    Status {
        /// Read every file and compare its SHA-256
        #[arg(long)]
        verify: bool,
        /// Print a key for the cache of a CI, which changes when other packages are needed
        #[arg(long, conflicts_with_all = ["verify", "export_markdown", "export_html"])]
        key: bool,
        /// Ask for this kernel of Debian instead of the distribution's; repeat the option for several kernels
        #[arg(long, value_name = "debian:VERSION")]
        kernel: Vec<KernelVersion>,
        #[command(flatten)]
        exports: BlockExportArgs,
    },
    /// Remove everything that was downloaded and prepared, and the saved machines
    Clean,
    /// Run selftests, in L1
    #[command(hide = true)]
    RunSelftests {
        /// The time limit of each selftest
        #[arg(long, value_name = "SECONDS")]
        limit: u64,
        /// Their programs
        #[arg(last = true, required = true)]
        programs: Vec<PathBuf>,
    },
    /// Become another program that dies with its parent
    #[command(hide = true)]
    Exec {
        /// The program and its arguments
        #[arg(last = true, required = true)]
        words: Vec<OsString>,
    },
}

/// If this process is process 1 of the lab's Linux, runs as that and does not return. Must be called before the
/// arguments are parsed, because process 1 gets the kernel's arguments.
pub(super) fn init_if_called() {
    if vmbell_lab::init::is_called() {
        vmbell_lab::init::main();
    }
}

/// Runs `vmbell lab`. If its PROGRAM is this program, `parser` parses what follows.
pub(super) fn run(arguments: LabArguments, parser: &Command) -> ExitCode {
    let arch = arguments.arch.as_deref();
    let result = match arguments.command {
        Some(LabCommand::Exec { words }) => {
            let error = exec_applet(&words);
            Err(anyhow::Error::new(error).context(format!("cannot become {}", words[0].display())))
        }
        Some(LabCommand::Kernel(kernel)) => match kernel.command {
            Some(KernelCommand::Prepare { parts, depth }) => {
                cache::prepare(arch, &parts, depth.depth)
            }
            Some(KernelCommand::Selftests(arguments)) => selftests::run(arch, &arguments),
            None => run::run(arch, &kernel.run, parser),
        },
        Some(LabCommand::RunSelftests { limit, programs }) => {
            let result = run_each(&programs, Duration::from_secs(limit), &mut io::stdout());
            result
                .map(|()| ExitCode::SUCCESS)
                .map_err(anyhow::Error::new)
        }
        Some(LabCommand::Prepare { parts, depth }) => {
            cache::prepare(arch, &parts.into(), depth.depth)
        }
        Some(LabCommand::Status {
            key: true, kernel, ..
        }) => cache::key(arch, &kernel),
        Some(LabCommand::Status {
            verify,
            kernel,
            exports,
            ..
        }) => cache::status(arch, verify, &kernel, &exports),
        Some(LabCommand::Clean) => cache::clean(),
        None => run::run(arch, &arguments.run.into(), parser),
    };
    result.unwrap_or_else(|error| {
        if let Some(error) = error.downcast_ref() {
            return refused(error);
        }
        eprintln!("error: {error:#}");
        if error.is::<Usage>() {
            return Exit::Usage.into();
        }
        let exit = match error.downcast_ref() {
            Some(error) if LabError::kind(error) == LabFailure::TimeLimit => Exit::TimedOut,
            _ => Exit::Lab,
        };
        exit.into()
    })
}
