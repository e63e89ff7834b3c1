//! QEMU's command line for one boot.

use std::ffi::OsString;
use std::os::fd::RawFd;
use std::path::Path;
use std::time::Duration;

use super::channel::Channel;
use super::supervise::{TimeLimits, TimeMode};
use crate::board::{GicVersion, LabBoard};
use crate::device::PluggedDevice;
use loader::window::{LOADER_FILE, PANIC_SLOT, SLOT};

/// How QEMU starts a machine.
#[derive(Clone, Copy, Debug)]
pub(super) enum Start {
    /// The machine boots, and does not stop at the point where it could be saved: QEMU may skip time there.
    Boot,
    /// The machine boots, and stops at the point where it is saved. Its memory is in this file.
    Save {
        /// A file as large as the memory.
        memory: RawFd,
        /// QEMU's end of the monitor's socket pair.
        monitor: RawFd,
    },
    /// The machine is restored from a saved state.
    Restore {
        /// The file with the memory. QEMU maps a private copy.
        memory: RawFd,
        /// QEMU's end of the monitor's socket pair.
        monitor: RawFd,
    },
}

/// The files that QEMU inherits, and how the machine starts.
#[derive(Clone, Copy, Debug)]
pub(super) struct QemuFiles<'a> {
    pub start: Start,
    /// `None` if the guest does not read the initramfs again.
    pub initramfs: Option<RawFd>,
    pub window: RawFd,
    /// The virtio-serial ports.
    pub ports: &'a [Channel],
}

/// The size of the window in bytes. Pages that the host does not write take no memory.
pub(crate) const WINDOW: u64 = 2 << 30;

/// The period of L1's timer interrupt in nanoseconds: Debian's kernels run at 250 Hz.
const TICK: u64 = 4_000_000;

/// Makes L1's kernel panic, which the host notices, if a CPU has no RCU quiescent state, for example because its
/// interrupts are off. RCU checks after 15 s and then every 48 s. The third stall panics, not the first, because L1's
/// clock jumps after QEMU was stopped.
const STALLS: [&str; 3] = [
    "rcupdate.rcu_cpu_stall_timeout=15",
    "sysctl.kernel.max_rcu_stall_to_panic=3",
    "sysctl.kernel.panic_on_rcu_stall=1",
];

/// Returns [`STALLS`] in functional mode, and nothing in deterministic mode.
pub(super) fn stalls(mode: TimeMode) -> &'static [&'static str] {
    match mode {
        TimeMode::Functional { .. } => &STALLS,
        TimeMode::Deterministic { .. } => &[],
    }
}

/// The caller's choices about L1.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How time passes.
    pub mode: TimeMode,
    /// The Linux that runs the program: 1 is L1, 2 a Linux inside L1.
    pub depth: u32,
    /// The VMM that starts each Linux that runs inside another Linux.
    pub vmm: InnerVmm,
    /// Whether to count L1's exits while the program runs in a Linux inside L1.
    pub exits: bool,
    /// The I/O port to which the program writes marks between these exits, if it does.
    pub marks: Option<u16>,
    /// Memory in bytes of the Linux that runs the program.
    pub memory: u64,
    /// How many earlier starts of the program failed because a Linux spun while instructions were counted. Each start
    /// is at a different phase of the timer.
    pub moment: u32,
    /// Time limits of a boot and a program.
    pub limits: TimeLimits,
    /// The interrupt controller, on a board that has a choice; `None` for the board's default.
    pub gic: Option<GicVersion>,
    /// The devices that L1 can assign to guests.
    pub devices: Vec<PluggedDevice>,
    /// Kernel parameters after the board's own.
    pub parameters: Vec<String>,
    /// QEMU arguments after all others.
    pub qemu: Vec<String>,
    /// Whether the console's output is shown while L1 runs.
    pub show_console: bool,
}

/// A VMM that starts a Linux inside another Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InnerVmm {
    /// `vmbell run`.
    Vmbell,
    /// The lab's QEMU.
    Qemu,
}

impl InnerVmm {
    /// All VMMs.
    pub const ALL: [Self; 2] = [Self::Vmbell, Self::Qemu];

