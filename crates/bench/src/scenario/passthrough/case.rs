//! The scenarios with an assigned device by name, and what each needs from its guest.

use super::assigned::AssignedModel;
use super::hardware::{ALARM, EDU, PL031};
use vmbell_guest::{Program, programs};
use vmbell_hypervisor::{Capability, Irqchip};
use vmbell_vfio::placed::Handover;

/// What a scenario measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PassthroughCase {
    /// An interrupt of the device, from the store that raises it to the return of its handler.
    Interrupt { signal: DeviceSignal, irqfd: bool },
    /// An access to a register of the device.
    Access { mapped: bool, store: bool },
    /// An interrupt of a platform device, from the store that raises it to the return of its handler.
    Platform(Handover),
}

/// How the device interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeviceSignal {
    /// By the device's level-triggered line (INTx).
    Line,
    /// By a message (MSI).
    Message,
}

impl PassthroughCase {
    pub(super) const ALL: [Self; 11] = [
        Self::interrupt(DeviceSignal::Line, true),
        Self::interrupt(DeviceSignal::Line, false),
        Self::interrupt(DeviceSignal::Message, true),
        Self::interrupt(DeviceSignal::Message, false),
        Self::access(true, false),
        Self::access(true, true),
        Self::access(false, false),
        Self::access(false, true),
        Self::Platform(Handover::Vmm),
        Self::Platform(Handover::Irqfd),
        Self::Platform(Handover::Forwarded),
    ];

    const fn interrupt(signal: DeviceSignal, irqfd: bool) -> Self {
        Self::Interrupt { signal, irqfd }
    }

