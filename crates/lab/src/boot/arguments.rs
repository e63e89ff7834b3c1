//! QEMU's command line for one boot.

use std::ffi::OsString;
use std::os::fd::RawFd;
use std::path::Path;
use std::time::Duration;

use super::Limits;
use crate::board::{Board, Gic};
use crate::device::Plugged;
use crate::job::INIT_FILE;

/// How time passes in L1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// As fast as the host allows, on several threads.
    Functional {
        /// Virtual CPUs of L1.
        cpus: u32,
    },
    /// One virtual nanosecond for each instruction, on one CPU: the same run again gives the same counts.
    /// The program's output arrives at its end, so that the host disturbs nothing.
    Deterministic {
        /// Perturbs what counts depend on by chance: addresses of programs, and the phase of the timer at their start. `None`
        /// is the plain layout, without randomized addresses.
        seed: Option<u32>,
    },
}

/// The period of L1's timer interrupt in nanoseconds: Debian's kernels have 250 Hz.
const TICK: u64 = 4_000_000;

/// Parameters with which L1's kernel panics, as the host sees, if a CPU runs for a minute without a quiescent state: with its
/// interrupts off, say.
const STALLS: [&str; 2] = [
    "rcupdate.rcu_cpu_stall_timeout=60",
    "sysctl.kernel.panic_on_rcu_stall=1",
];

/// What a caller may choose about L1.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How time passes.
    pub mode: Mode,
    /// In which Linux the program runs: 1 is L1, 2 a Linux inside it.
    pub depth: u32,
    /// What starts the Linux inside each other one.
    pub vmm: Vmm,
    /// Whether L1's exits are counted while the program runs in a Linux inside it.
    pub exits: bool,
    /// The I/O port by which the program marks parts of these exits, if it does.
    pub marks: Option<u16>,
    /// Memory in bytes of the Linux in which the program runs.
    pub memory: u64,
    /// How long a boot and a program may take.
    pub limits: Limits,
    /// The interrupt controller, on a board that has a choice; `None` for the board's default.
    pub gic: Option<Gic>,
    /// The devices that L1 can assign to guests.
    pub devices: Vec<Plugged>,
    /// Kernel parameters after the board's own.
    pub parameters: Vec<String>,
    /// QEMU arguments after all others.
    pub qemu: Vec<String>,
    /// Whether the console's output is shown while L1 runs.
    pub show_console: bool,
}

/// A VMM that starts a Linux inside another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vmm {
    /// `vmbell run`.
    Vmbell,
    /// The lab's QEMU.
    Qemu,
}

