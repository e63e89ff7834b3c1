//! The transport on MMIO registers (virtio 1.3, 4.2).
//!
//! [`VirtioMmio`] is a bus device with the registers, which vCPU threads access. A queue may be served by a thread that
//! waits for an ioeventfd on [`QUEUE_NOTIFY`](register::QUEUE_NOTIFY), with the queue's index as its datamatch.
//!
//! ```
//! use std::sync::Arc;
//! use vmbell::bus::{Backlog, Bus, BusRange};
//! use vmbell::memory::{GuestAddress, GuestMemoryMmap};
//! use vmbell_devices::virtio::mmio::{Interrupt, VirtioMmio, register};
//! use vmbell_devices::virtio::{Entropy, VirtioConfig, VirtioDevice};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let memory = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), 1 << 20)])?;
//! let device = VirtioDevice::new(Entropy, 1, VirtioConfig::default());
//! let device = VirtioMmio::new(device, &memory, Interrupt::none(), Backlog::default())?;
//! let bus = Bus::new();
//! bus.insert(BusRange::new(0xd000_0000, register::LEN)?, Arc::new(device))?;
//!
//! let mut magic = [0; 4];
//! assert!(bus.reader().read(0xd000_0000 + register::MAGIC_VALUE, &mut magic));
//! assert_eq!(&magic, b"virt");
//! # Ok(())
//! # }
//! ```

mod interrupt;
pub mod register;
mod transport;

pub use interrupt::Interrupt;
pub use transport::VirtioMmio;

/// Where a board has a device: the address of its registers, and its interrupt line, which is edge-triggered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// Guest-physical address of the registers and the configuration.
    pub address: u64,
    /// The GSI of the interrupt line.
    pub gsi: u32,
}

#[cfg(test)]
mod tests;
