//! `vmbell lab vmm`: runs this program's own `vmm` in L1, with the lab's QEMU as one of the VMMs.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;

use super::arch::boards;
use super::environment;
use super::exported::Exported;
use super::machine::{Machine, announce, status, summarize};
use super::parts::Parts;
use super::run::copied;
use crate::exports::ExportArgs;
use crate::values;
use crate::vmm::alioth_on_path;
use vmbell_lab::Task;
use vmbell_lab::qemu::Qemu;
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

/// Where the lab's QEMU is found in L1.
pub(super) const QEMU_FILE: &str = "/usr/local/bin/qemu-system-x86_64";
/// What runs the script that is there.
const SHELL: &str = "/bin/sh";
/// Where alioth is found in L1.
const ALIOTH_FILE: &str = "/usr/local/bin/alioth";
/// How wide the table is.
pub(super) const COLUMNS: &str = "80";
/// Operations of a batch in L1, where everything is emulated and slow.
const OPS: u32 = 20;
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
    let mut with = carried(&lab.qemu)?;
    for pair in &arguments.with {
        with.push(copied(pair)?);
    }
    // The same on every host: the environment moves what is on the program's stack.
    let width = [("COLUMNS".to_owned(), COLUMNS.to_owned())];
    let task = Task {
        program: lab.init.clone().into(),
        arguments: arguments.words(&exports),
        environment: environment::in_l1(Vec::new(), &width, arguments.machine.timing()),
        directory: "/".into(),
        with,
        scripts: vec![(QEMU_FILE.into(), lab.qemu.script())],
        modules: arguments.machine.module.clone(),
        out: !exports.is_empty(),
        ..Task::default()
    };
    announce(&lab, &settings);
    let mut outcome = lab.run(&task, &settings)?;
    summarize(&outcome, lab.progress);
    let status = status(&outcome, &settings)?;
    Exported::finish(exports, &mut outcome, status)?;
    Ok(ExitCode::from(status))
}

/// The files of this host that the VMMs in L1 need, each with its path there.
pub(super) fn carried(qemu: &Qemu) -> anyhow::Result<Vec<(PathBuf, PathBuf)>> {
    let same = |path: PathBuf| (path.clone(), path);
    let mut with: Vec<(PathBuf, PathBuf)> = qemu.files().into_iter().map(same).collect();
    // The interpreter of QEMU's script, with its libraries.
    let shell = fs::canonicalize(SHELL).context("this host has no shell")?;
    with.push((shell, SHELL.into()));
    if let Ok(alioth) = alioth_on_path() {
        with.push((alioth, ALIOTH_FILE.into()));
    }
    Ok(with)
}

impl LabVmmArguments {
    /// The arguments that follow `vmbell`.
    fn words(&self, exports: &[Exported]) -> Vec<OsString> {
        let (runs, limit) = match self.machine.timing() {
            Timing::Instructions => (1, DETERMINISTIC_LIMIT),
            Timing::Native | Timing::Emulated => (3, TIME_LIMIT),
        };
        let runs = self.runs.unwrap_or(runs);
        let mut words: Vec<OsString> = ["vmm", "--runs", &runs.to_string()].map(Into::into).into();
        let given = |option: &str| {
            let is_it = |word: &OsString| {
                word.to_str()
                    .is_some_and(|word| word.split('=').next() == Some(option))
            };
            self.options.iter().any(is_it)
        };
        for (option, value) in [
            ("--ops", OPS.to_string()),
            ("--time-limit", limit.to_owned()),
        ] {
            if !given(option) {
                words.extend([option.into(), value.into()]);
            }
        }
        if self.parts.quiet {
            words.push("--quiet".into());
        }
        words.extend(Exported::words(&self.reports, exports));
        words.extend(self.options.iter().cloned());
        words.push("--".into());
        words.extend(self.names.iter().map(OsString::from));
        words
    }
}