impl Vmm {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Vmbell, Self::Qemu];

    /// The name in commands and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Vmbell => "vmbell",
            Self::Qemu => "qemu",
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            mode: Mode::Functional { cpus: 2 },
            depth: 1,
            vmm: Vmm::Vmbell,
            exits: false,
            marks: None,
            memory: 1 << 30,
            limits: Limits {
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

impl Mode {
    fn arguments(self) -> Vec<OsString> {
        let seed = match self {
            Self::Functional { .. } => {
                return ["-accel", "tcg,thread=multi"].map(OsString::from).into();
            }
            Self::Deterministic { seed } => seed.unwrap_or(1).to_string(),
        };
        let words = [
            "-accel",
            "tcg",
            "-icount",
            "shift=0,sleep=off",
            "-rtc",
            "base=2026-01-01,clock=vm",
            "-seed",
            &seed,
        ];
        words.map(OsString::from).into()
    }

    /// How long a deterministic program waits for its start after a whole second, in nanoseconds: a part of the timer's period
    /// that depends on the seed.
    pub(crate) fn phase(self) -> u64 {
        match self {
            // Multiples of an irrational part of the period are spread evenly over it.
            Self::Deterministic { seed: Some(seed) } => u64::from(seed) * 2_472_136 % TICK,
            Self::Deterministic { seed: None } | Self::Functional { .. } => 0,
        }
    }

    /// The device of the ports. With ioeventfds, QEMU's main thread answers L1's notifications, at a moment that depends
    /// on the host; without, the CPU's thread answers each of them before it continues.
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

/// The part of QEMU's arguments that decides how its device tree looks. `option` is added to the machine's.
pub(crate) fn machine_arguments(board: &Board, settings: &Settings, option: &str) -> Vec<OsString> {
    let machine = machine(board, settings) + option;
    let mut words: Vec<OsString> = vec!["-machine".into(), machine.into()];
    words.extend(board.arguments.iter().map(OsString::from));
    words.extend(settings.mode.arguments());
    let memory = format!("{}B", settings.memory);
    let cpus = settings.mode.cpus().to_string();
    words.extend(["-m", &memory, "-smp", &cpus].map(OsString::from));
    words
}

/// QEMU's arguments. `tree` is the device tree, if it is not to be QEMU's own; `initramfs` is a file descriptor, `ports` are the names and file descriptors of the virtio-serial ports.
pub(super) fn arguments(
    board: &Board,
    settings: &Settings,
    kernel: &Path,
    tree: Option<&Path>,
    initramfs: RawFd,
    ports: &[(&str, RawFd)],
) -> Vec<OsString> {
    let mut words = machine_arguments(board, settings, "");
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
    for (name, fd) in ports {
        words.extend([
            "-chardev".into(),
            format!("socket,id={name},fd={fd}").into(),
        ]);
        words.extend([
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
    words.extend([
        "-kernel".into(),
        kernel.into(),
        "-initrd".into(),
        format!("/proc/self/fd/{initramfs}").into(),
    ]);
    if let Some(tree) = tree {
        words.extend(["-dtb".into(), tree.into()]);
    }
    let mut own = Vec::new();
    if !settings.devices.is_empty() {
        own.push(board.iommu.parameters);
    }
    if matches!(settings.mode, Mode::Functional { .. }) {
        own.extend(STALLS);
    }
    let parameters = parameters(board, settings, &own);
    words.extend(["-append".into(), parameters.into()]);
    words.extend(settings.qemu.iter().map(OsString::from));
    words
}

/// The kernel's command line, with its `own` parameters after the board's.
pub(crate) fn parameters(board: &Board, settings: &Settings, own: &[&str]) -> String {
    let mut words = vec![board.parameters, board.nesting_parameters];
    words.extend(own);
    words.extend(settings.parameters.iter().map(String::as_str));
    if settings.mode == (Mode::Deterministic { seed: None }) {
        words.push("norandmaps");
    }
    let init = format!("rdinit={INIT_FILE}");
    words.push(&init);
    words.retain(|word| !word.is_empty());
    words.join(" ")
}

/// The machine with the options that depend on the caller's choices.
fn machine(board: &Board, settings: &Settings) -> String {
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
mod tests {
    use super::*;
    use crate::board::{AARCH64, AARCH64_NESTING, X86_64};
    use crate::device::Driver;

    fn line(settings: &Settings) -> String {
        line_of(&X86_64, settings)
    }

    fn line_of(board: &Board, settings: &Settings) -> String {
        let words = arguments(
            board,
            settings,
            Path::new("/k"),
            None,
            8,
            &[("lab.control", 9)],
        );
        words
            .iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn deterministic_mode_counts_instructions_on_one_cpu() {
        let line = line(&Settings {
            mode: Mode::Deterministic { seed: None },
            ..Settings::default()
        });
        assert!(
            line.contains("-icount shift=0,sleep=off") && line.contains("-smp 1 "),
            "{line}"
        );
        assert!(!line.contains("thread=multi"));
    }

    #[test]
    fn a_seed_randomizes_addresses_and_moves_the_start_within_one_period() {
        let mode = |seed| Mode::Deterministic { seed };
        let line_in = |seed| {
            line(&Settings {
                mode: mode(seed),
                ..Settings::default()
            })
        };
        let (plain, perturbed) = (line_in(None), line_in(Some(7)));
        assert!(plain.contains("-seed 1 ") && plain.contains(" norandmaps "));
        assert!(perturbed.contains("-seed 7 ") && !perturbed.contains("norandmaps"));
        assert_eq!(mode(None).phase(), 0);
        let mut phases: Vec<u64> = (1..=64).map(|seed| mode(Some(seed)).phase()).collect();
        phases.push(mode(Some(u32::MAX)).phase());
        assert!(phases.iter().all(|phase| *phase < TICK), "{phases:?}");
        phases.sort_unstable();
        assert!(
            phases.windows(2).all(|two| two[1] - two[0] < TICK / 16),
            "{phases:?}"
        );
    }

    #[test]
    fn deterministic_mode_answers_notifications_on_the_thread_of_the_cpu() {
        let line_in = |mode| {
            line(&Settings {
                mode,
                ..Settings::default()
            })
        };
        let off = "-device virtio-serial-pci,ioeventfd=off ";
        assert!(line_in(Mode::Deterministic { seed: None }).contains(off));
        assert!(!line_in(Mode::Functional { cpus: 2 }).contains(off));
    }

    #[test]
    fn devices_add_an_iommu_and_change_nothing_else() {
        let plugged = |name: &str| Plugged {
            device: X86_64.devices.iter().find(|d| d.name == name).unwrap(),
            driver: Driver::None,
        };
        let settings = |devices| Settings {
            devices,
            ..Settings::default()
        };
        let line_with = line(&settings(vec![plugged("edu"), plugged("e1000e")]));
        let devices = " -device intel-iommu,intremap=on -device edu,addr=3 \
            -netdev hubport,id=lab.e1000e,hubid=0 -netdev hubport,id=lab.net,hubid=0 \
            -device e1000e,addr=4,netdev=lab.e1000e,mac=52:54:00:00:00:04,romfile= \
            -device virtio-net-pci,addr=5,netdev=lab.net,mac=52:54:00:00:00:05,romfile= ";
        assert!(line_with.contains(devices), "{line_with}");
        assert!(line_with.contains(" intel_iommu=on "), "{line_with}");
        let without = line_with
            .replace(devices, " ")
            .replace(" intel_iommu=on ", " ");
        assert_eq!(line(&settings(Vec::new())), without);
    }

    #[test]
    fn arm64_has_the_interrupt_controller_that_is_asked_for() {
        for (gic, version) in [(None, 3), (Some(Gic::V3), 3), (Some(Gic::V2), 2)] {
            let line = line_of(
                &AARCH64,
                &Settings {
                    gic,
                    ..Settings::default()
                },
            );
            let machine =
                format!("-machine virt,virtualization=on,gic-version={version} -cpu cortex-a76 ");
            assert!(line.starts_with(&machine), "{line}");
        }
    }

    #[test]
    fn arm64_has_el2_in_guests_on_a_newer_cpu_with_a_parameter_of_the_kernel() {
        let line = line_of(&AARCH64_NESTING, &Settings::default());
        assert!(line.contains(" -cpu max,pauth=off "), "{line}");
        assert!(line.contains(" kvm-arm.mode=nested "), "{line}");
        let line = line_of(&AARCH64, &Settings::default());
        assert!(!line.contains("nested"), "{line}");
    }

    #[test]
    fn a_platform_device_puts_the_iommu_into_the_machine() {
        let devices = AARCH64.devices.iter().map(|device| Plugged {
            device,
            driver: Driver::None,
        });
        let settings = Settings {
            devices: devices.collect(),
            ..Settings::default()
        };
        let line = line_of(&AARCH64, &settings);
        assert!(line.contains(",gic-version=3,iommu=smmuv3 "), "{line}");
        assert!(line.contains(" -rtc clock=vm -kernel"), "{line}");
        let machine = machine_arguments(&AARCH64, &settings, ",dumpdtb=/t");
        let machine = machine[1].to_str().unwrap();
        assert!(machine.ends_with(",iommu=smmuv3,dumpdtb=/t"), "{machine}");
    }

    #[test]
    fn the_callers_words_come_last() {
        let settings = Settings {
            parameters: vec!["intel_iommu=on".into()],
            qemu: vec!["-device".into(), "edu".into()],
            ..Settings::default()
        };
        let line = line(&settings);
        assert!(
            line.contains(" intel_iommu=on rdinit=/lab/vmbell-lab-init -device edu"),
            "{line}"
        );
        assert!(line.contains("-initrd /proc/self/fd/8 "), "{line}");
        assert!(line.contains("-chardev socket,id=lab.control,fd=9 -device virtserialport,chardev=lab.control,name=lab.control"));
    }
}
