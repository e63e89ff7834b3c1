//! What a scenario rings and how: the words that its name is made of.

use crate::doorbell::{Datamatch, IoEventAddress};
use crate::guest::{Program, programs};

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
    /// Nothing: the word is watched.
    Polled,
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
        }
    }

    /// Where it rings: addresses that nothing else has.
    pub(super) const fn address(self) -> IoEventAddress {
        match self {
            Self::Portio => IoEventAddress::Pio(0xc050),
            Self::Mmio => IoEventAddress::Mmio(0xd000_0050),
            Self::Hypercall | Self::Word => IoEventAddress::Hypercall(0x50),
        }
    }

    /// The program that rings back to back.
    pub(super) fn rate_program(self) -> Program {
        match self {
            Self::Portio => programs::portio(),
            Self::Mmio => programs::mmio(),
            Self::Hypercall => programs::hypercall(),
            Self::Word => programs::word(),
        }
    }

    /// The program that waits for each ring to be heard.
    pub(super) fn notify_program(self) -> Program {
        match self {
            Self::Portio => programs::notify_portio(),
            Self::Mmio => programs::notify_mmio(),
            Self::Hypercall => programs::notify_hypercall(),
            Self::Word => programs::notify_word(),
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
            Self::Polled => "polled",
        }
    }

    /// The registration for writes of this path, if there is an eventfd.
    pub(super) fn datamatch(self, path: Path) -> Option<Datamatch> {
        let value = (self == Self::Datamatch).then_some(VALUE);
        match (self, path) {
            (Self::DeviceModel | Self::Polled, _) => None,
            (Self::AnyLength, _) => Some(Datamatch::AnyLength),
            // Hypercall arguments are registers.
            (_, Path::Hypercall) => Some(Datamatch::U64(value.map(u64::from))),
            _ => Some(Datamatch::U32(value)),
        }
    }
}
