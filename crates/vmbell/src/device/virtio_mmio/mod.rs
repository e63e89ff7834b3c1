//! A virtio device on MMIO registers (virtio 1.3, 4.2), with split queues in guest memory.
//!
//! [`VirtioMmio`] has the registers, a device of the bus that vCPU threads access. A [`Queue`] is served by
//! the thread that calls [`Queue::serve`]: the vCPU's thread if the driver notifies and there is no doorbell, a
//! thread that waits for an ioeventfd on [`QUEUE_NOTIFY`](register::QUEUE_NOTIFY) with the queue's index as
//! its datamatch, or a thread that polls. A [`Handler`] does the device's work on a chain; the only one here
//! is [`Inverter`].
//!
//! The driver is hostile: what it writes is checked before it is used, a queue that it breaks stays
//! broken, [`Refusal`] tells the VMM what the driver did wrong, and no thread serves a queue for longer than a
//! budget.

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
