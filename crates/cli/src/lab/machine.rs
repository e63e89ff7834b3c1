//! The options of the L1 machine, and the lines printed before and after a run in it.

use std::time::Duration;

use anyhow::bail;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use super::device::{check, device};
use super::exits;
use super::inner::Inner;
use super::parts::EMULATOR;
use crate::args::MACHINE;
use crate::args::values;
use crate::exit::Usage;
use crate::suites::BenchSuite;
use vmbell_bench::catalogue::needs_two_cpus;
use vmbell_lab::arch::Arch;
use vmbell_lab::board::{EmulatorKind, GicVersion, LabBoard};
use vmbell_lab::boot::{InnerVmm, Settings, TimeLimits, TimeMode};
use vmbell_lab::device::PluggedDevice;
use vmbell_lab::job::ProgramEnding;
use vmbell_lab::{Began, Lab, LabOutcome, LabProgress};
use vmbell_report::Timing;
use vmbell_report::units::plural;

/// Headings of `--help`.
const CLOCK: &str = "Its clock";
const NESTED: &str = "With --depth 2 or 3";
/// The heading of the program's options.
pub(super) const PROGRAM: &str = "The program";

/// The time limits of a boot and of a program.
const BOOT_LIMIT: Duration = Duration::from_secs(5 * 60);
const TIME_LIMIT: Duration = Duration::from_secs(5 * 60);

/// The default number of CPUs in functional mode. A Linux with several vCPUs sometimes crashes on the emulated SVM
/// (docs/emulator-bugs.md).
pub(super) const fn default_cpus(depth: u32) -> u32 {
    if depth > 1 { 1 } else { 2 }
}

/// The machine's options in `vmbell lab`.
#[derive(Debug, Args)]
pub(super) struct PlainMachine {
    /// Add a device that L1 can assign to a guest with VFIO: edu (0000:00:03.0), e1000e (0000:00:04.0) or virtio-net
    /// (0000:00:07.0), on arm64 pl031 (9010000.pl031). It is bound to VFIO's driver, or to no driver with driver=none
    #[arg(long, help_heading = MACHINE, value_name = "NAME[,driver=none]", value_parser = device)]
    device: Vec<PluggedDevice>,
    /// Run the program in this Linux: 1 is L1, 2 a guest of L1 with its own KVM, 3 a guest of that one; several (1,2,3)
    /// to run in each and to compare what `vmbell bench` measures [default: 1]
    #[arg(long, help_heading = MACHINE, value_name = "DEPTH,...", value_delimiter = ',', value_parser = depth)]
    depth: Vec<u32>,
    /// Give L1 N CPUs, and each Linux inside it [default: 2; 1 with --depth 2 and 3]
    #[arg(long, help_heading = MACHINE, value_name = "N", value_parser = values::positive::<u32>)]
    vcpus: Option<u32>,
    /// Give the Linux in which the program runs this much memory, such as 2G; at least 128M
    #[arg(long, help_heading = MACHINE, value_name = "SIZE", default_value = "1G", value_parser = memory)]
    memory: u64,
    /// Count time in instructions, on one CPU: the same run again gives the same figures. This is the default for
    /// `vmbell bench`, unless it names a row that needs two CPUs
    #[arg(long, help_heading = CLOCK, conflicts_with = "vcpus")]
    deterministic: bool,
    /// Run L1 by this machine's clock, on several CPUs: only the numbers of exits are meaningful. This is the default
    /// for programs other than `vmbell bench`, and with several --vcpus
    #[arg(long, help_heading = CLOCK, conflicts_with = "deterministic")]
    functional: bool,
    /// Randomize what counts accidentally depend on, if time is counted in instructions: addresses, and the phase of
    /// the timer. The same seed gives the same figures
    #[arg(long, help_heading = CLOCK, value_name = "N")]
    seed: Option<u32>,
    /// Ask the program to end (SIGTERM) this time after its start in L1, and kill it 10 s later; `bench` writes what it
    /// has, and the exit status is 124 [default: 5m; 15m for `bench vmms`, 30m for `bench net`]
    #[arg(long, help_heading = PROGRAM, value_name = "TIME", value_parser = values::positive_duration)]
    timeout: Option<Duration>,
}

