//! A host's PCI device as a function of the guest's PCI bus (PCI 3.0; Linux `Documentation/driver-api/vfio.rst`).
//!
//! [`AssignedPci`] emulates the registers that say where the device is and how it interrupts: BARs, command, INTx, MSI
//! and MSI-X. All other registers are the device's, and its BARs are mapped into the guest where they can be. It runs
//! on the threads of the vCPUs that access it, on several at a time; any thread may give the device back.
//!
//! ```
//! use std::sync::Arc;
//! use vmbell_devices::pci::PciRoot;
//! use vmbell_vfio::device::Device;
//! use vmbell_vfio::pci::{AssignedPci, GuestParts};
//!
//! /// Puts a device of the host on the bus of a guest, with its registers mapped.
//! fn add(
//!     root: &PciRoot,
//!     device: Arc<Device>,
//!     guest: GuestParts,
//! ) -> Result<(), Box<dyn std::error::Error>> {
//!     let on_error = |error| eprintln!("{error}");
//!     root.add(Arc::new(AssignedPci::new(device, guest, true, Box::new(on_error))?))?;
//!     Ok(())
//! }
//! ```

mod error;
mod function;
mod interrupts;
mod shape;

pub use error::{AssignError, AssignedError, Attempt, Space};
pub use function::{AssignedPci, GuestParts, OnError};
