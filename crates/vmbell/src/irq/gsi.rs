//! GSIs, and the errors of setting up or sending an interrupt, with the errno that KVM returns for each.

use std::fmt;

use crate::eventfd::EventFdError;

/// A global system interrupt: the number by which devices and irqfds name an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Gsi(u32);

impl Gsi {
    /// All GSIs are below this number, and a table has at most this many routes (Linux `KVM_MAX_IRQ_ROUTES`).
    pub const LIMIT: u32 = 4096;

    /// The GSI with this number. Fails with [`IrqError::Gsi`] if the number is not below [`LIMIT`](Self::LIMIT).
    pub const fn new(gsi: u32) -> Result<Self, IrqError> {
        if gsi < Self::LIMIT {
            Ok(Self(gsi))
        } else {
            Err(IrqError::Gsi { gsi })
        }
    }

    /// The number of the GSI.
    pub const fn number(self) -> u32 {
        self.0
    }
}

impl fmt::Display for Gsi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "gsi {}", self.0)
    }
}

/// The reason why a request is refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IrqError {
    /// The vector is below 16; those vectors belong to exceptions.
    #[error("vector {vector} is an exception's, interrupts begin at 16")]
    Vector {
        /// The vector.
        vector: u8,
    },
    /// The number is not below [`Gsi::LIMIT`].
    #[error("gsi {gsi} is out of range, there are {}", Gsi::LIMIT)]
    Gsi {
        /// The number.
        gsi: u32,
    },
    /// The interrupt controller does not have this pin.
    #[error("pin {pin} is out of range, the interrupt controller has {pins}")]
    Pin {
        /// The pin.
        pin: u8,
        /// How many pins the interrupt controller has.
        pins: u8,
    },
    /// An MSI address that does not lead to a local APIC.
    #[error("msi address {address:#x} leads to no local apic (0xfee00000 to 0xfeefffff)")]
    MsiAddress {
        /// The address.
        address: u64,
    },
    /// The delivery mode is SMI, NMI, INIT, ExtINT or reserved.
    #[error("delivery mode {mode} is neither fixed (0) nor lowest priority (1)")]
    Mode {
        /// The three bits of the delivery mode.
        mode: u8,
    },
    /// A message on arm64 does not name the device that sends it.
    #[error("a message to the its has to name its device")]
    NoDevice,
    /// The guest has arm64 interrupt controllers without an ITS.
    #[error("the guest has no its, which gets messages: its gic is not version 3")]
    NoIts,
    /// The table has too many routes.
    #[error("{count} routes, there can be {}", Gsi::LIMIT)]
    TooManyRoutes {
        /// The number of routes.
        count: usize,
    },
    /// A route leads to a pin, but the guest has no I/O APIC below the VMM.
    #[error("{gsi} leads to a pin, but the guest has no i/o apic below the vmm (irqchip full)")]
    NoIoApic {
        /// The GSI of the route.
        gsi: Gsi,
    },
    /// The table has two routes for one GSI.
    #[error("{gsi} has two routes")]
    RoutedTwice {
        /// The GSI.
        gsi: Gsi,
    },
    /// The guest has no interrupt controller below the VMM.
    #[error("the guest has no interrupt controller")]
    NoIrqchip,
    /// A resampling irqfd needs an I/O APIC below the VMM; without it, the VMM's own I/O APIC handles the EOI.
    #[error("a resampling irqfd needs an i/o apic below the vmm (irqchip full)")]
    NoResample,
    /// The GSI leads to no pin, so it has no line that could be forwarded.
    #[error("{gsi} leads to no pin, but only a line can be forwarded")]
    NoLine {
        /// The GSI.
        gsi: Gsi,
    },
    /// The guest has made the pin of the GSI edge-triggered. A device cannot wait for the end of an edge.
    #[error("{gsi} is edge-triggered, but only level-triggered interrupts can be forwarded")]
    Edge {
        /// The GSI.
        gsi: Gsi,
    },
    /// The line is forwarded already.
    #[error("{gsi} is forwarded already")]
    Forwarded {
        /// The GSI.
        gsi: Gsi,
    },
    /// The GSI has a resampling irqfd, which has to be notified at the end of each interrupt.
    #[error("{gsi} has a resampling irqfd, which waits for the end of each interrupt")]
    Resampled {
        /// The GSI.
        gsi: Gsi,
    },
    /// The descriptor does not refer to an eventfd.
    #[error(transparent)]
    Event(#[from] EventFdError),
    /// The eventfd is an irqfd of this guest already.
    #[error("the eventfd is an irqfd already")]
    Busy,
}

impl IrqError {
    /// The errno that KVM's ioctl returns for this error.
    pub const fn errno(&self) -> i32 {
        match self {
            Self::Event(error) => error.errno(),
            Self::Busy | Self::Forwarded { .. } | Self::Resampled { .. } => libc::EBUSY,
            Self::NoIts => libc::ENODEV,
            _ => libc::EINVAL,
        }
    }
}
