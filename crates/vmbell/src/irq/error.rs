//! Why an interrupt cannot be set up, and the errno that KVM gives for it.

use super::{Gsi, PINS};
use crate::eventfd::EventFdError;

/// What is wrong with a request.
#[derive(Debug, thiserror::Error)]
pub enum IrqError {
    /// Exceptions have these vectors.
    #[error("vector {vector} is an exception's, interrupts begin at 16")]
    Vector {
        /// The vector.
        vector: u8,
    },
    /// There are not so many.
    #[error("gsi {gsi} is out of range, there are {}", Gsi::LIMIT)]
    Gsi {
        /// The number.
        gsi: u32,
    },
    /// The I/O APIC has not so many.
    #[error("pin {pin} is out of range, the i/o apic has {PINS}")]
    Pin {
        /// The pin.
        pin: u32,
    },
    /// The address is no local APIC's.
    #[error("msi address {address:#x} leads to no local apic (0xfee00000 to 0xfeefffff)")]
    MsiAddress {
        /// The address.
        address: u64,
    },
    /// SMI, NMI, INIT, ExtINT, or none at all.
    #[error("delivery mode {mode} is none of fixed (0) and lowest priority (1)")]
    Mode {
        /// The three bits.
        mode: u8,
    },
    /// The table would be too long.
    #[error("{count} routes, there can be {}", Gsi::LIMIT)]
    TooManyRoutes {
        /// How many.
        count: usize,
    },
    /// There is nothing to have pins.
    #[error("{gsi} leads to a pin, and the guest has no i/o apic below the vmm (irqchip full)")]
    NoIoApic {
        /// Which.
        gsi: Gsi,
    },
    /// A GSI leads to one place.
    #[error("{gsi} has two routes")]
    RoutedTwice {
        /// Which.
        gsi: Gsi,
    },
    /// Nobody would deliver it.
    #[error("the guest has no interrupt controller")]
    NoIrqchip,
    /// The I/O APIC is the VMM's, and so is its EOI.
    #[error("a resampling irqfd needs an i/o apic below the vmm (irqchip full)")]
    NoResample,
    /// The descriptor names no eventfd.
    #[error(transparent)]
    Event(#[from] EventFdError),
    /// Each eventfd is one irqfd.
    #[error("the eventfd is an irqfd already")]
    Busy,
}

impl IrqError {
    /// What the ioctl returns for it.
    pub const fn errno(&self) -> i32 {
        match self {
            Self::Event(error) => error.errno(),
            Self::Busy => libc::EBUSY,
            _ => libc::EINVAL,
        }
    }
}
