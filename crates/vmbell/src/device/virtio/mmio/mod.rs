//! The transport on MMIO registers (virtio 1.3, 4.2).
//!
//! [`VirtioMmio`] has the registers, a device of the bus that vCPU threads access. A thread that waits for an
//! ioeventfd on [`QUEUE_NOTIFY`](register::QUEUE_NOTIFY), with the queue's index as its datamatch, may serve a
//! queue.

mod interrupt;
pub mod register;
mod transport;

pub use interrupt::Interrupt;
pub use transport::VirtioMmio;

#[cfg(test)]
mod tests;
