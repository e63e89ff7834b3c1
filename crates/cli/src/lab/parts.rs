//! The machine that the lab emulates (`--arch`, `--cpu`), its emulator and its kernel.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use clap::builder::{OsStringValueParser, PossibleValuesParser, TypedValueParser};

use super::init;
use crate::args::suggest::debian_kernel;
use crate::args::values;
use crate::args::{MACHINE, OUTPUT};
use crate::interrupt;
use vmbell::sync::Mutex;
use vmbell_bench::did_you_mean;
use vmbell_lab::arch::Arch;
use vmbell_lab::board::{EmulatorKind, IntelCpu, LabBoard, X86_64, X86_64_VMX};
use vmbell_lab::boot::Settings;
use vmbell_lab::cache::{Cache, DiskSize, Use};
use vmbell_lab::debian::KernelVersion;
use vmbell_lab::device::L1Driver;
use vmbell_lab::qemu::Qemu;
use vmbell_lab::saved::Store;
use vmbell_lab::{
    Emulator, KernelChoice, KvmChanges, KvmParameter, Lab, LabError, LabKernel, LabProgress,
    Provision, kvm_parameters,
};

/// Headings of options in `--help`.
pub(super) const CHANGES: &str = "KVM and the kernel";
pub(super) const EMULATOR: &str = "The emulator and its boots";

/// The default disk space for saved machines, of about 150 MB each.
const STATES: u64 = 4 << 30;
/// The environment variable that overrides `STATES`.
const LIMIT: &str = "VMBELL_STATE_LIMIT";

/// How often the thread that waits for a signal polls.
const POLL: Duration = Duration::from_millis(50);

/// The values of `--arch`.
pub(super) fn architectures() -> PossibleValuesParser {
    LabBoard::ALL.map(|board| board.arch.name).into()
}

/// This machine's architecture, and the board of the named one, by default this machine's. With `nests`, its guests
/// have virtualization.
pub(super) fn boards(name: Option<&str>, nests: bool) -> anyhow::Result<(Arch, LabBoard)> {
    let host = Arch::host();
    let board = LabBoard::of(name.unwrap_or(std::env::consts::ARCH));
    let board = board.map(|board| if nests { board.nesting() } else { board });
    host.zip(board).with_context(|| {
        let arch = std::env::consts::ARCH;
        format!("the lab does not run on {arch}, only on x86_64 and aarch64")
    })
}

/// Parses the value of `--kernel`.
pub(crate) fn kernel(value: OsString) -> Result<KernelChoice, String> {
    if let Some(text) = value.to_str() {
        if text.starts_with("debian:") {
            let version = text.parse().map_err(|error: LabError| error.to_string())?;
            return Ok(KernelChoice::Debian(version));
        }
        if let Some(meant) = debian_kernel(text).filter(|_| !Path::new(text).exists()) {
            return Err(format!("there is no such file, did you mean '{meant}'?"));
        }
    }
    Ok(KernelChoice::File {
        image: value.into(),
        modules: None,
    })
}

/// The option `--kernel`, for every command that boots a kernel.
#[derive(Debug, Args)]
pub(super) struct PlainParts {
    /// Use this kernel: Debian's newest of a version (debian:6.1, debian:6.12.43) or of all (debian:newest), or a file
    /// (x86-64: bzImage or ELF vmlinux, arm64: Image); repeat it to run with each kernel and compare what
    /// `vmbell bench` measures [default: the distribution's 6.12]
    #[arg(long, help_heading = MACHINE, display_order = 0, value_name = "debian:VERSION|FILE", value_parser = OsStringValueParser::new().try_map(kernel))]
    kernel: Vec<KernelChoice>,
    /// Emulate a CPU with this vendor's virtualization on x86-64: amd (SVM, in QEMU) or intel (VMX, in Bochs), or
    /// intel:MODEL, such as intel:haswell; several (amd,intel) to run on each and to compare what `vmbell bench` measures [default: amd]
    #[arg(long, help_heading = MACHINE, display_order = 0, value_name = "CPU,...", value_delimiter = ',', value_parser = cpu)]
    cpu: Vec<LabCpu>,
    /// Print errors only
    #[arg(short, long, help_heading = OUTPUT)]
    quiet: bool,
}

