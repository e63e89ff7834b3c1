//! The interrupt scenarios by name, and the guest that each of them needs.

use vmbell::guest::{Interrupts, Program, VECTOR, programs};
use vmbell::hypervisor::{Irqchip, VmConfig};
use vmbell::irq::{Gsi, IrqError, Msi, Route, Target};

/// The pin of the I/O APIC that level-triggered interrupts use.
const PIN: u8 = 5;
/// The first GSI that is not a pin, for interrupts that are messages.
const MESSAGE: u32 = 24;
/// The bit of a redirection entry that makes it level-triggered.
const LEVEL: u32 = 1 << 15;

/// What a scenario measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Case {
    /// The time from the signal of an irqfd to the handler.
    Irqfd { level: bool, halted: bool },
    /// The time from a message that the VMM sends to the handler.
    Msi { halted: bool },
    /// The end of an interrupt alone.
    Eoi(End),
    /// An interrupt that a vCPU sends to itself.
    SelfIpi,
    /// An interrupt that a vCPU sends to another.
    Ipi,
    /// Level-triggered interrupts one after the other. With `resample` the EOI takes the line down,
    /// else the VMM does.
    Level { resample: bool },
}

/// How the guest ends an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// A store to the EOI register in the local APIC's page.
    Xapic,
    /// `wrmsr` to the EOI register of the x2APIC.
    X2apic,
    /// The bit of PV EOI in the guest's memory.
    Pv,
}

impl Case {
    pub(super) const ALL: [Self; 13] = [
        Self::irqfd(false, false),
        Self::irqfd(false, true),
        Self::irqfd(true, false),
        Self::irqfd(true, true),
        Self::Msi { halted: false },
        Self::Msi { halted: true },
        Self::Eoi(End::Xapic),
        Self::Eoi(End::X2apic),
        Self::Eoi(End::Pv),
        Self::Level { resample: true },
        Self::Level { resample: false },
        Self::SelfIpi,
        Self::Ipi,
    ];

    const fn irqfd(level: bool, halted: bool) -> Self {
        Self::Irqfd { level, halted }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Irqfd { level, halted } => match (level, halted) {
                (false, false) => "irqfd-edge-to-running",
                (false, true) => "irqfd-edge-to-halted",
                (true, false) => "irqfd-level-to-running",
                (true, true) => "irqfd-level-to-halted",
            },
            Self::Msi { halted: false } => "msi-to-running",
            Self::Msi { halted: true } => "msi-to-halted",
            Self::Eoi(End::Xapic) => "eoi-apic",
            Self::Eoi(End::X2apic) => "eoi-x2apic",
            Self::Eoi(End::Pv) => "eoi-pv",
            Self::SelfIpi => "self-ipi",
            Self::Ipi => "ipi",
            Self::Level { resample: true } => "level-resample",
            Self::Level { resample: false } => "level-userspace-unmask",
        }
    }

    pub(super) const fn description(self) -> &'static str {
        match self {
            Self::Irqfd { level, halted } => match (level, halted) {
                (false, false) => {
                    "from an eventfd's signal to the handler's first instruction, in a guest that runs"
                }
                (false, true) => {
                    "from an eventfd's signal to the handler's first instruction, in a guest that halts"
                }
                (true, false) => "the same by a resampled level line, in a guest that runs",
                (true, true) => "the same by a resampled level line, in a guest that halts",
            },
            Self::Msi { halted: false } => {
                "from the VMM's call to the handler's first instruction, in a guest that runs"
            }
            Self::Msi { halted: true } => {
                "from the VMM's call to the handler's first instruction, in a guest that halts"
            }
            Self::Eoi(End::Xapic) => "end of an interrupt: a store to the local APIC's page",
            Self::Eoi(End::X2apic) => "end of an interrupt: wrmsr",
            Self::Eoi(End::Pv) => "end of an interrupt: test and clear of a bit in guest memory",
            Self::SelfIpi => "a vCPU interrupts itself by wrmsr, until the handler has returned",
            Self::Ipi => "a vCPU interrupts another that runs, until that has counted it",
            Self::Level { resample: true } => {
                "a level line up, handled, down by the EOI, and its device told by an eventfd"
            }
            Self::Level { resample: false } => {
                "a level line up, handled, and down by the device model, which the handler calls"
            }
        }
    }

    /// The case that this one is compared with.
    pub(super) const fn reference(self) -> Option<Self> {
        match self {
            Self::Eoi(End::Pv | End::Xapic) => Some(Self::Eoi(End::X2apic)),
            Self::Level { resample: true } => Some(Self::Level { resample: false }),
            _ => None,
        }
    }

    pub(super) fn program(self) -> Program {
        match self {
            Self::Irqfd { halted: true, .. } | Self::Msi { halted: true } => {
                programs::interrupt_halted()
            }
            Self::Irqfd { .. } | Self::Msi { .. } | Self::Level { .. } => {
                programs::interrupt_running()
            }
            Self::Eoi(_) => programs::eoi(),
            Self::SelfIpi => programs::self_ipi(),
            Self::Ipi => programs::ipi(),
        }
    }

    /// Whether the guest polls while it waits for its interrupts, so that the sender of them needs a
    /// CPU of its own. (A scenario with two vCPUs asks for both CPUs itself.)
    pub(super) const fn waits_awake(self) -> bool {
        matches!(
            self,
            Self::Irqfd { halted: false, .. } | Self::Msi { halted: false } | Self::Level { .. }
        )
    }

    const fn is_level(self) -> bool {
        matches!(self, Self::Level { .. } | Self::Irqfd { level: true, .. })
    }

    /// Whether the scenario measures what the end of an interrupt does.
    pub(super) const fn is_about_the_end(self) -> bool {
        matches!(self, Self::Eoi(_) | Self::Level { .. })
    }

    /// How the program has to handle its interrupts.
    pub(super) fn interrupts(self) -> Interrupts {
        Interrupts {
            // Scenarios that do not measure an EOI use the cheapest one.
            pv_eoi: !matches!(self, Self::Eoi(End::Xapic | End::X2apic) | Self::Ipi),
            xapic: self == Self::Eoi(End::Xapic),
            route: self.is_level().then_some((PIN, LEVEL | u32::from(VECTOR))),
            gic: None,
        }
    }

    /// The configuration of the guest, with its vCPUs on these CPUs.
    pub(super) fn config(self, cpus: Vec<usize>) -> VmConfig {
        VmConfig {
            irqchip: Irqchip::Full,
            vcpus: if self == Self::Ipi { 2 } else { 1 },
            vcpu_cpus: cpus,
            ..VmConfig::default()
        }
    }

    /// The route of its interrupts.
    pub(super) fn route(self) -> Result<Route, IrqError> {
        Ok(if self.is_level() {
            Route {
                gsi: Gsi::new(PIN.into())?,
                target: Target::Pin(PIN),
            }
        } else {
            Route {
                gsi: Gsi::new(MESSAGE)?,
                target: Target::Msi(Msi::fixed(0, VECTOR)),
            }
        })
    }
}
