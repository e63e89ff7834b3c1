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

/// Where a board has a device: the address of its registers, and its line, which is an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// Guest-physical address of the registers and the configuration.
    pub address: u64,
    /// The line.
    pub gsi: u32,
}

#[cfg(test)]
mod tests;
