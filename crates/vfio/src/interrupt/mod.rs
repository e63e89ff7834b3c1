//! Interrupts of a device as interrupts of the guest: by irqfd, so that the host's kernel raises them, or by a
//! thread of the VMM where the backend cannot notify the device of an EOI.
//!
//! ```
//! use std::sync::Arc;
//! use vmbell::irq::Gsi;
//! use vmbell_hypervisor::Irqs;
//! use vmbell_vfio::PassthroughError;
//! use vmbell_vfio::device::Device;
//! use vmbell_vfio::interrupt::Line;
//!
//! /// Connects interrupt index 0, the INTx of a PCI device, to a GSI of the guest.
//! fn connect(device: &Arc<Device>, guest: &Arc<dyn Irqs>, gsi: Gsi) -> Result<Line, PassthroughError> {
//!     Line::connect(device, 0, guest, gsi)
//! }
//! ```

mod line;
mod request;
mod vectors;
mod vmm_line;

pub use line::{InterruptPath, Line};
pub use request::RemovalRequest;
pub use vectors::Vectors;
