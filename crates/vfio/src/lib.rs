//! Passthrough: a device of the host that a guest drives itself, through VFIO (Linux
//! `Documentation/driver-api/vfio.rst`).
//!
//! - [`host`]: which devices this host has, and what prevents the assignment of each
//! - [`device`]: a device with its regions and interrupts; what it says is checked
//! - [`region`], [`irq_index`], [`iova`]: the answers of devices and of the IOMMU, checked
//! - [`kernel`]: how the kernel's VFIO opens devices, and maps guest memory for them
//! - [`dma`]: guest memory for the device, where the IOMMU can map it
//! - [`interrupt`]: the device's interrupts as GSIs of the guest
//! - [`pci`]: a device as a function of the guest's PCI bus
//! - [`node`]: the device-tree node by which the guest finds a device
//! - [`placed`]: a device with registers at fixed addresses of the guest
//!
//! Set-up and tear-down may run on any thread. While the guest runs, the VMM takes no part in its accesses and interrupts.

mod chain;
pub mod device;
pub mod dma;
mod error;
pub mod host;
pub mod interrupt;
pub mod iova;
pub mod irq_index;
pub mod kernel;
pub mod node;
pub mod pci;
pub mod placed;
pub mod region;

pub use error::{PassthroughError, PassthroughErrorKind};