    const fn access(mapped: bool, store: bool) -> Self {
        Self::Access { mapped, store }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Interrupt { signal, irqfd } => match (signal, irqfd) {
                (DeviceSignal::Line, true) => "passthrough-intx-irqfd",
                (DeviceSignal::Line, false) => "passthrough-intx-userspace",
                (DeviceSignal::Message, true) => "passthrough-msi-irqfd",
                (DeviceSignal::Message, false) => "passthrough-msi-userspace",
            },
            Self::Access { mapped, store } => match (mapped, store) {
                (true, false) => "passthrough-mmio-mapped",
                (true, true) => "passthrough-mmio-mapped+store",
                (false, false) => "passthrough-mmio-emulated",
                (false, true) => "passthrough-mmio-emulated+store",
            },
            Self::Platform(handover) => match handover {
                Handover::Vmm => "platform-irq-userspace-unmask",
                Handover::Irqfd => "platform-irq-resample",
                Handover::Forwarded => "platform-irq-forwarded",
            },
        }
    }

    pub(super) const fn description(self) -> &'static str {
        match self {
            Self::Interrupt { signal, irqfd } => match (signal, irqfd) {
                (DeviceSignal::Line, true) => {
                    "an assigned device's INTx, raised, handled and unmasked by the EOI: an irqfd with a resample eventfd"
                }
                (DeviceSignal::Line, false) => {
                    "the same through a thread of the VMM, which sees the EOI in the handler's accesses: registers are emulated"
                }
                (DeviceSignal::Message, true) => {
                    "an assigned device's MSI, raised and handled: an irqfd"
                }
                (DeviceSignal::Message, false) => "the same through a thread of the VMM",
            },
            Self::Access { mapped, store } => match (mapped, store) {
                (true, false) => "load of 4 bytes from an assigned device's register, mapped",
                (true, true) => "store of 4 bytes to an assigned device's register, mapped",
                (false, false) => "the same load, handled by the VMM, which reads the register",
                (false, true) => "the same store, handled by the VMM, which writes the register",
            },
            Self::Platform(handover) => match handover {
                Handover::Vmm => {
                    "a platform device's interrupt, raised, handled and unmasked by a thread of the VMM, which sees the \
                     end in the handler's accesses: registers are emulated"
                }
                Handover::Irqfd => {
                    "the same by an irqfd, unmasked by the guest's end of it: a resample eventfd"
                }
                Handover::Forwarded => {
                    "the same tied to the guest's own, whose end completes it: no eventfd"
                }
            },
        }
    }

    /// The case that this case is compared with: the path through the VMM, or the shortest path without forwarding.
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
            Self::Platform(Handover::Irqfd) => Some(Self::Platform(Handover::Vmm)),
            Self::Platform(Handover::Forwarded) => Some(Self::Platform(Handover::Irqfd)),
            _ => None,
        }
    }

    pub(super) fn program(self) -> Program {
        match self {
            Self::Interrupt { .. } => programs::edu_interrupt(),
            Self::Access { store: false, .. } => programs::mmio_load(),
            Self::Access { store: true, .. } => programs::mmio(),
            Self::Platform(_) => programs::pl031_interrupt(),
        }
    }

    /// The device that the case uses.
    pub(super) const fn model(self) -> &'static AssignedModel {
        match self {
            Self::Interrupt { .. } | Self::Access { .. } => &EDU,
            Self::Platform(_) => &PL031,
        }
    }

    /// Whether guests of this architecture can have the device: edu is on a PCI bus, which arm64 guests do not have
    /// here, and the guest program for the clock is for arm64.
    pub(super) const fn is_here(self) -> bool {
        matches!(self, Self::Platform(_)) == cfg!(target_arch = "aarch64")
    }

    /// What the guest stores to raise an interrupt.
    pub(super) fn value(self) -> u64 {
        match self {
            Self::Platform(_) => ALARM.into(),
            _ => 0,
        }
    }

    /// Whether the guest accesses the device's registers without an exit. If the VMM hands the line on, it must see the
    /// accesses.
    pub(super) fn is_mapped(self) -> bool {
        match self {
            Self::Interrupt { .. } => self.handover() != Some(Handover::Vmm),
            Self::Access { mapped, .. } => mapped,
            Self::Platform(handover) => handover != Handover::Vmm,
        }
    }

    /// How the device's line is delivered; `None` if the row does not use the line.
    pub(super) fn handover(self) -> Option<Handover> {
        match self {
            Self::Interrupt {
                signal: DeviceSignal::Line,
                irqfd,
            } => Some(if irqfd {
                Handover::Irqfd
            } else {
                Handover::Vmm
            }),
            Self::Platform(handover) => Some(handover),
            _ => None,
        }
    }

    pub(super) const fn irqchip(self) -> Irqchip {
        match self {
            Self::Interrupt { .. } | Self::Platform(_) => Irqchip::Full,
            Self::Access { .. } => Irqchip::None,
        }
    }

    /// The capabilities that the backend needs.
    pub(super) const fn needs(self) -> &'static [Capability] {
        match self {
            Self::Interrupt {
                signal: DeviceSignal::Line,
                ..
            }
            | Self::Platform(Handover::Vmm | Handover::Irqfd) => {
                &[Capability::Interrupts, Capability::EndOfInterrupt]
            }
            Self::Platform(Handover::Forwarded) => &[Capability::ForwardedInterrupts],
            Self::Interrupt { .. } => &[Capability::Interrupts],
            Self::Access { .. } => &[Capability::Run],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_past_the_vmm_is_compared_with_the_way_through_it() {
        let pairs = PassthroughCase::ALL
            .map(|case| (case.name(), case.reference().map(PassthroughCase::name)));
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
                ("platform-irq-userspace-unmask", None),
                (
                    "platform-irq-resample",
                    Some("platform-irq-userspace-unmask")
                ),
                ("platform-irq-forwarded", Some("platform-irq-resample")),
            ]
        );
    }

    #[test]
    fn registers_are_emulated_where_the_vmm_has_to_see_the_end_of_a_line() {
        let emulated = PassthroughCase::ALL
            .into_iter()
            .filter(|case| !case.is_mapped());
        let names: Vec<_> = emulated.map(PassthroughCase::name).collect();
        assert_eq!(
            names,
            [
                "passthrough-intx-userspace",
                "passthrough-mmio-emulated",
                "passthrough-mmio-emulated+store",
                "platform-irq-userspace-unmask"
            ]
        );
    }
}
