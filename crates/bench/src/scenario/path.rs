//! What a scenario rings and how: the words that its name is made of.

use crate::cpuid;
use vmbell::doorbell::{Datamatch, IoEventAddress};
use vmbell::guest::{Program, programs};
use vmbell::hypervisor::{Capability, Irqchip};

/// How the guest rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Path {
    /// `out`.
    Portio,
    /// A store to a hole in memory.
    Mmio,
    /// A call of the hypercall page.
    Hypercall,
    /// An addition to a word in shared memory: no exit at all.
    Word,
    /// `out` of a byte to a device below the VMM.
    KernelPort,
    /// The CPU's own hypercall instruction, which the kernel answers.
    Vmcall,
}

/// What hangs at the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bell {
    /// A device model in the VMM.
    DeviceModel,
    /// An eventfd that any value of the right width signals.
    Wildcard,
    /// An eventfd that one value signals.
    Datamatch,
    /// An eventfd that any width signals.
    AnyLength,
    /// A device model in the VMM, which hears of many writes at once.
    Coalesced,
    /// Nothing: the word is watched.
    Polled,
    /// Something below the VMM, which hears of nothing.
    Below,
}

/// The value that is written, and matched where one is.
pub(super) const VALUE: u32 = 0x1234;

impl Path {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Portio => "portio",
            Self::Mmio => "mmio",
            Self::Hypercall => "hypercall",
            Self::Word => "doorbell-word",
            Self::KernelPort => "outl_to_kernel",
            Self::Vmcall => "vmcall",
        }
    }

    /// Where it rings: addresses that nothing else has.
    pub(super) const fn address(self) -> IoEventAddress {
        match self {
            Self::Portio => IoEventAddress::Pio(0xc050),
            Self::Mmio => IoEventAddress::Mmio(0xd000_0050),
            Self::Hypercall | Self::Word | Self::Vmcall => IoEventAddress::Hypercall(0x50),
            // The edge/level register of the PIC, as kvm-unit-tests' row of this name has it.
            Self::KernelPort => IoEventAddress::Pio(0x4d0),
        }
    }

    /// The program that rings back to back.
    pub(super) fn rate_program(self) -> Program {
        match self {
            Self::Portio => programs::portio(),
            Self::Mmio => programs::mmio(),
            Self::Hypercall => programs::hypercall(),
            Self::Word => programs::word(),
            Self::KernelPort => programs::portio_byte(),
            Self::Vmcall => programs::vmcall(),
        }
    }

    /// What the program is told to write.
    pub(super) fn value(self) -> u64 {
        match self {
            Self::KernelPort => 0,
            Self::Vmcall => u64::from(cpuid::is_amd()),
            _ => VALUE.into(),
        }
    }

    /// The program that waits for each ring to be heard, where somebody can hear it.
    pub(super) fn notify_program(self) -> Option<Program> {
        match self {
            Self::Portio => Some(programs::notify_portio()),
            Self::Mmio => Some(programs::notify_mmio()),
            Self::Hypercall => Some(programs::notify_hypercall()),
            Self::Word => Some(programs::notify_word()),
            Self::KernelPort | Self::Vmcall => None,
        }
    }

    /// What the guest needs besides memory.
    pub(super) const fn irqchip(self) -> Irqchip {
        match self {
            Self::KernelPort => Irqchip::Full,
            _ => Irqchip::None,
        }
    }

    /// What the backend must be able to do for this pair.
    pub(super) const fn needs(self, bell: Bell) -> Capability {
        match (self, bell) {
            (Self::KernelPort, _) => Capability::KernelPort,
            (Self::Vmcall, _) => Capability::HypercallInstruction,
            (_, Bell::Coalesced) => Capability::CoalescedMmio,
            (Self::Hypercall, Bell::DeviceModel) => Capability::HypercallExit,
            (Self::Hypercall, _) => Capability::HypercallDoorbell,
            (Self::Portio, Bell::Wildcard | Bell::Datamatch | Bell::AnyLength) => {
                Capability::PioDoorbell
            }
            (Self::Mmio, Bell::Wildcard | Bell::Datamatch | Bell::AnyLength) => {
                Capability::MmioDoorbell
            }
            _ => Capability::Run,
        }
    }
}

impl Bell {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::DeviceModel => "no-eventfd",
            Self::Wildcard => "wildcard-eventfd",
            Self::Datamatch => "datamatch-eventfd",
            Self::AnyLength => "any-length-eventfd",
            Self::Coalesced => "coalesced",
            Self::Polled => "polled",
            Self::Below => "below",
        }
    }

    /// The registration for writes of this path, if there is an eventfd.
    pub(super) fn datamatch(self, path: Path) -> Option<Datamatch> {
        let value = (self == Self::Datamatch).then_some(VALUE);
        match (self, path) {
            (Self::DeviceModel | Self::Coalesced | Self::Polled | Self::Below, _) => None,
            (Self::AnyLength, _) => Some(Datamatch::AnyLength),
            // Hypercall arguments are registers.
            (_, Path::Hypercall) => Some(Datamatch::U64(value.map(u64::from))),
            _ => Some(Datamatch::U32(value)),
        }
    }
}