/// Further options in `vmbell lab kernel`.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = EMULATOR)]
pub(super) struct Details {
    /// Add a QEMU argument
    #[arg(long, value_name = "ARGUMENT", allow_hyphen_values = true)]
    qemu_arg: Vec<String>,
    /// Use this version of arm64's interrupt controller in L1 and in guests [default: 3]
    #[arg(long, value_name = "VERSION", value_parser = gic())]
    gic: Option<GicVersion>,
    /// Add a parameter to the command line of each kernel
    #[arg(long, value_name = "PARAMETER")]
    append: Vec<String>,
    /// Load a kernel module in the Linux in which the program runs: a name, or a file if there is a slash in it
    #[arg(long, value_name = "NAME|FILE")]
    module: Vec<String>,
    /// Show the console of L1's kernel on standard error
    #[arg(long)]
    console: bool,
    /// Give up a boot if the program has not started after this time [default: 5m]
    #[arg(long, value_name = "TIME", value_parser = values::positive_duration)]
    boot_timeout: Option<Duration>,
    /// Run the program again, up to N times, if L1 crashes or hangs while the program runs. Has no effect with --stdin,
    /// because the input is already read [default: 0; 3 with --depth 2 and 3]
    #[arg(long, value_name = "N")]
    retries: Option<u32>,
    /// Start each nested Linux with this VMM [default: vmbell]
    #[arg(long, help_heading = NESTED, value_name = "VMM", requires = "depth", value_parser = vmm())]
    vmm: Option<InnerVmm>,
    /// Count L1's exits by their reasons while the program runs, and those of an operation of each row if the program
    /// is `vmbell bench`
    #[arg(long, help_heading = NESTED, requires = "depth")]
    exits: bool,
}

/// The machine.
#[derive(Debug, Args)]
pub(super) struct MachineArguments {
    #[command(flatten)]
    plain: PlainMachine,
    #[command(flatten)]
    details: Details,
}

impl From<PlainMachine> for MachineArguments {
    fn from(plain: PlainMachine) -> Self {
        Self {
            plain,
            details: Details::default(),
        }
    }
}

impl MachineArguments {
    /// The mode of the machine for this program at this depth: the user's choice, otherwise what the program needs.
    pub(super) fn choose(&self, inner: Option<&Inner>, depth: u32) -> anyhow::Result<Chosen> {
        let deterministic = |why| Chosen {
            mode: TimeMode::Deterministic {
                seed: self.plain.seed,
            },
            why,
        };
        let cpus = |default| self.plain.vcpus.unwrap_or(default);
        let functional = |why| Chosen {
            mode: TimeMode::Functional {
                cpus: cpus(default_cpus(depth)),
            },
            why,
        };
        let suite = inner.and_then(|inner| inner.suite.as_ref());
        let chosen = match suite {
            _ if self.plain.deterministic => deterministic(None),
            _ if self.plain.functional || cpus(1) > 1 => functional(None),
            None if inner.is_some_and(|inner| inner.sweep.is_some()) => {
                deterministic(Some("the default of sweep".to_owned()))
            }
            None => functional(None),
            // Such a QEMU's guest shuts down before its kernel starts (docs/nested.md).
            Some(_) if depth > 2 && self.vmm() == InnerVmm::Qemu => {
                functional(Some("--vmm qemu runs no other one in L2".to_owned()))
            }
            Some(suite) => match row_for_two_cpus(suite).filter(|_| depth == 1) {
                Some(row) => functional(Some(format!("{row} needs two; --deterministic for one"))),
                None => deterministic(Some(
                    "the default of bench; --functional for two".to_owned(),
                )),
            },
        };
        if self.plain.seed.is_some() && !chosen.is_deterministic() {
            return Err(Usage::new(
                "--seed is for a machine that counts instructions: add --deterministic",
            )
            .into());
        }
        Ok(chosen)
    }

    /// The user's depths, or `[None]` if there are none: the depth is then 1, and reports do not mention it.
    pub(super) fn depths(&self) -> anyhow::Result<Vec<Option<u32>>> {
        if self.details.exits && !self.nests() {
            bail!(
                "--exits is for --depth 2 and 3: at depth 1 `vmbell bench` counts the exits of its guest"
            );
        }
        if self.vmm() == InnerVmm::Qemu && !self.nests() {
            bail!("--vmm is for --depth 2 and 3: the lab's QEMU always runs L1");
        }
        if self.plain.depth.is_empty() {
            return Ok(vec![None]);
        }
        for (index, depth) in self.plain.depth.iter().enumerate() {
            if self.plain.depth[..index].contains(depth) {
                bail!("--depth {depth} is given twice");
            }
        }
        Ok(self.plain.depth.iter().copied().map(Some).collect())
    }

