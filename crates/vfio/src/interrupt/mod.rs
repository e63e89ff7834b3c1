//! Interrupts of a device as interrupts of the guest: by irqfd, so that the host's kernel raises them, or by a
//! thread of the VMM where the backend cannot notify the device of an EOI.

mod line;
mod request;
mod vectors;
mod vmm_line;

pub use line::{InterruptPath, Line};
pub use request::RemovalRequest;
pub use vectors::Vectors;