    /// The VMM's name in commands and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Vmbell => "vmbell",
            Self::Qemu => "qemu",
        }
    }
}

impl Settings {
    /// How long after a whole second a deterministic program starts, in nanoseconds: less than the timer's period,
    /// depending on the seed and on how often the program was started before.
    pub(crate) fn phase(&self) -> u64 {
        match self.mode {
            // Multiples of an irrational fraction of the period are spread evenly over it.
            TimeMode::Deterministic { seed } => {
                let seed = u64::from(seed.unwrap_or_default());
                (seed * 2_472_136 + u64::from(self.moment) * 370_000) % TICK
            }
            TimeMode::Functional { .. } => 0,
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            mode: TimeMode::Functional { cpus: 2 },
            depth: 1,
            vmm: InnerVmm::Vmbell,
            exits: false,
            marks: None,
            memory: 1 << 30,
            moment: 0,
            limits: TimeLimits {
                boot: Duration::from_secs(300),
                program: Duration::from_secs(300),
            },
            gic: None,
            devices: Vec::new(),
            parameters: Vec::new(),
            qemu: Vec::new(),
            show_console: false,
        }
    }
}

impl TimeMode {
    fn arguments(self) -> Vec<OsString> {
        let words: &[&str] = match self {
            Self::Functional { .. } => &["-accel", "tcg,thread=multi"],
            Self::Deterministic { .. } => &[
                "-accel",
                "tcg",
                "-icount",
                "shift=0,sleep=off",
                "-rtc",
                "base=2026-01-01,clock=vm",
            ],
        };
        words.iter().map(OsString::from).collect()
    }

    /// The device of the ports. With ioeventfds, QEMU's main thread answers L1's notifications, at a time that depends
    /// on the host. Without them, the CPU's thread answers each notification before it continues.
    fn serial_device(self) -> &'static str {
        match self {
            Self::Functional { .. } => "virtio-serial-pci",
            Self::Deterministic { .. } => "virtio-serial-pci,ioeventfd=off",
        }
    }

    /// Virtual CPUs of L1.
    pub fn cpus(self) -> u32 {
        match self {
            Self::Functional { cpus } => cpus,
            Self::Deterministic { .. } => 1,
        }
    }
}

/// Returns the part of QEMU's arguments that determines its device tree. `option` is added to the machine's options.
pub(crate) fn machine_arguments(
    board: &LabBoard,
    settings: &Settings,
    option: &str,
) -> Vec<OsString> {
    let machine = machine(board, settings) + option;
    let mut words: Vec<OsString> = vec!["-machine".into(), machine.into()];
    let features = match settings.mode {
        TimeMode::Functional { .. } => board.functional_cpu,
        TimeMode::Deterministic { .. } => board.deterministic_cpu,
    };
    words.extend(["-cpu".into(), [board.cpu, features].concat().into()]);
    words.extend(board.arguments.iter().map(OsString::from));
    words.extend(settings.mode.arguments());
    if let TimeMode::Deterministic { .. } = settings.mode {
        words.extend(["-seed", "1"].map(OsString::from));
    }
    let memory = format!("{}B", settings.memory);
    let cpus = settings.mode.cpus().to_string();
    words.extend(["-m", &memory, "-smp", &cpus].map(OsString::from));
    words
}

