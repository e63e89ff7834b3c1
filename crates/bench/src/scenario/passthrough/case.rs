//! The scenarios with an assigned device by name, and what each of them needs of its guest.

use vmbell::guest::{Interrupts, Program, VECTOR, programs};
use vmbell::hypervisor::{Capability, Irqchip};
use vmbell::irq::{Gsi, IrqError, Route, Target};

/// The pin of the I/O APIC that the device's line leads to.
const PIN: u8 = 5;
/// The bit of a redirection entry that makes it level-triggered.
const LEVEL: u32 = 1 << 15;

/// What a scenario measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Case {
    /// An interrupt of the device, from the store that raises it to the return of its handler.
    Interrupt { signal: Signal, irqfd: bool },
    /// An access to a register of the device.
    Access { mapped: bool, store: bool },
}

/// How the device interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    /// By its level-triggered line (INTx).
    Line,
    /// By a message (MSI).
    Message,
}

impl Case {
    pub(super) const ALL: [Self; 8] = [
        Self::interrupt(Signal::Line, true),
        Self::interrupt(Signal::Line, false),
        Self::interrupt(Signal::Message, true),
        Self::interrupt(Signal::Message, false),
        Self::access(true, false),
        Self::access(true, true),
        Self::access(false, false),
        Self::access(false, true),
    ];

    const fn interrupt(signal: Signal, irqfd: bool) -> Self {
        Self::Interrupt { signal, irqfd }
    }

    const fn access(mapped: bool, store: bool) -> Self {
        Self::Access { mapped, store }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Interrupt { signal, irqfd } => match (signal, irqfd) {
                (Signal::Line, true) => "passthrough-intx-irqfd",
                (Signal::Line, false) => "passthrough-intx-userspace",
                (Signal::Message, true) => "passthrough-msi-irqfd",
                (Signal::Message, false) => "passthrough-msi-userspace",
            },
            Self::Access { mapped, store } => match (mapped, store) {
                (true, false) => "passthrough-mmio-mapped",
                (true, true) => "passthrough-mmio-mapped+store",
                (false, false) => "passthrough-mmio-emulated",
                (false, true) => "passthrough-mmio-emulated+store",
            },
        }
    }

    pub(super) const fn description(self) -> &'static str {
        match self {
            Self::Interrupt { signal, irqfd } => match (signal, irqfd) {
                (Signal::Line, true) => {
                    "an assigned device's INTx, raised, handled and unmasked by the EOI: an irqfd with a resample eventfd"
                }
                (Signal::Line, false) => {
                    "the same through a thread of the VMM, which sees the EOI in the handler's accesses: registers are emulated"
                }
                (Signal::Message, true) => "an assigned device's MSI, raised and handled: an irqfd",
                (Signal::Message, false) => "the same through a thread of the VMM",
            },
            Self::Access { mapped, store } => match (mapped, store) {
                (true, false) => "load of 4 bytes from an assigned device's register, mapped",
                (true, true) => "store of 4 bytes to an assigned device's register, mapped",
                (false, false) => "the same load, handled by the VMM, which reads the register",
                (false, true) => "the same store, handled by the VMM, which writes the register",
            },
        }
    }

    /// The case that this one is compared with: the way through the VMM.
    pub(super) const fn reference(self) -> Option<Self> {
        match self {
            Self::Interrupt {
                signal,
                irqfd: true,
            } => Some(Self::interrupt(signal, false)),
            Self::Access {
                mapped: true,
                store,
            } => Some(Self::access(false, store)),
            _ => None,
        }
    }

    pub(super) fn program(self) -> Program {
        match self {
            Self::Interrupt { .. } => programs::edu_interrupt(),
            Self::Access { store: false, .. } => programs::mmio_load(),
            Self::Access { store: true, .. } => programs::mmio(),
        }
    }

    /// Whether the guest reaches the device's registers without an exit. Where the VMM hands the line on, it has to see
    /// the accesses.
    pub(super) fn is_mapped(self) -> bool {
        match self {
            Self::Interrupt { .. } => !self.has_line() || self.reference().is_some(),
            Self::Access { mapped, .. } => mapped,
        }
    }

    /// Whether the device interrupts by its line.
    pub(super) const fn has_line(self) -> bool {
        matches!(
            self,
            Self::Interrupt {
                signal: Signal::Line,
                ..
            }
        )
    }

    pub(super) const fn irqchip(self) -> Irqchip {
        match self {
            Self::Interrupt { .. } => Irqchip::Full,
            Self::Access { .. } => Irqchip::None,
        }
    }

    /// What the backend has to be able to do.
    pub(super) const fn needs(self) -> &'static [Capability] {
        match self {
            Self::Interrupt {
                signal: Signal::Line,
                ..
            } => &[Capability::Interrupts, Capability::EndOfInterrupt],
            Self::Interrupt { .. } => &[Capability::Interrupts],
            Self::Access { .. } => &[Capability::Run],
        }
    }

    /// How the program has to handle its interrupts.
    pub(super) fn interrupts(self) -> Interrupts {
        Interrupts {
            pv_eoi: true,
            xapic: false,
            route: self.has_line().then_some((PIN, LEVEL | u32::from(VECTOR))),
            gic: None,
        }
    }

    /// The route of the device's line.
    pub(super) fn line() -> Result<Route, IrqError> {
        Ok(Route {
            gsi: Gsi::new(PIN.into())?,
            target: Target::Pin(PIN),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_past_the_vmm_is_compared_with_the_way_through_it() {
        let pairs = Case::ALL.map(|case| (case.name(), case.reference().map(Case::name)));
        assert_eq!(
            pairs,
            [
                ("passthrough-intx-irqfd", Some("passthrough-intx-userspace")),
                ("passthrough-intx-userspace", None),
                ("passthrough-msi-irqfd", Some("passthrough-msi-userspace")),
                ("passthrough-msi-userspace", None),
                ("passthrough-mmio-mapped", Some("passthrough-mmio-emulated")),
                (
                    "passthrough-mmio-mapped+store",
                    Some("passthrough-mmio-emulated+store")
                ),
                ("passthrough-mmio-emulated", None),
                ("passthrough-mmio-emulated+store", None),
            ]
        );
    }

    #[test]
    fn registers_are_emulated_where_the_vmm_has_to_see_the_end_of_a_line() {
        let emulated = Case::ALL.into_iter().filter(|case| !case.is_mapped());
        let names: Vec<_> = emulated.map(Case::name).collect();
        assert_eq!(
            names,
            [
                "passthrough-intx-userspace",
                "passthrough-mmio-emulated",
                "passthrough-mmio-emulated+store"
            ]
        );
    }
}