/// Changes to the kernel, its KVM and the emulator, for `vmbell lab kernel`.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = CHANGES)]
pub(super) struct Changes {
    /// Build KVM from the kernel's own source with this patch (unified format, -p1) and run with that, on x86-64;
    /// several are applied in order. The compiler, the headers and the source are packages of the kernel's distribution
    #[arg(long, value_name = "FILE")]
    kvm_patch: Vec<PathBuf>,
    /// Build KVM from arch/x86/kvm, virt/kvm and KVM's headers of this kernel source, which has the kernel's version
    #[arg(long, value_name = "FOLDER")]
    kvm_source: Option<PathBuf>,
    /// Set a parameter of KVM's modules: NAME=VALUE in the CPU's module (kvm_amd, kvm_intel) or, if that has no NAME, in
    /// kvm; MODULE.NAME=VALUE in this module, on the CPUs that load it. With --cpu amd,intel, a parameter of only one of
    /// the CPUs is written kvm_intel.enable_apicv=0
    #[arg(long, value_name = "[MODULE.]NAME=VALUE,...", value_delimiter = ',', value_parser = KvmParameter::from_str)]
    kvm_param: Vec<KvmParameter>,
    /// Build vmbell's kernel module kvm_ioeventfd for the kernel and load it: it takes over KVM's ioeventfds, on x86-64
    #[arg(long, conflicts_with_all = ["kvm_patch", "kvm_source"])]
    kvm_ioeventfd: bool,
    /// Build the kernel from its source with lockdep, RCU's checks, KASAN and kmemleak, on x86-64, and keep it in the
    /// cache
    #[arg(long, conflicts_with_all = ["kvm_patch", "kvm_source"])]
    debug_kernel: bool,
    /// Run with the unpatched KVM or without kvm_ioeventfd first, and compare what `vmbell bench` measures
    #[arg(long)]
    unpatched: bool,
    /// Take the modules of --kernel FILE from this folder; `none` if KVM is built in [default: ../lib/modules/VERSION
    /// next to it]
    #[arg(long, value_name = "FOLDER", requires = "kernel")]
    modules: Option<PathBuf>,
    /// Use this QEMU instead of the one on PATH or the package's
    #[arg(long, help_heading = EMULATOR, value_name = "FILE")]
    qemu: Option<PathBuf>,
    /// Use this Bochs 3.0 with the lab's changes instead of the one that the lab builds
    #[arg(long, help_heading = EMULATOR, value_name = "FILE")]
    bochs: Option<PathBuf>,
    /// Boot L1, instead of starting from its saved state
    #[arg(long, help_heading = EMULATOR)]
    cold: bool,
}

/// The emulator and the kernel.
#[derive(Debug, Args)]
pub(super) struct LabParts {
    #[command(flatten)]
    changes: Changes,
    #[command(flatten)]
    plain: PlainParts,
}

impl From<PlainParts> for LabParts {
    fn from(plain: PlainParts) -> Self {
        Self {
            plain,
            changes: Changes::default(),
        }
    }
}

/// One kernel of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct RunKernel {
    /// The user's kernel; `None` is the distribution's.
    kernel: Option<KernelChoice>,
    /// What is changed in KVM.
    kvm: KvmChanges,
    /// Whether our module takes over KVM's ioeventfds.
    ioeventfd: bool,
    /// Whether the kernel is built with debugging checks.
    debug: bool,
    /// The CPU that the user names.
    cpu: Option<LabCpu>,
}

impl RunKernel {
    /// One of Debian's kernels.
    pub(super) fn debian(version: KernelVersion) -> Self {
        Self {
            kernel: Some(KernelChoice::Debian(version)),
            ..Self::default()
        }
    }

    /// Whether this is an unmodified Debian kernel.
    pub(super) fn is_debians(&self) -> bool {
        matches!(self.kernel, Some(KernelChoice::Debian(_)))
            && !self.builds_a_module()
            && !self.debug
    }

    /// Whether modules are built for this kernel: a changed KVM, or our module.
    pub(super) fn builds_a_module(&self) -> bool {
        !self.kvm.is_empty() || self.ioeventfd
    }