/// Returns QEMU's arguments. `tree` is the device tree, if QEMU's own is not to be used.
pub(super) fn arguments(
    board: &LabBoard,
    settings: &Settings,
    kernel: &Path,
    tree: Option<&Path>,
    inherited: &QemuFiles<'_>,
) -> Vec<OsString> {
    let mut words = machine_arguments(board, settings, ",memory-backend=lab.ram");
    words.extend(
        [
            "-nodefaults",
            "-no-user-config",
            "-display",
            "none",
            "-serial",
            "stdio",
            "-no-reboot",
        ]
        .map(OsString::from),
    );
    words.extend(["-device".into(), settings.mode.serial_device().into()]);
    for channel in inherited.ports {
        let name = channel.name;
        words.extend([
            "-chardev".into(),
            channel.chardev().into(),
            "-device".into(),
            format!("virtserialport,chardev={name},name={name}").into(),
        ]);
    }
    if !settings.devices.is_empty() {
        words.extend(board.iommu.arguments.iter().map(OsString::from));
    }
    for plugged in &settings.devices {
        words.extend(plugged.device.arguments.iter().map(OsString::from));
    }
    words.extend(["-kernel".into(), kernel.into()]);
    if let Some(initramfs) = inherited.initramfs {
        words.extend([
            "-initrd".into(),
            format!("/proc/self/fd/{initramfs}").into(),
        ]);
    }
    if let Some(tree) = tree {
        words.extend(["-dtb".into(), tree.into()]);
    }
    let mut own = Vec::new();
    if !settings.devices.is_empty() {
        own.push(board.iommu.parameters);
    }
    own.extend(stalls(settings.mode));
    let parameters = parameters(board, settings, &own);
    words.extend(["-append".into(), parameters.into()]);
    words.extend(start_arguments(inherited, settings.memory));
    words.extend(settings.qemu.iter().map(OsString::from));
    words
}

/// Returns the arguments for the memory, the window, and the device with which the guest stops a machine to be saved.
fn start_arguments(inherited: &QemuFiles<'_>, size: u64) -> Vec<OsString> {
    // The guest's writes to shared memory reach the file, so only memory that is being saved is shared. QEMU itself
    // does not save shared memory, which is right for the window.
    let file = |id, size, fd, share| {
        format!("memory-backend-file,id={id},size={size},mem-path=/proc/self/fd/{fd},share={share}")
    };
    let (memory, share) = match inherited.start {
        Start::Boot => (format!("memory-backend-ram,id=lab.ram,size={size}"), "off"),
        Start::Save { memory, .. } => (file("lab.ram", size, memory, "on"), "on"),
        Start::Restore { memory, .. } => (file("lab.ram", size, memory, "off"), "off"),
    };
    let mut words = vec![
        "-object".to_owned(),
        memory,
        "-object".to_owned(),
        file("lab.window", WINDOW, inherited.window, share),
        "-device".to_owned(),
        format!("ivshmem-plain,memdev=lab.window,master=on,addr={SLOT}"),
        "-device".to_owned(),
        format!("pvpanic-pci,addr={PANIC_SLOT}"),
    ];
    match inherited.start {
        Start::Boot => words.extend(["-action", "panic=none"].map(str::to_owned)),
        Start::Save { monitor, .. } | Start::Restore { monitor, .. } => words.extend([
            "-action".to_owned(),
            "panic=pause".to_owned(),
            "-chardev".to_owned(),
            format!("socket,id=lab.monitor,fd={monitor}"),
            "-mon".to_owned(),
            "chardev=lab.monitor,mode=control".to_owned(),
        ]),
    }
    if let Start::Restore { .. } = inherited.start {
        words.extend(["-incoming", "defer"].map(str::to_owned));
    }
    words.into_iter().map(OsString::from).collect()
}

/// Returns the kernel's command line: the board's parameters, followed by `own` and the user's.
pub(crate) fn parameters(board: &LabBoard, settings: &Settings, own: &[&str]) -> String {
    let mut words = vec![board.parameters, board.nesting_parameters];
    words.extend(own);
    words.extend(settings.parameters.iter().map(String::as_str));
    let init = format!("rdinit={LOADER_FILE}");
    words.push(&init);
    words.retain(|word| !word.is_empty());
    words.join(" ")
}

/// Returns the machine with the options that depend on the caller's choices.
fn machine(board: &LabBoard, settings: &Settings) -> String {
    let mut machine = board.machine.to_owned();
    if let Some(gic) = settings.gic.or(board.gics.first().copied()) {
        machine += &format!(",gic-version={}", gic.version());
    }
    if !settings.devices.is_empty() && !board.iommu.machine.is_empty() {
        machine += &format!(",{}", board.iommu.machine);
    }
    machine
}

#[cfg(test)]
#[path = "arguments_test.rs"]
mod tests;
