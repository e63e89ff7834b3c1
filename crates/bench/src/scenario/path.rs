//! What a scenario rings and what listens there; its name contains both.

use crate::cpuid;
use crate::select::HAS_PORTS;
use vmbell::doorbell::{Datamatch, IoEventAddress};
use vmbell_guest::{Program, programs};
use vmbell_hypervisor::{Capability, Irqchip};

/// The instruction that the guest rings with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RingInstruction {
    /// An `out` to a port.
    Portio,
    /// A store to an address without memory.
    Mmio,
    /// A call of the hypercall page.
    Hypercall,
    /// An addition to a word in shared memory, which causes no exit.
    Word,
    /// An `out` of one byte to a device that the kernel emulates.
    KernelPort,
    /// The CPU's own hypercall instruction, which the kernel answers.
    Vmcall,
}

/// The consumer of rings at the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RingConsumer {
    /// A device model in the VMM.
    DeviceModel,
    /// An eventfd that any value of the right width signals.
    Wildcard,
    /// An eventfd that one value signals.
    Datamatch,
    /// An eventfd that any value of the right width signals, after the value was stored.
    Payload,
    /// An eventfd that a write of any width signals.
    AnyLength,
    /// A device model in the VMM that gets many writes at once.
    Coalesced,
    /// No exit is needed: a thread polls the word.
    Polled,
    /// Something below the VMM, so that the VMM is not notified.
    Below,
}

/// The value that the guest writes, and that a datamatch matches.
pub(super) const VALUE: u32 = 0x1234;

impl RingInstruction {
    /// Whether this architecture has the instruction.
    pub(super) const fn is_here(self) -> bool {
        HAS_PORTS || !matches!(self, Self::Portio | Self::KernelPort)
    }

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

    /// The address that the guest rings at; nothing else is registered there.
    pub(super) const fn address(self) -> IoEventAddress {
        match self {
            Self::Portio => IoEventAddress::Pio(0xc050),
            Self::Mmio => IoEventAddress::Mmio(0xd000_0050),
            Self::Hypercall | Self::Word | Self::Vmcall => IoEventAddress::Hypercall(0x50),
            // The edge/level register of the PIC, which the row of this name in kvm-unit-tests also writes.
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

    /// The value that the program writes.
    pub(super) fn value(self) -> u64 {
        match self {
            Self::KernelPort => 0,
            Self::Vmcall => u64::from(cpuid::is_amd()),
            _ => VALUE.into(),
        }
    }

    /// The program that waits until each notification is answered; `None` if the kernel itself answers.
    pub(super) fn notify_program(self) -> Option<Program> {
        match self {
            Self::Portio => Some(programs::notify_portio()),
            Self::Mmio => Some(programs::notify_mmio()),
            Self::Hypercall => Some(programs::notify_hypercall()),
            Self::Word => Some(programs::notify_word()),
            Self::KernelPort | Self::Vmcall => None,
        }
    }

    /// The interrupt controllers that the guest needs.
    pub(super) const fn irqchip(self) -> Irqchip {
        match self {
            Self::KernelPort => Irqchip::Full,
            _ => Irqchip::None,
        }
    }

    /// The capability that the backend needs for this pair.
    pub(super) const fn needs(self, bell: RingConsumer) -> Capability {
        match (self, bell) {
            (Self::KernelPort, _) => Capability::KernelPort,
            (Self::Vmcall, _) => Capability::HypercallInstruction,
            (_, RingConsumer::Coalesced) => Capability::CoalescedMmio,
            (Self::Hypercall, RingConsumer::DeviceModel) => Capability::HypercallExit,
            (Self::Hypercall, _) => Capability::HypercallDoorbell,
            (_, RingConsumer::Payload) => Capability::PayloadDoorbell,
            (
                Self::Portio,
                RingConsumer::Wildcard | RingConsumer::Datamatch | RingConsumer::AnyLength,
            ) => Capability::PioDoorbell,
            (
                Self::Mmio,
                RingConsumer::Wildcard | RingConsumer::Datamatch | RingConsumer::AnyLength,
            ) => Capability::MmioDoorbell,
            _ => Capability::Run,
        }
    }
}

impl RingConsumer {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::DeviceModel => "no-eventfd",
            Self::Wildcard => "wildcard-eventfd",
            Self::Datamatch => "datamatch-eventfd",
            Self::Payload => "payload-eventfd",
            Self::AnyLength => "any-length-eventfd",
            Self::Coalesced => "coalesced",
            Self::Polled => "polled",
            Self::Below => "below",
        }
    }

    /// The datamatch of an ioeventfd for writes of this path; `None` if the path uses no eventfd.
    pub(super) fn datamatch(self, path: RingInstruction) -> Option<Datamatch> {
        let value = (self == Self::Datamatch).then_some(VALUE);
        match (self, path) {
            (Self::DeviceModel | Self::Coalesced | Self::Polled | Self::Below, _) => None,
            (Self::AnyLength, _) => Some(Datamatch::AnyLength),
            // Arguments of a hypercall are 64-bit registers.
            (_, RingInstruction::Hypercall) => Some(Datamatch::U64(value.map(u64::from))),
            _ => Some(Datamatch::U32(value)),
        }
    }
}
