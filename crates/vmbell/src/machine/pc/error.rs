//! Why a PC cannot be made or cannot go on.

use std::io;

use super::layout::{MEMORY_MAX, MEMORY_MIN};
use crate::bus::BusError;
use crate::device::pci::PciError;
use crate::hypervisor::Error;
use crate::machine::{ImageError, MachineError};

/// What can go wrong with a PC.
#[derive(Debug, thiserror::Error)]
pub enum PcError {
    /// The backend cannot run an operating system.
    #[error(transparent)]
    Lacking(Error),
    /// An amount of RAM that the board cannot hold.
    #[error(
        "a PC with {size:#x} bytes of RAM cannot be: it takes multiples of 0x1000 from \
         {MEMORY_MIN:#x} to {MEMORY_MAX:#x}"
    )]
    Size {
        /// How much it was to be.
        size: u64,
    },
    /// The backend could not make the guest.
    #[error("cannot make the guest")]
    Create(#[source] Error),
    /// The backend could not make a vCPU.
    #[error("cannot make a vcpu")]
    Vcpu(#[source] Error),
    /// The ACPI tables could not be written.
    #[error("cannot write the ACPI tables to guest memory")]
    Tables(#[source] vm_memory::GuestMemoryError),
    /// A device is in another's way.
    #[error("two devices of the board clash")]
    Bus(#[from] BusError),
    /// A function cannot be on the PCI bus.
    #[error(transparent)]
    Pci(#[from] PciError),
    /// The pci-testdev has no eventfd.
    #[error("cannot make a pci-testdev")]
    Testdev {
        /// Why.
        source: io::Error,
    },
    /// The image cannot be booted.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The guest could not go on.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// A device could not do what the guest asked of it.
    #[error("{device} failed, and the guest was stopped")]
    Device {
        /// Which.
        device: &'static str,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}
