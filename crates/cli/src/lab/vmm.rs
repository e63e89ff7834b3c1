//! `vmbell lab vmm`: runs this program's own `vmm` in L1, with the lab's QEMU as one of the VMMs.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use clap::Args;

use super::arch::boards;
use super::columns::Command;
use super::exported::Exported;
use super::machine::Machine;
use super::parts::Parts;
use super::run::copied;
use crate::exports::ExportArgs;
use crate::values;
use crate::vmm::alioth_on_path;
use vmbell_report::Timing;

const EXAMPLES: &str = "\
Examples:
  vmbell lab vmm --deterministic                       instructions of every row under every VMM
  vmbell lab vmm --deterministic qemu-pc vmbell -- --ratios
                                                       two VMMs, with further options of `vmm`
  vmbell lab vmm --with /opt/my-vmm -- --vmm mine='/opt/my-vmm {image}'
                                                       one more VMM

Exit codes are those of `vmbell vmm`; 124 is the lab's own time limit, and 125 a failure of the lab itself.
";

/// Where alioth is found in L1.
const ALIOTH_FILE: &str = "/usr/local/bin/alioth";
/// Operations of a batch in L1, where everything is emulated and slow.
const OPS: &str = "20";
/// How long all boots together may take, by this host's clock.
const ALL_BOOTS: Duration = Duration::from_secs(15 * 60);
/// How long a boot may take in L1, by L1's clock; where that counts instructions, a VMM that spins for ten seconds has
/// executed 10,000,000,000.
const TIME_LIMIT: &str = "2m";
const DETERMINISTIC_LIMIT: &str = "10s";

/// Compare VMMs on real KVM inside the lab
///
/// Runs this program's own `vmm` in L1, in one boot, with the lab's QEMU, with alioth if it is on PATH, and with vmbell
/// itself. Times are the emulator's: what counts is --deterministic, whose numbers are instructions.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct LabVmmArguments {
    #[command(flatten)]
    parts: Parts,
    #[command(flatten)]
    machine: Machine,
    /// The VMMs: qemu-pc, qemu-q35, qemu-microvm, alioth, vmbell, or names of --vmm; all that are found without any
    #[arg(value_name = "NAME", index = 1)]
    names: Vec<String>,
    /// Copy a file or folder into L1, to the same path or to PATH: the program of another VMM
    #[arg(long, value_name = "HOST[:PATH]")]
    with: Vec<PathBuf>,
    /// How often each VMM is booted [default: 3; 1 with --deterministic]
    #[arg(short, long, value_name = "N", value_parser = values::runs)]
    runs: Option<u32>,
    #[command(flatten)]
    reports: ExportArgs,
    /// Further options of `vmbell vmm`
    #[arg(last = true, value_name = "OPTION", index = 2)]
    options: Vec<OsString>,
}

/// Compares in L1; the exit status is that of `vmm`.
pub(super) fn run(arch: Option<&str>, arguments: &LabVmmArguments) -> anyhow::Result<ExitCode> {
    let (host, board) = boards(arch)?;
    if board.arch.name != "x86_64" {
        bail!(
            "the image is for x86_64, and this lab's machine is {}",
            board.arch.name
        );
    }
    let exports = Exported::open(&arguments.reports)?;
    let settings = arguments.machine.settings_within(&board, ALL_BOOTS)?;
    let lab = arguments.parts.open(host, board, &settings)?;
    let mut with = Vec::new();
    if let Ok(alioth) = alioth_on_path() {
        with.push((alioth, ALIOTH_FILE.into()));
    }
    for pair in &arguments.with {
        with.push(copied(pair)?);
    }
    let (runs, limit) = match arguments.machine.timing() {
        Timing::Instructions => (1, DETERMINISTIC_LIMIT),
        Timing::Native | Timing::Emulated => (3, TIME_LIMIT),
    };
    let runs = arguments.runs.unwrap_or(runs).to_string();
    let command = Command {
        parts: &arguments.parts,
        machine: &arguments.machine,
        reports: &arguments.reports,
        exports,
        begin: ["vmm", "--runs", &runs].map(Into::into).into(),
        defaults: vec![("--ops", OPS), ("--time-limit", limit)],
        options: &arguments.options,
        names: &arguments.names,
        with,
        modules: arguments.machine.module.clone(),
    };
    command.run(&lab, &settings)
}
