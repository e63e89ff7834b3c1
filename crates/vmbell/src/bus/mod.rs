//! The bus: finds the device that answers an address.
//!
//! A [`Bus`] maps ranges to devices. Each vCPU thread looks addresses up through its own [`BusReader`], without a lock,
//! in a [snapshot](crate::quiesce::Snapshot). Every change replaces the snapshot as a whole; changes are rare, and a
//! device's handler may also make them. A handler leaves long work to the exit loop's [`Backlog`].
//!
//! ```
//! use std::sync::{Arc, atomic::{AtomicU8, Ordering}};
//! use vmbell::bus::{Bus, BusDevice, BusRange};
//!
//! struct Latch(AtomicU8);
//!
//! impl BusDevice for Latch {
//!     fn read(&self, _offset: u64, data: &mut [u8]) {
//!         data.fill(self.0.load(Ordering::Relaxed));
//!     }
//!     fn write(&self, _offset: u64, data: &[u8]) {
//!         self.0.store(data[0], Ordering::Relaxed);
//!     }
//! }
//!
//! # fn main() -> Result<(), vmbell::bus::BusError> {
//! let bus = Bus::new();
//! bus.insert(BusRange::new(0x1000, 4)?, Arc::new(Latch(AtomicU8::new(0))))?;
//! let mut reader = bus.reader();
//! assert!(reader.write(0x1002, &[7]));
//! let mut data = [0; 2];
//! assert!(reader.read(0x1000, &mut data) && data == [7, 7]);
//! assert!(!reader.write(0x1003, &[7, 7]), "half outside");
//! # Ok(())
//! # }
//! ```

mod backlog;
mod map;
mod range;
mod shared;

pub use backlog::{Backlog, Work};
pub use range::{BusError, BusRange};
pub use shared::{Bus, BusReader};

/// A device that answers a range of addresses, on the thread of the vCPU that accesses it.
pub trait BusDevice: Send + Sync {
    /// Handles a read: fills `data` with the bytes at `offset` from the start of the range.
    fn read(&self, offset: u64, data: &mut [u8]);

    /// Handles a write of `data` at `offset` from the start of the range. The vCPU's thread sees no kick meanwhile:
    /// work that may take long belongs in a [`Backlog`].
    fn write(&self, offset: u64, data: &[u8]);
}