    /// How often the program may be restarted. A Linux in a guest sometimes spins on the emulated SVM
    /// (docs/emulator-bugs.md).
    pub(super) fn retries(&self, depth: u32) -> u32 {
        self.details
            .retries
            .unwrap_or(if depth > 1 { 3 } else { 0 })
    }

    /// The VMM that starts each Linux that runs inside another Linux.
    fn vmm(&self) -> InnerVmm {
        self.details.vmm.unwrap_or(InnerVmm::Vmbell)
    }

    /// The user's kernel modules.
    pub(super) fn modules(&self) -> &[String] {
        &self.details.module
    }

    /// Whether a Linux runs inside another one.
    pub(super) fn nests(&self) -> bool {
        self.plain.depth.iter().any(|depth| *depth > 1)
    }

    /// Refuses what Bochs does not have.
    fn check_for_bochs(&self) -> anyhow::Result<()> {
        if let Some(plugged) = self.plain.device.first() {
            bail!(
                "--device {}: Bochs has no IOMMU, so --cpu intel assigns no device",
                plugged.device.name
            );
        }
        if !self.details.qemu_arg.is_empty() {
            bail!("--qemu-arg is for --cpu amd: Bochs emulates a CPU with VMX");
        }
        if self.details.exits {
            bail!("--exits counts exits by SVM's codes: use --cpu amd");
        }
        if self.vmm() == InnerVmm::Qemu {
            bail!("--vmm qemu needs QEMU, and --cpu intel runs in Bochs: use --cpu amd");
        }
        Ok(())
    }

    /// The settings for the lab. Fails if the board does not have what is asked for. `time_limit` is the default time
    /// limit of the program.
    pub(super) fn settings(
        &self,
        board: &LabBoard,
        depth: u32,
        chosen: &Chosen,
        time_limit: Option<Duration>,
    ) -> anyhow::Result<Settings> {
        if let EmulatorKind::Bochs(_) = board.emulator {
            self.check_for_bochs()?;
        }
        check(board, &self.plain.device).map_err(anyhow::Error::msg)?;
        if self.details.gic.is_some() && board.gics.is_empty() {
            bail!(
                "--gic is for arm64, and the lab's machine is {}: --arch aarch64 makes it arm64",
                board.arch.name
            );
        }
        if depth > 2 && chosen.is_deterministic() && self.vmm() == InnerVmm::Qemu {
            bail!(
                "--vmm qemu with --deterministic is for --depth 2: in L2, QEMU's guest shuts down before its kernel starts \
                 (docs/nested.md)"
            );
        }
        if depth > 1 && self.vmm() == InnerVmm::Qemu && board.arch != Arch::X86_64 {
            bail!("--vmm qemu is for x86-64: leave it out, and `vmbell run` starts each Linux");
        }
        if depth > 1 && self.details.gic == Some(GicVersion::V2) {
            bail!("--gic 2 is for --depth 1: guests with virtualization need a GICv3");
        }
        Ok(Settings {
            depth,
            vmm: self.vmm(),
            exits: self.details.exits && depth > 1,
            marks: None,
            mode: chosen.mode,
            memory: self.plain.memory,
            moment: 0,
            limits: TimeLimits {
                boot: self.details.boot_timeout.unwrap_or(BOOT_LIMIT),
                program: self.plain.timeout.or(time_limit).unwrap_or(TIME_LIMIT),
            },
            gic: self.details.gic,
            devices: self.plain.device.clone(),
            parameters: self.details.append.clone(),
            qemu: self.details.qemu_arg.clone(),
            show_console: self.details.console,
        })
    }
}

/// How L1's CPUs are emulated, and why if it is not the user's choice.
#[derive(Clone, Debug)]
pub(super) struct Chosen {
    mode: TimeMode,
    pub(super) why: Option<String>,
}

impl Chosen {
    /// Whether time is counted in instructions.
    pub(super) const fn is_deterministic(&self) -> bool {
        matches!(self.mode, TimeMode::Deterministic { .. })
    }

    /// What one nanosecond means in this machine.
    pub(super) const fn timing(&self) -> Timing {
        match self.mode {
            TimeMode::Deterministic { .. } => Timing::Instructions,
            TimeMode::Functional { .. } => Timing::Emulated,
        }
    }
}

