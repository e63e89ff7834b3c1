//! The interrupt scenarios by name, and the guest that each needs.

use super::super::wiring::{InterruptSource, Wiring};
use crate::SubjectError;
use vmbell_guest::{Interrupts, Program, programs};
use vmbell_hypervisor::{Irqchip, Vm, VmConfig};

/// What a scenario measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InterruptCase {
    /// The time from the signal of an irqfd to the handler.
    Irqfd { level: bool, halted: bool },
    /// The time from a message sent by the VMM to the handler.
    Msi { halted: bool },
    /// The end of an interrupt alone.
    Eoi(EoiMethod),
    /// An interrupt that a vCPU sends to itself.
    SelfIpi,
    /// An interrupt that a vCPU sends to another.
    Ipi,
    /// Level-triggered interrupts one after the other.
    Level(Lowered),
}

/// What lowers a level-triggered line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lowered {
    /// The guest's EOI, which notifies the device through the resamplefd.
    Resample,
    /// The device model, at the handler's access to it.
    Userspace,
    /// The guest's end of the interrupt, for which the device polls.
    Forwarded,
}

/// How the guest ends an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EoiMethod {
    /// A store to the EOI register in the local APIC's page.
    Xapic,
    /// `wrmsr` to the EOI register of the x2APIC.
    X2apic,
    /// The bit of PV EOI in the guest's memory.
    Pv,
    /// A write to arm64's register: ICC_EOIR1_EL1, or GICC_EOIR of a GICv2.
    Gic,
}

impl InterruptCase {
    const ALL: [Self; 15] = [
        Self::irqfd(false, false),
        Self::irqfd(false, true),
        Self::irqfd(true, false),
        Self::irqfd(true, true),
        Self::Msi { halted: false },
        Self::Msi { halted: true },
        Self::Eoi(EoiMethod::Xapic),
        Self::Eoi(EoiMethod::X2apic),
        Self::Eoi(EoiMethod::Pv),
        Self::Eoi(EoiMethod::Gic),
        Self::Level(Lowered::Forwarded),
        Self::Level(Lowered::Resample),
        Self::Level(Lowered::Userspace),
        Self::SelfIpi,
        Self::Ipi,
    ];

    /// The cases of this architecture.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        let is_here = |case: &Self| match case {
            Self::Eoi(EoiMethod::Gic) => cfg!(target_arch = "aarch64"),
            Self::Eoi(_) => cfg!(not(target_arch = "aarch64")),
            _ => true,
        };
        Self::ALL.into_iter().filter(is_here)
    }

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
            Self::Eoi(EoiMethod::Xapic) => "eoi-apic",
            Self::Eoi(EoiMethod::X2apic) => "eoi-x2apic",
            Self::Eoi(EoiMethod::Pv) => "eoi-pv",
            Self::Eoi(EoiMethod::Gic) => "eoi-gic",
            Self::SelfIpi => "self-ipi",
            Self::Ipi => "ipi",
            Self::Level(Lowered::Forwarded) => "level-forwarded",
            Self::Level(Lowered::Resample) => "level-resample",
            Self::Level(Lowered::Userspace) => "level-userspace-unmask",
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
            Self::Eoi(EoiMethod::Xapic) => "end of an interrupt: a store to the local APIC's page",
            Self::Eoi(EoiMethod::X2apic) => "end of an interrupt: wrmsr",
            Self::Eoi(EoiMethod::Pv) => {
                "end of an interrupt: test and clear of a bit in guest memory"
            }
            Self::Eoi(EoiMethod::Gic) => {
                "end of an interrupt: a write of the CPU interface's register"
            }
            Self::SelfIpi if cfg!(target_arch = "aarch64") => {
                "a vCPU sends an SGI to itself, until the handler has returned"
            }
            Self::SelfIpi => "a vCPU interrupts itself by wrmsr, until the handler has returned",
            Self::Ipi => "a vCPU interrupts another that runs, until that has counted it",
            Self::Level(Lowered::Forwarded) => {
                "a level line up, handled, ended by a bit in guest memory, for which its device looks"
            }
            Self::Level(Lowered::Resample) => {
                "a level line up, handled, down by the EOI, and its device notified by an eventfd"
            }
            Self::Level(Lowered::Userspace) => {
                "a level line up, handled, and down by the device model, which the handler calls"
            }
        }
    }

    /// The case that this case is compared with.
    pub(super) const fn reference(self) -> Option<Self> {
        match self {
            Self::Eoi(EoiMethod::Pv | EoiMethod::Xapic) => Some(Self::Eoi(EoiMethod::X2apic)),
            Self::Level(Lowered::Resample | Lowered::Forwarded) => {
                Some(Self::Level(Lowered::Userspace))
            }
            _ => None,
        }
    }

    pub(super) fn program(self) -> Program {
        match self {
            Self::Irqfd { halted: true, .. } | Self::Msi { halted: true } => {
                programs::interrupt_halted()
            }
            Self::Irqfd { .. } | Self::Msi { .. } | Self::Level(_) => programs::interrupt_running(),
            Self::Eoi(_) => programs::eoi(),
            Self::SelfIpi => programs::self_ipi(),
            Self::Ipi => programs::ipi(),
        }
    }

    /// Whether the guest polls while it waits for its interrupts, so that their sender needs its own CPU.
    pub(super) const fn needs_two_cpus(self) -> bool {
        matches!(
            self,
            Self::Irqfd { halted: false, .. }
                | Self::Msi { halted: false }
                | Self::Level(_)
                | Self::Ipi
        )
    }

    const fn source(self) -> InterruptSource {
        match self {
            Self::Level(_) | Self::Irqfd { level: true, .. } => InterruptSource::Level,
            Self::Irqfd { .. } => InterruptSource::Edge,
            Self::Msi { .. } => InterruptSource::Message,
            Self::Eoi(_) | Self::SelfIpi | Self::Ipi => InterruptSource::Itself,
        }
    }

    /// Whether the scenario measures a single EOI between two readings of the counter, although it may be shorter than
    /// a tick. On arm64 an EOI is always shorter, so there the program starts at a different point of the tick each
    /// time, and only the mean over many EOIs is meaningful.
    pub(super) const fn is_an_end(self) -> bool {
        matches!(self, Self::Eoi(end) if !matches!(end, EoiMethod::Gic))
    }

    /// Whether the scenario measures what the end of an interrupt does.
    pub(super) const fn is_about_the_end(self) -> bool {
        matches!(self, Self::Eoi(_) | Self::Level(_))
    }

    /// The route of the interrupt, and how the program has to handle it.
    pub(super) fn wiring(self, vm: &dyn Vm) -> Result<Wiring, SubjectError> {
        let wiring = Wiring::new(vm, self.source(), self.name())?;
        Ok(Wiring {
            interrupts: Interrupts {
                // Scenarios that do not measure an EOI use the cheapest kind.
                pv_eoi: !matches!(
                    self,
                    Self::Eoi(EoiMethod::Xapic | EoiMethod::X2apic) | Self::Ipi
                ),
                xapic: self == Self::Eoi(EoiMethod::Xapic),
                ..wiring.interrupts
            },
            ..wiring
        })
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
}