    /// The machine for this kernel: `board`, or the one with the CPU that the user names.
    pub(super) fn board(&self, board: LabBoard) -> anyhow::Result<LabBoard> {
        match self.cpu {
            None => Ok(board),
            Some(cpu) if board.arch != Arch::X86_64 => bail!(
                "--cpu {cpu} is a CPU of x86_64, and the lab's machine is {}",
                board.arch.name
            ),
            Some(LabCpu::Amd) => Ok(board),
            Some(LabCpu::Intel(cpu)) => Ok(LabBoard {
                emulator: EmulatorKind::Bochs(cpu),
                ..X86_64_VMX
            }),
        }
    }
}

/// A CPU of x86-64 that the lab emulates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LabCpu {
    /// A CPU with AMD's SVM.
    Amd,
    /// A CPU with Intel's VMX.
    Intel(IntelCpu),
}

impl LabCpu {
    /// The names by which a user asks for a CPU.
    fn names() -> Vec<String> {
        let models = IntelCpu::ALL.map(|cpu| format!("intel:{}", cpu.name));
        let vendors = ["amd", "intel"].map(str::to_owned);
        vendors.into_iter().chain(models).collect()
    }
}

/// Parses a value of `--cpu`.
fn cpu(text: &str) -> Result<LabCpu, String> {
    let model = |name| IntelCpu::ALL.into_iter().find(|cpu| cpu.name == name);
    let found = match text.split_once(':') {
        None if text == "amd" => Some(LabCpu::Amd),
        None if text == "intel" => IntelCpu::ALL.first().copied().map(LabCpu::Intel),
        Some(("intel", name)) => model(name).map(LabCpu::Intel),
        _ => None,
    };
    found.ok_or_else(|| {
        let names = LabCpu::names();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let hint = did_you_mean(text, &names);
        format!("unknown CPU{hint} (there are: {})", names.join(", "))
    })
}

/// The lab's own name of a CPU: `intel` for `intel:skylake-x`. Fails if `--cpu` does not take this value.
pub(crate) fn cpu_name(text: &str) -> Result<String, String> {
    cpu(text).map(|cpu| cpu.to_string())
}

impl fmt::Display for LabCpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Amd => f.write_str("amd"),
            Self::Intel(cpu) if Some(cpu) == IntelCpu::ALL.first() => f.write_str("intel"),
            Self::Intel(cpu) => write!(f, "intel:{}", cpu.name),
        }
    }
}

impl fmt::Display for RunKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let changed = match (self.kvm.is_empty(), self.ioeventfd) {
            (false, _) => Some("patched"),
            (true, true) => Some("kvm_ioeventfd"),
            (true, false) => None,
        };
        let kernel = self.kernel.as_ref().map(ToString::to_string);
        let cpu = self.cpu.map(|cpu| cpu.to_string());
        let parts = [kernel, cpu, changed.map(str::to_owned)];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        match parts.as_slice() {
            [] => f.write_str("unpatched"),
            parts => f.write_str(&parts.join(", ")),
        }
    }
}

/// What was found or prepared.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) emulator: Emulator,
    pub(super) kernel: LabKernel,
    pub(super) shell: Option<PathBuf>,
    pub(super) tree: Option<PathBuf>,
    pub(super) drivers: Vec<PathBuf>,
    pub(super) ioeventfd: Option<PathBuf>,
    pub(super) kvm_parameters: Vec<String>,
    pub(super) lock: Use,
}

impl LabParts {
    /// Where the lab's messages are written.
    pub(super) fn progress(&self) -> LabProgress {
        LabProgress::new(self.plain.quiet)
    }

    /// The saved machines; `None` if each run boots.
    fn states(&self) -> anyhow::Result<Option<Store>> {
        if self.changes.cold {
            return Ok(None);
        }
        let limit = match env::var(LIMIT) {
            Ok(text) => {
                let size = values::size(&text).map_err(anyhow::Error::msg);
                size.with_context(|| format!("{LIMIT}={text}"))?
            }
            Err(_) => STATES,
        };
        Ok(Some(Store::user(DiskSize(limit))?))
    }