/// The first row that the command line names exactly, not by a glob, and that needs two CPUs.
fn row_for_two_cpus(suite: &BenchSuite) -> Option<&str> {
    let BenchSuite::Paths(args) = suite else {
        return None;
    };
    let mut names = args.names.iter().map(String::as_str);
    names.find(|name| needs_two_cpus(name))
}

/// A version of the interrupt controller.
fn gic() -> impl TypedValueParser<Value = GicVersion> {
    let version = |text: String| {
        if text == "2" {
            GicVersion::V2
        } else {
            GicVersion::V3
        }
    };
    PossibleValuesParser::new(["2", "3"]).map(version)
}

/// A VMM of a Linux inside another one.
fn vmm() -> impl TypedValueParser<Value = InnerVmm> {
    let named = |name: String| {
        InnerVmm::ALL
            .into_iter()
            .find(|vmm| vmm.name() == name)
            .ok_or("no such VMM")
    };
    PossibleValuesParser::new(InnerVmm::ALL.map(InnerVmm::name)).try_map(named)
}

/// Parses a depth, from 1 to 3: each level makes an exit 6 to 10 times as expensive (docs/nested.md).
pub(super) fn depth(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(depth @ 1..=3) => Ok(depth),
        _ => Err(
            "a depth is 1, 2 or 3: each level makes an exit 6 to 10 times as expensive, and the lab has three"
                .to_owned(),
        ),
    }
}

/// Parses the memory of a Linux; its kernel does not boot with less than 128 MiB.
pub(super) fn memory(text: &str) -> Result<u64, String> {
    let size = values::size(text)?;
    if size < 128 << 20 {
        return Err("at least 128M is needed; a number without a unit is bytes".to_owned());
    }
    Ok(size)
}

/// Prints a line before a run: the kernel, the emulator, the mode and its reason, and the devices.
pub(super) fn announce(lab: &Lab, settings: &Settings, why: Option<&str>) {
    let mut mode = match settings.mode {
        TimeMode::Deterministic { seed: None } => "deterministic, 1 CPU".to_owned(),
        TimeMode::Deterministic { seed: Some(seed) } => {
            format!("deterministic, seed {seed}, 1 CPU")
        }
        TimeMode::Functional { cpus } => plural(cpus, "CPU"),
    };
    if let Some(why) = why {
        mode += &format!(" ({why})");
    }
    if settings.depth > 1 {
        mode += &format!(", depth {}", settings.depth);
        if settings.vmm == InnerVmm::Qemu {
            mode += " by QEMU";
        }
    }
    if lab.ioeventfd.is_some() {
        mode += ", kvm_ioeventfd";
    }
    for parameter in &lab.kvm_parameters {
        mode += &format!(", {parameter}");
    }
    if let Some(gic) = settings.gic {
        mode += &format!(", GICv{}", gic.version());
    }
    for plugged in &settings.devices {
        mode += &format!(
            ", {} at {} ({})",
            plugged.device.name,
            plugged.device.address,
            plugged.driver_name().unwrap_or("none")
        );
    }
    lab.progress.say(format_args!(
        "{}, {}, {mode}",
        lab.kernel.title, lab.emulator
    ));
}

/// Prints the notes of a run, and a line with its result and times.
pub(super) fn summarize(outcome: &LabOutcome, arch: Arch, progress: LabProgress) {
    for note in &outcome.notes {
        progress.say(note);
    }
    let ending = match &outcome.ending {
        ProgramEnding::Exited(status) => format!("exit status {status}"),
        ProgramEnding::Signalled { signal, core } => {
            format!(
                "killed by signal {signal}{}",
                if *core { ", core dumped" } else { "" }
            )
        }
        ProgramEnding::Stopped => "ended at its time limit".to_owned(),
        ProgramEnding::Failed(reason)
        | ProgramEnding::Unanswered(reason)
        | ProgramEnding::Spun(reason) => reason.clone(),
    };
    if !outcome.exits.is_empty() {
        progress.say(exits::text(&outcome.exits, arch));
    }
    let (wall, cpu) = (outcome.wall.as_secs_f64(), outcome.cpu.as_secs_f64());
    let began = match &outcome.began {
        Began::Saved => "from a saved state".to_owned(),
        Began::Booted(None) => "booted".to_owned(),
        Began::Booted(Some(reason)) => format!("booted ({reason})"),
    };
    progress.say(format_args!(
        "{ending}; {wall:.1} s, {cpu:.1} s of CPU, {began}, retries {}",
        outcome.retries
    ));
}
