//! `vmbell lab bench`: runs this program's own `bench` in L1.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Args, ValueEnum};

use super::arch::boards;
use super::device::plug_in;
use super::environment;
use super::exported::Exported;
use super::machine::{Machine, announce, status, summarize};
use super::parts::Parts;
use crate::bench_args::BackendName;
use crate::exports::ExportArgs;
use crate::values;
use vmbell_lab::Task;

const EXAMPLES: &str = "\
Examples:
  vmbell lab bench --deterministic --export-json kvm.json    instructions and exits of every row
  vmbell lab bench --deterministic 'portio-*' --only         some rows, and nothing beside them
  vmbell lab bench --arch aarch64 --deterministic 'mmio-*'   the same on arm64
  vmbell lab bench --smp 2 -- --spin adaptive --verbose      with further options of `bench`

Exit codes are those of `vmbell bench`; 124 is also the lab's own time limit, and 125 a failure of
the lab itself.
";

/// Measure on real KVM inside the lab
///
/// Runs this program's own `bench` in L1 and brings back what it exports. Times are the emulator's
/// and marked as such: what counts is exits and, with --deterministic, instructions. Rows that need
/// two CPUs are skipped where L1 has one. A device that a named row needs is plugged in.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct LabBenchArguments {
    #[command(flatten)]
    parts: Parts,
    #[command(flatten)]
    machine: Machine,
    /// What to measure: names of `vmbell list`, or globs such as 'portio-*'; all without any
    #[arg(value_name = "NAME", index = 1)]
    names: Vec<String>,
    /// Measure nothing but what is named
    #[arg(long, requires = "names")]
    only: bool,
    /// What runs the guest [default: kvm]
    #[arg(long, value_enum)]
    backend: Option<BackendName>,
    /// Measured runs of each entry [default: 3]
    #[arg(short, long, value_name = "N", value_parser = values::runs)]
    runs: Option<u32>,
    /// Operations of each run [default: 2000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    ops: Option<u64>,
    #[command(flatten)]
    reports: ExportArgs,
    /// Further options of `vmbell bench`
    #[arg(last = true, value_name = "OPTION", index = 2)]
    options: Vec<OsString>,
}

/// Measures in L1; the exit status is that of `bench`.
pub(super) fn run(arch: Option<&str>, arguments: &LabBenchArguments) -> anyhow::Result<ExitCode> {
    let (host, board) = boards(arch)?;
    // Exports are opened before the boot, so that a bad path is found at once.
    let exports = Exported::open(&arguments.reports)?;
    let mut settings = arguments.machine.settings(&board)?;
    let devices = vmbell_bench::scenario::devices(&arguments.names);
    plug_in(&board, &mut settings.devices, &devices).map_err(anyhow::Error::msg)?;
    let lab = arguments.parts.open(host, board, &settings)?;
    let task = Task {
        program: lab.init.clone().into(),
        arguments: arguments.words(&exports),
        // The environment contains nothing of this host, because that would move what is on the
        // program's stack.
        environment: environment::in_l1(Vec::new(), &[], arguments.machine.timing()),
        directory: "/".into(),
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

impl LabBenchArguments {
    /// The arguments that follow `vmbell`.
    fn words(&self, exports: &[Exported]) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec!["bench".into()];
        for (option, given) in [("--only", self.only), ("--quiet", self.parts.quiet)] {
            if given {
                words.push(option.into());
            }
        }
        if self.names.is_empty() {
            words.push("--all".into());
        }
        let backend = self.backend.unwrap_or(BackendName::Kvm);
        if let Some(backend) = backend.to_possible_value() {
            words.extend(["--backend".into(), backend.get_name().into()]);
        }
        for (option, number) in [("--runs", self.runs.map(u64::from)), ("--ops", self.ops)] {
            if let Some(number) = number {
                words.extend([option.into(), number.to_string().into()]);
            }
        }
        words.extend(Exported::words(&self.reports, exports));
        words.extend(self.options.iter().cloned());
        words.push("--".into());
        words.extend(self.names.iter().map(OsString::from));
        words
    }
}
