//! `vmbell lab`: runs a program on real KVM, which QEMU emulates.
//!
//! `parts` chooses the machine and finds QEMU and the kernel, `init` the `vmbell` for inside, and `machine` has the options of
//! L1. `run` boots it with the program; if that is vmbell itself, `inner` parses its command line, `needs` says what the command
//! needs in L1, and `exported` brings its reports back. `selftests` runs the kernel's tests of KVM. The exit status is that of
//! the program, so failures of the lab itself have a status of their own.

mod bisect;
mod cache;
mod carried;
mod device;
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
use self::parts::LabParts;
pub(super) use self::parts::kernel;
use self::run::RunArguments;
use self::selftests::SelftestsArguments;
use super::exit::{Exit, Usage, refused};
use vmbell_lab::boot::exec_applet;
use vmbell_lab::debian::KernelVersion;
use vmbell_lab::selftests::run_each;
use vmbell_lab::{LabError, LabFailure};

const EXAMPLES: &str = "\
Examples:
  vmbell lab -- target/debug/examples/kvm_smoke       run a program on real KVM
  vmbell lab --out results --with data -- PROGRAM     copy files in, and bring files back
  vmbell lab --device edu -- PROGRAM                  add a PCI device to assign to a guest
  vmbell lab --arch aarch64 -- target/aarch64-unknown-linux-musl/debug/PROGRAM
                                                      run an arm64 program on arm64's KVM
  vmbell lab -- vmbell bench --all --export-json kvm.json
                                                      measure there, and bring the report back
  vmbell lab --arch aarch64 -- vmbell bench           measure on arm64's KVM
  vmbell lab -- vmbell bench vmms                     compare VMMs there, in instructions
  vmbell lab -- vmbell bench net                      measure Linux's network driver there
  vmbell lab --kernel debian:6.1 -- PROGRAM           run it on the KVM of Debian's Linux 6.1
  vmbell lab --kernel debian:6.1 --kernel debian:newest -- vmbell bench
                                                      compare the KVM of two kernels
  vmbell lab --kernel debian:6.12 --kvm-patch my.patch --unpatched -- vmbell bench
                                                      measure what a patch of KVM changes
  vmbell lab --bisect --kernel debian:6.12 --kernel debian:newest -- vmbell bench ROW --only
                                                      find the kernel that changed a row
  vmbell lab selftests --kernel debian:6.12           build the kernel's selftests of KVM, and run them
  vmbell lab prepare                                  download what is missing
  vmbell lab status --verify                          check what has been downloaded

Exit status: that of PROGRAM, and
  124       a time limit expired
  125       the lab itself failed
  128 + N   signal N killed PROGRAM
";

/// Run a program on real KVM, on a machine without /dev/kvm
///
/// Boots a stock Linux (L1) in QEMU's emulation of a CPU with hardware virtualization, where KVM works, and runs PROGRAM
/// there as root, in an empty folder at the path of its working directory. PROGRAM's libraries are copied and its environment
/// is passed; name further files with --with.
///
/// PROGRAM may be vmbell itself (`vmbell`, or the path of this program). Then files that its command line names are copied, its
/// --export-... files are brought back, and a suite finds what it needs: QEMU for `bench vmms`; QEMU, a kernel, netperf and a
/// network card for `bench net`; the devices of the rows that `bench` names. `bench` uses the
/// backend kvm unless --backend says otherwise, and counts instructions on one CPU (--deterministic) unless it names a row that
/// needs two.
///
/// QEMU and the kernel are packages of the distribution, downloaded by apt-get and unpacked into
/// $XDG_CACHE_HOME/vmbell/lab, without root. `--kernel debian:VERSION` takes another kernel from Debian's archive, and
/// `--kvm-patch FILE` builds its KVM with a patch.
///
/// As cargo's runner, the lab runs the tests of any project on real KVM:
/// CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="vmbell lab --" cargo test
#[derive(Debug, Args)]
#[command(
    after_help = EXAMPLES,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
pub(super) struct LabArguments {
    /// Emulate this architecture, for programs of this architecture [default: this machine's]
    #[arg(long, global = true, value_name = "ARCH", value_parser = parts::architectures())]
    arch: Option<String>,
    #[command(subcommand)]
    command: Option<LabCommand>,
    #[command(flatten)]
    run: RunArguments,
}

#[derive(Debug, Subcommand)]
enum LabCommand {
    /// Download and prepare what is missing, and save the machines that runs have by default
    Prepare {
        #[command(flatten)]
        parts: Box<LabParts>,
        /// Prepare what a run with this --depth needs
        #[arg(long, value_name = "DEPTH", default_value_t = 1, hide_default_value = true, value_parser = machine::depth)]
        depth: u32,
    },
    Selftests(Box<SelftestsArguments>),
    /// Show what is prepared, and the saved machines
    Status {
        /// Read every file and compare its SHA-256
        #[arg(long)]
        verify: bool,
        /// Print a key for the cache of a CI, which changes when other packages are needed
        #[arg(long, conflicts_with = "verify")]
        key: bool,
        /// Ask for this kernel of Debian instead of the distribution's; several times for several kernels
        #[arg(long, value_name = "debian:VERSION")]
        kernel: Vec<KernelVersion>,
    },
    /// Remove everything that was downloaded and prepared, and the saved machines
    Clean,
    /// Run selftests, in L1
    #[command(hide = true)]
    RunSelftests {
        /// The time limit of each
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

/// If this process is process 1 of the lab's own kernel, runs as that. It must be called before the
/// arguments are looked at, because there they are the kernel's.
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
        Some(LabCommand::Selftests(arguments)) => selftests::run(arch, &arguments),
        Some(LabCommand::RunSelftests { limit, programs }) => {
            let result = run_each(&programs, Duration::from_secs(limit), &mut io::stdout());
            result
                .map(|()| ExitCode::SUCCESS)
                .map_err(anyhow::Error::new)
        }
        Some(LabCommand::Prepare { parts, depth }) => cache::prepare(arch, &parts, depth),
        Some(LabCommand::Status {
            key: true, kernel, ..
        }) => cache::key(arch, &kernel),
        Some(LabCommand::Status { verify, kernel, .. }) => cache::status(arch, verify, &kernel),
        Some(LabCommand::Clean) => cache::clean(),
        None => run::run(arch, &arguments.run, parser),
    };
    result.unwrap_or_else(|error| {
        if let Some(error) = error.downcast_ref() {
            return refused(error);
        }
        eprintln!("vmbell: {error:#}");
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