    /// The user's kernels, with their modules and changes to KVM.
    pub(super) fn choices(&self) -> anyhow::Result<Vec<RunKernel>> {
        let kernels = match (&self.changes.modules, self.plain.kernel.as_slice()) {
            (None, []) => vec![None],
            (None, kernels) => kernels.iter().cloned().map(Some).collect(),
            (Some(folder), [KernelChoice::File { image, .. }]) => vec![Some(KernelChoice::File {
                image: image.clone(),
                modules: Some((folder.as_os_str() != "none").then(|| folder.clone())),
            })],
            _ => bail!("--modules is for one kernel in a file; Debian's kernels have their own"),
        };
        let changed = KvmChanges {
            source: self.changes.kvm_source.clone(),
            patches: self.changes.kvm_patch.clone(),
        };
        if self.changes.unpatched && changed.is_empty() && !self.changes.kvm_ioeventfd {
            bail!(
                "--unpatched is for --kvm-patch, --kvm-source and --kvm-ioeventfd: name one of these too"
            );
        }
        for (index, cpu) in self.plain.cpu.iter().enumerate() {
            if self.plain.cpu[..index].contains(cpu) {
                bail!("--cpu {cpu} is given twice");
            }
        }
        let cpus = match self.plain.cpu.as_slice() {
            [] => vec![None],
            cpus => cpus.iter().copied().map(Some).collect(),
        };
        let with = |(kernel, cpu): (Option<KernelChoice>, Option<LabCpu>)| {
            let unchanged = RunKernel {
                kernel,
                cpu,
                debug: self.changes.debug_kernel,
                ..RunKernel::default()
            };
            let changed = RunKernel {
                kvm: changed.clone(),
                ioeventfd: self.changes.kvm_ioeventfd,
                ..unchanged.clone()
            };
            let first = self.changes.unpatched.then_some(unchanged);
            first.into_iter().chain([changed])
        };
        let kernels = kernels.into_iter();
        let on_each = |kernel| cpus.iter().map(move |cpu| (Option::clone(&kernel), *cpu));
        Ok(kernels
            .flat_map(|kernel| on_each(kernel).collect::<Vec<_>>())
            .flat_map(with)
            .collect())
    }

    /// The kernels of Debian between two releases, in order.
    pub(super) fn between(
        &self,
        host: Arch,
        board: &LabBoard,
        [old, new]: [&str; 2],
    ) -> anyhow::Result<Vec<RunKernel>> {
        let cache = Cache::user()?;
        let mut provision = Provision::new(host, board, &cache, self.progress());
        let versions = provision.debian_between(old, new)?;
        provision.finish()?;
        Ok(self.debians(versions))
    }

    /// Debian's kernels of these versions, on the user's CPU.
    fn debians(&self, versions: Vec<KernelVersion>) -> Vec<RunKernel> {
        let cpu = self.plain.cpu.first().copied();
        let on = |version| RunKernel {
            cpu,
            ..RunKernel::debian(version)
        };
        versions.into_iter().map(on).collect()
    }

    /// Whether the user names more than one CPU.
    pub(super) fn has_several_cpus(&self) -> bool {
        self.plain.cpu.len() > 1
    }

    /// Refuses what the machines of these kernels do not have, before the first of them boots. `carries_qemu` says that
    /// L1 needs a QEMU, whatever emulates L1.
    pub(super) fn check(
        &self,
        board: LabBoard,
        choices: &[RunKernel],
        carries_qemu: bool,
    ) -> anyhow::Result<()> {
        let (mut has_qemu, mut has_bochs) = (false, false);
        for choice in choices {
            if choice.board(board)?.emulator == EmulatorKind::Qemu {
                has_qemu = true;
                continue;
            }
            has_bochs = true;
            if choice.debug {
                bail!("--debug-kernel builds KVM for AMD's SVM only: leave out --cpu intel");
            }
        }
        let boards = choices.iter().map(|choice| choice.board(board));
        let boards = boards.collect::<anyhow::Result<Vec<_>>>()?;
        let is_for_none =
            |parameter: &&KvmParameter| boards.iter().all(|board| !parameter.is_for(board));
        if let Some(parameter) = self.changes.kvm_param.iter().find(is_for_none) {
            bail!("--kvm-param {parameter}: no CPU of this run loads this module");
        }
        if self.changes.bochs.is_some() && !has_bochs {
            bail!("--bochs is for --cpu intel: QEMU emulates this machine");
        }
        if self.changes.qemu.is_some() && !has_qemu && !carries_qemu {
            bail!("--qemu is for --cpu amd, or for VMMs in L1: Bochs emulates a CPU with VMX");
        }
        Ok(())
    }

