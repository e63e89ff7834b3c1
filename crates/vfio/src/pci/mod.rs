//! A host's PCI device as a function of the guest's PCI bus (PCI 3.0; Linux `Documentation/driver-api/vfio.rst`).
//!
//! [`AssignedPci`] emulates the registers that say where the device is and how it interrupts: BARs, command, INTx, MSI
//! and MSI-X. All other registers are the device's, and its BARs are mapped into the guest where they can be. It runs
//! on the thread of the vCPU that accesses, on those of several vCPUs at a time; any thread may give the device back.

mod error;
mod function;
mod interrupts;
mod shape;

pub use error::{AssignError, AssignedError, Attempt, Space};
pub use function::{AssignedPci, GuestParts, OnError};
