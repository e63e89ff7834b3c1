//! Virtqueues: split and packed rings (virtio 1.3, 2.6 to 2.8), driver side and device side.
//!
//! Each side is a value that one thread owns. Both treat the ring as hostile: what the other side
//! can write is read once, checked, then used; a side that finds an impossible value marks its
//! queue broken with a [`QueueError`], and neither allocates memory nor panics because of it.
//!
//! The methods of [`Driver`] have the names of Linux's virtqueue functions, those of [`DeviceQueue`] the
//! names of rust-vmm's. A driver that polls remembers an [`Opaque`] or a [`Token`], which differ in how soon
//! they wrap; a [`QueuePoller`] polls from another thread.
//!
//! ```
//! use vmbell_virtqueue::{
//!     Buffer, Chain, DeviceQueue, Features, HostMemory, SplitDevice, SplitDriver,
//!     SplitLayout, Token, brand,
//! };
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let layout = SplitLayout::contiguous(0, 256);
//! let memory = HostMemory::new(64 << 10);
//! brand::scoped(|brand| {
//!     let mut driver = SplitDriver::new(&memory, &layout, Features::default(), brand)?;
//!     let mut device = SplitDevice::new(&memory, &layout, Features::default())?;
//!     let token: Token<_> = driver.enable_cb_prepare();
//!
//!     driver.add(&[Buffer::new(0x8000, 64)], &[], "request")?;
//!     assert!(driver.kick_prepare(), "the device wants to know");
//!
//!     let mut chain = Chain::with_capacity(256);
//!     let head = device.pop(&mut chain)?.expect("it is there");
//!     assert_eq!(chain.readable()[0].len, 64);
//!     assert!(!driver.poll(token));
//!     device.add_used(head, 0)?;
//!     assert!(driver.poll(token) && device.needs_notification());
//!     assert_eq!(driver.get_used()?.expect("it is back").data, "request");
//!     Ok(())
//! })
//! # }
//! ```
//!
//! # Save and restore
//!
//! [`Driver::save`] and [`DeviceControl`] save a side and `restore` it, in this process or in another one. The state
//! is a value with public fields and also a string of bytes ([`DriverState`], [`DeviceState`]). It does not include
//! what is in memory: the ring, with both sides' event suppression, and indirect tables. The caller saves the
//! memory at the same time, while neither side runs. A restored side gives the answers that the saved one would
//! have given. A state may come from an untrusted source: it is restored completely, or restoring fails with a
//! [`RestoreError`] and changes nothing.
//!
//! A state does not contain notifications that were on their way: a kick may be in the counter of an ioeventfd, and an
//! interrupt in that of an irqfd or in the interrupt controller. A VMM that resumes a guest signals each queue's
//! doorbell and raises each queue's interrupt once. This is always safe, because each side checks the ring and
//! finds work or none. To send no extra notification, a VMM must save both counters along with the queue.

pub mod brand;
mod buffer;
mod descriptor;
mod driver;
mod error;
mod features;
mod memory;
mod packed;
mod poll;
mod save;
mod slots;
mod split;
mod sync;

pub use brand::Brand;
pub use buffer::{Buffer, Chain, Head, Used};
pub use driver::{Driver, Ring, Side};
pub use error::{AddError, NotAdded, QueueError, SetupError, UsedError, WrapCounterError};
pub use features::{Features, Status, need_event};
pub use memory::{HostMemory, RingMemory};
pub use packed::{PackedDevice, PackedDriver, PackedLayout, PackedRing, PackedSide};
pub use poll::{Opaque, Progress, QueuePoller, Token};
pub use save::{
    BufferState, DeviceState, DriverState, HeadState, RestoreError, RingKind, STATE_VERSION,
};
pub use split::{SplitDevice, SplitDriver, SplitLayout, SplitRing, SplitSide};

/// The device side: takes available descriptor chains and returns them as used.
pub trait DeviceQueue {
    /// How many descriptors the queue has, which is also the limit of a chain.
    fn size(&self) -> u16;

