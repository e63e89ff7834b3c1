//! Why a machine could not run its guest, and why a PC or an arm64 board cannot be built or cannot continue.

use std::io;

use vmbell::bus::BusError;
use vmbell_devices::SnapshotError;
use vmbell_devices::pci::PciError;
use vmbell_hypervisor::{Error, Fault};
use vmbell_vfio::PassthroughError;
use vmbell_vfio::pci::AssignError;

use crate::image::ImageError;
use crate::ram::RamError;

/// Why the machine could not run its guest.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MachineError {
    /// The backend failed.
    #[error("the vcpu could not run")]
    Vcpu(#[source] Error),
    /// The guest faulted.
    #[error("guest fault: {0}")]
    Fault(Fault),
    /// The guest accessed a system register that the machine does not have.
    #[error("the guest accessed system register {index:#x}, which this machine does not have")]
    Register {
        /// The register.
        index: u32,
    },
    /// The interrupt of the serial port could not be set up.
    #[error("cannot make the serial port")]
    Serial(#[source] Error),
    /// A virtio device on MMIO registers could not be plugged in.
    #[error("cannot make a {device}")]
    Virtio {
        /// The name of the device.
        device: &'static str,
        /// The error of the device's line or doorbells.
        source: Error,
    },
    /// Two devices have overlapping addresses.
    #[error("two devices of the machine clash")]
    Bus(#[from] BusError),
    /// A thread of the machine could not be started.
    #[error("cannot start a thread for the machine")]
    Thread {
        /// The error of the thread's start.
        source: std::io::Error,
    },
}

/// Why a PC or an arm64 board cannot be built, or cannot continue.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BoardError {
    /// The backend lacks a capability that operating systems need.
    #[error(transparent)]
    Lacking(Error),
    /// The backend has no interrupt controllers of arm64.
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
    /// The ACPI tables could not be written or read.
    #[error("cannot access the ACPI tables in guest memory")]
    Tables(#[source] vm_memory::GuestMemoryError),
    /// The memory for PCI configuration space could not be made.
    #[error("cannot make the memory of PCI configuration space")]
    ConfigMemory {
        /// The error.
        source: io::Error,
    },
    /// What a BIOS leaves in RAM could not be written.
    #[error("cannot write what a BIOS leaves to guest memory")]
    Bios(#[source] vm_memory::GuestMemoryError),
    /// The guest went to sleep, and did not say where it wants to wake up.
    #[error(
        "the guest woke up and its waking vector in the FACS is {vector:#x}: it must be an address below 1 MiB, \
         and not 0"
    )]
    WakingVector {
        /// The guest-physical address in the FACS.
        vector: u32,
    },
    /// Two devices have overlapping addresses.
    #[error("two devices of the board clash")]
    Bus(#[from] BusError),
    /// A function could not be added to the PCI bus.
    #[error(transparent)]
    Pci(#[from] PciError),
    /// The eventfds of the pci-testdev could not be made.
    #[error("cannot make a pci-testdev")]
    Testdev {
        /// The error of the eventfd.
        source: io::Error,
    },
    /// The eventfds or threads of a virtio device could not be made.
    #[error("cannot make a {device}")]
    Virtio {
        /// The name of the device.
        device: &'static str,
        /// The error of the eventfd or thread.
        source: io::Error,
    },
    /// A device of the host cannot be opened or given to the guest.
    #[error("a device of the host cannot be assigned")]
    Passthrough(#[source] Box<PassthroughError>),
    /// A device of the host was to be given to the guest a second time.
    #[error("{name} is assigned to this guest already")]
    AssignedTwice {
        /// The device.
        name: String,
    },
    /// A PCI device of the host cannot be a function of this PC's bus.
    #[error("{name} cannot be assigned")]
    Assign {
        /// The device.
        name: String,
        /// Why the device cannot be assigned.
        source: AssignError,
    },
    /// The board has no place for a platform device.
    #[error("{name} cannot be assigned: the board has no free {what} left")]
    NoRoom {
        /// The device.
        name: String,
        /// What the device would need.
        what: &'static str,
    },
    /// The board has no place for a virtio device on MMIO registers.
    #[error(
        "the board has no free {what} left for a {device} on MMIO: put it on PCI (transport=pci)"
    )]
    NoPlace {
        /// The name of the device.
        device: &'static str,
        /// What the device would need.
        what: &'static str,
    },
    /// The board has no interrupt line for the device, which has no other interrupt.
    #[error(
        "a {device} raises interrupt lines, which the micro model does not have: use a full PC"
    )]
    NoLines {
        /// The name of the device.
        device: &'static str,
    },
    /// The board has no place for a further virtio device.
    #[error("the board has no place for a {device}: it has {most} devices already")]
    TooManyDevices {
        /// The name of the device.
        device: &'static str,
        /// The maximum number of virtio devices.
        most: u32,
    },
    /// The device tree could not be written.
    #[error("cannot write the device tree")]
    Tree(#[source] vm_fdt::Error),
    /// The device tree is larger than the area for it.
    #[error("the device tree has {len} bytes, but there is room for {room}")]
    TreeSize {
        /// The bytes of the tree.
        len: usize,
        /// The bytes of the area.
        room: u64,
    },
    /// The device tree could not be copied into guest memory.
    #[error("cannot write the device tree to guest memory")]
    TreeMemory(#[source] vm_memory::GuestMemoryError),
    /// A vCPU or the backend's part of the guest cannot be saved or restored.
    #[error("cannot save or restore the guest")]
    Snapshot(#[source] Error),
    /// A device of the board cannot be saved or restored.
    #[error("cannot save or restore a device")]
    SnapshotDevice(#[from] SnapshotError),
    /// The board to restore is not like the one that was saved.
    #[error("the snapshot is of a board with {saved} {what}, and this one has {here}")]
    OtherBoard {
        /// What differs.
        what: &'static str,
        /// Its amount in the snapshot.
        saved: u64,
        /// Its amount here.
        here: u64,
    },
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
