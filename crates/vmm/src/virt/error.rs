//! Why an arm64 board cannot be built or cannot go on.

use crate::{ImageError, MachineError, RamError};
use vmbell::bus::BusError;
use vmbell_hypervisor::Error;

/// The errors of an arm64 board.
#[derive(Debug, thiserror::Error)]
pub enum VirtError {
    /// The backend lacks a capability that operating systems need.
    #[error(transparent)]
    Lacking(Error),
    /// The backend's interrupt controllers are not those of arm64.
    #[error("the board of an arm64 kernel needs an arm64 host")]
    NoGic,
    /// The board cannot have this RAM.
    #[error(transparent)]
    Ram(#[from] RamError),
    /// The backend could not make the guest.
    #[error("cannot make the guest")]
    Create(#[source] Error),
    /// The backend could not make a vCPU.
    #[error("cannot make a vcpu")]
    Vcpu(#[source] Error),
    /// Two devices have overlapping addresses.
    #[error("two devices of the board clash")]
    Bus(#[from] BusError),
    /// The board has no place for a further virtio device.
    #[error("the board has no place for a {device}: it has {most} devices already")]
    NoPlace {
        /// The name of the device.
        device: &'static str,
        /// The most virtio devices.
        most: u32,
    },
    /// The device tree could not be written.
    #[error("cannot write the device tree")]
    Tree(#[source] vm_fdt::Error),
    /// The device tree is larger than an image has to take.
    #[error("the device tree has {len} bytes, and there is room for {room}")]
    TreeSize {
        /// The bytes of the tree.
        len: usize,
        /// The bytes of its place.
        room: u64,
    },
    /// The device tree could not be copied into guest memory.
    #[error("cannot write the device tree to guest memory")]
    Memory(#[source] vm_memory::GuestMemoryError),
    /// The image cannot be booted.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The machine could not run the guest.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// A device could not do what the guest asked for, so the guest was stopped.
    #[error("{device} failed, and the guest was stopped")]
    Device {
        /// The name of the device.
        device: &'static str,
        /// The error of the device.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}