    /// Takes the next chain and reads its descriptors into `chain`.
    ///
    /// # Errors
    ///
    /// If the driver wrote what it must not; the queue is broken from then on.
    fn pop(&mut self, chain: &mut Chain) -> Result<Option<Head>, QueueError>;

    /// Where the next chain will be taken, in the format of the driver's
    /// [`next_avail`](Driver::next_avail). Both are equal when the device has taken all that is available.
    fn next_avail(&self) -> u16;

    /// Gives a chain back, with `len` bytes written to it.
    ///
    /// # Errors
    ///
    /// If the chain has fewer writable bytes, is not the next in order, or is not this queue's. The chain is
    /// lost then.
    fn add_used(&mut self, head: Head, len: u32) -> Result<(), UsedError>;

    /// Gives several chains back at once: the driver sees all or none of them. With `VIRTIO_F_IN_ORDER`, one used
    /// element covers as many chains as possible (virtio 1.3, 2.7.9).
    ///
    /// # Errors
    ///
    /// As [`add_used`](Self::add_used); the chains before the bad one are given back.
    fn add_used_batch(
        &mut self,
        chains: impl IntoIterator<Item = (Head, u32)>,
    ) -> Result<(), UsedError>;

    /// Whether the driver wants to be notified of what was given back since the last call.
    fn needs_notification(&mut self) -> bool;

    /// Enables a notification of the next available chain; true if a chain may be waiting already.
    fn enable_notification(&mut self) -> bool;

    /// Disables available buffer notifications (device event suppression). One may still come.
    fn disable_notification(&mut self);
}

/// Saves and restores the device side.
///
/// ```
/// use vmbell_virtqueue::{
///     Buffer, Chain, DeviceControl, DeviceQueue, DeviceState, Features, HostMemory,
///     SplitDevice, SplitDriver, SplitLayout, brand,
/// };
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (layout, features) = (SplitLayout::contiguous(0, 256), Features::default());
/// let memory = HostMemory::new(64 << 10);
/// brand::scoped(|brand| {
///     let mut driver = SplitDriver::new(&memory, &layout, features, brand)?;
///     let mut device = SplitDevice::new(&memory, &layout, features)?;
///     driver.add(&[Buffer::new(0x8000, 64)], &[], "request")?;
///     let head = device.pop(&mut Chain::with_capacity(256))?.expect("it is there");
///     let bytes = device.save([&head])?.to_bytes();
///
///     // Later, with the same contents of the memory:
///     let mut device = SplitDevice::new(&memory, &layout, features)?;
///     let mut heads = device.restore(&DeviceState::from_bytes(&bytes)?)?;
///     device.add_used(heads.remove(0), 0)?;
///     assert!(device.needs_notification());
///     assert_eq!(driver.get_used()?.expect("it is back").data, "request");
///     Ok(())
/// })
/// # }
/// ```
pub trait DeviceControl {
    /// The state of this side, with `heads`: all chains that were taken and not given back. A chain that is left
    /// out is lost to the driver.
    ///
    /// # Errors
    ///
    /// If the state could not be restored, because `heads` are not of this queue.
    fn save<'h>(
        &self,
        heads: impl IntoIterator<Item = &'h Head>,
    ) -> Result<DeviceState, RestoreError>;

    /// Continues from a saved state; returns the chains that were saved with it, in the same order.
    ///
    /// The buffers of a [`Chain`] are not part of a state. A device that has not finished with them saves them
    /// itself.
    ///
    /// # Errors
    ///
    /// If this queue cannot have the state. The queue has not changed then.
    fn restore(&mut self, state: &DeviceState) -> Result<Vec<Head>, RestoreError>;
}

/// Seals the traits that only this crate implements.
mod sealed {
    pub trait Sealed {}
}

/// Marks the branch that calls it as unlikely, without a call for which values would have to be saved.
#[cold]
#[inline(always)]
const fn unlikely() {}

#[cfg(test)]
#[cfg(loom)]
#[path = "loom_test.rs"]
mod models;

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