    /// Whether the user sets parameters of KVM's modules.
    pub(super) fn has_kvm_parameters(&self) -> bool {
        !self.changes.kvm_param.is_empty()
    }

    /// Finds the emulator and the kernel, or prepares what is missing.
    pub(super) fn prepare(
        &self,
        host: Arch,
        board: &LabBoard,
        settings: &Settings,
        choice: &RunKernel,
    ) -> anyhow::Result<Prepared> {
        self.prepare_with(host, board, settings, choice, |_, _| Ok(()))
    }

    /// Like [`prepare`](Self::prepare), with a further step before anything else is prepared in the same cache.
    fn prepare_with(
        &self,
        host: Arch,
        board: &LabBoard,
        settings: &Settings,
        choice: &RunKernel,
        step: impl FnOnce(&mut Provision<'_>, &LabKernel) -> anyhow::Result<()>,
    ) -> anyhow::Result<Prepared> {
        let cache = Cache::user()?;
        let progress = self.progress();
        clean_up_at_a_signal().context("cannot handle signals")?;
        let lock = cache.lock_use()?;
        let mut provision = Provision::new(host, board, &cache, progress);
        // Bochs is built in minutes, so a kernel that does not fit is found first.
        let builds_bochs =
            matches!(board.emulator, EmulatorKind::Bochs(_)) && self.changes.bochs.is_none();
        let found = match builds_bochs {
            true => None,
            false => Some(self.emulator(&mut provision, board)?),
        };
        let own_kernel = matches!(choice.kernel, Some(KernelChoice::File { .. }));
        if choice.ioeventfd {
            provision.require_debians_kvm(choice.kernel.as_ref())?;
        }
        let kernel = match choice.debug {
            true => provision.debug_kernel(choice.kernel.as_ref())?,
            false => provision.kernel_with(choice.kernel.as_ref(), &choice.kvm)?,
        };
        let kvm_parameters = kvm_parameters(&self.changes.kvm_param, board, &kernel)?;
        let emulator = match found {
            Some(emulator) => emulator,
            None => self.emulator(&mut provision, board)?,
        };
        let shell = provision.shell(own_kernel)?;
        let tree = match &emulator {
            Emulator::Qemu(qemu) => provision.tree(qemu, settings)?,
            Emulator::Bochs(..) => None,
        };
        // Drivers are built for the user's own kernel only if that kernel is to drive the device, because the build
        // needs the kernel's headers.
        let drivers = if settings.devices.iter().any(|plugged| {
            plugged.device.built_driver && !(own_kernel && plugged.driver == L1Driver::None)
        }) {
            provision.modules(kernel.release())?
        } else {
            Vec::new()
        };
        let ioeventfd = match choice.ioeventfd {
            true => Some(provision.kvm_ioeventfd(&kernel)?),
            false => None,
        };
        step(&mut provision, &kernel)?;
        provision.finish()?;
        Ok(Prepared {
            tree,
            drivers,
            ioeventfd,
            kvm_parameters,
            emulator,
            kernel,
            shell,
            lock,
        })
    }

    /// Finds the emulator, or downloads or builds it.
    fn emulator(
        &self,
        provision: &mut Provision<'_>,
        board: &LabBoard,
    ) -> Result<Emulator, LabError> {
        let (qemu, bochs) = (self.changes.qemu.as_deref(), self.changes.bochs.as_deref());
        Ok(match board.emulator {
            EmulatorKind::Qemu => Emulator::Qemu(provision.qemu(qemu)?),
            EmulatorKind::Bochs(cpu) => Emulator::Bochs(provision.bochs(bochs)?, cpu),
        })
    }

    /// Finds the QEMU that runs inside an L1 in Bochs, or downloads it.
    pub(super) fn carried_qemu(&self, host: Arch) -> anyhow::Result<Qemu> {
        let cache = Cache::user()?;
        let mut provision = Provision::new(host, &X86_64, &cache, self.progress());
        let qemu = provision.qemu(self.changes.qemu.as_deref())?;
        provision.finish()?;
        Ok(qemu)
    }

    /// Prepares all that a run needs.
    pub(super) fn open(
        &self,
        host: Arch,
        board: LabBoard,
        settings: &Settings,
        choice: &RunKernel,
    ) -> anyhow::Result<Lab> {
        self.open_with(host, board, settings, choice, |_, _| Ok(()))
    }

    /// Like [`open`](Self::open), with a further step.
    pub(super) fn open_with(
        &self,
        host: Arch,
        board: LabBoard,
        settings: &Settings,
        choice: &RunKernel,
        step: impl FnOnce(&mut Provision<'_>, &LabKernel) -> anyhow::Result<()>,
    ) -> anyhow::Result<Lab> {
        let init = init::find(&board)?;
        let prepared = self.prepare_with(host, &board, settings, choice, step)?;
        Ok(Lab {
            board,
            emulator: prepared.emulator,
            kernel: prepared.kernel,
            vmbell: env::current_exe().context("cannot tell where vmbell is")?,
            init,
            shell: prepared.shell,
            tree: prepared.tree,
            drivers: prepared.drivers,
            ioeventfd: prepared.ioeventfd,
            kvm_parameters: prepared.kvm_parameters,
            states: self.states()?,
            lock: prepared.lock,
            progress: self.progress(),
        })
    }
}

/// At SIGTERM, SIGINT and SIGHUP, unless they are ignored, removes an unfinished preparation; then the signal kills the
/// process as before. A thread does that, because a handler may do next to nothing. A run has nothing to remove: its
/// files have no names, and the emulator dies with its parent.
///
/// One thread does it for all labs of this process, because a bisection prepares many.
fn clean_up_at_a_signal() -> io::Result<()> {
    static IS_BEGUN: Mutex<bool> = Mutex::new(false);
    let mut is_begun = IS_BEGUN.lock();
    if *is_begun {
        return Ok(());
    }
    let interrupted = interrupt::catch()?;
    thread::Builder::new().spawn(|| {
        while !interrupted.load(Ordering::Acquire) {
            thread::sleep(POLL);
        }
        vmbell_lab::abandon();
        interrupt::raise();
    })?;
    *is_begun = true;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_between_two_others_run_on_the_same_cpu() {
        for cpu in [
            vec![],
            vec![LabCpu::Amd],
            vec![LabCpu::Intel(IntelCpu::HASWELL)],
        ] {
            let parts = LabParts::from(PlainParts {
                kernel: Vec::new(),
                cpu: cpu.clone(),
                quiet: true,
            });
            let versions = ["debian:6.1.4", "debian:6.12.43"].map(|text| text.parse().unwrap());
            let between = parts.debians(versions.into());
            let cpus: Vec<_> = between.iter().map(|choice| choice.cpu).collect();
            assert_eq!(cpus, [cpu.first().copied(); 2]);
            assert!(between.iter().all(RunKernel::is_debians));
        }
    }

    #[test]
    fn with_bochs_a_named_qemu_is_for_vmms_in_l1_only() {
        let mut parts = LabParts::from(PlainParts {
            kernel: Vec::new(),
            cpu: vec![LabCpu::Intel(IntelCpu::SKYLAKE_X)],
            quiet: true,
        });
        parts.changes.qemu = Some("/absent/qemu".into());
        let choices = parts.choices().unwrap();
        let check = |carries_qemu| parts.check(X86_64, &choices, carries_qemu);
        let error = check(false).unwrap_err().to_string();
        assert!(error.starts_with("--qemu is for --cpu amd, or"), "{error}");
        check(true).unwrap();
        let error = parts.carried_qemu(Arch::host().unwrap()).unwrap_err();
        assert_eq!(error.to_string(), "cannot run /absent/qemu");
    }
}
