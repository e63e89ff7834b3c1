//! The address of a doorbell.

use std::fmt;

use stub::table::Kind;

/// The address that a guest writes to in order to ring a doorbell. It is exact: a write one byte beside it does
/// not ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum IoEventAddress {
    /// An x86 I/O port. Ports above 0xffff are accepted and never fire (Linux `virt/kvm/eventfd.c`).
    Pio(u64),
    /// A guest-physical address.
    Mmio(u64),
    /// A number in the first argument of a call through the hypercall page.
    Hypercall(u64),
}

impl IoEventAddress {
    /// The number of the port, address or hypercall, without the space.
    pub const fn value(self) -> u64 {
        match self {
            Self::Pio(value) | Self::Mmio(value) | Self::Hypercall(value) => value,
        }
    }

    /// The address space, as the table distinguishes them.
    pub(super) const fn kind(self) -> Kind {
        match self {
            Self::Pio(_) => Kind::Pio,
            Self::Mmio(_) => Kind::Mmio,
            Self::Hypercall(_) => Kind::Hypercall,
        }
    }
}

impl fmt::Display for IoEventAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pio(port) => write!(f, "pio {port:#x}"),
            Self::Mmio(address) => write!(f, "mmio {address:#x}"),
            Self::Hypercall(number) => write!(f, "hypercall {number:#x}"),
        }
    }
}
