//! A virtio device on MMIO registers (virtio 1.3, 4.2), with split queues in guest memory.
//!
//! [`VirtioMmio`] is the registers, a device of the bus that vCPU threads write. A [`Queue`] is what
//! the driver has set up there, served by whoever calls [`Queue::serve`]: the vCPU's thread when the
//! driver notifies and nobody else listens, a thread that waits for an ioeventfd on
//! [`QUEUE_NOTIFY`](register::QUEUE_NOTIFY) with the queue's index for its datamatch, or one that
//! polls. What the device does with a chain is its [`Handler`]; the only one here is [`Inverter`].
//!
//! The driver is hostile: what it writes is checked before it is used, a queue that it breaks stays
//! broken, [`Refusal`] says what it did wrong, and no thread serves it for longer than a budget.

mod features;
mod interrupt;
mod inverter;
mod queue;
mod refusal;
pub mod register;
mod registers;
mod transport;

pub use interrupt::Interrupt;
pub use inverter::Inverter;
pub use queue::{Handler, HandlerError, Queue, Served};
pub use refusal::Refusal;
pub use transport::{Serving, VirtioMmio};

#[cfg(test)]
mod tests;
