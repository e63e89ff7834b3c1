//! Virtqueues: split and packed rings (virtio 1.3, 2.6 to 2.8), driver side and device side.
//!
//! Each side is a value that one thread owns. Both treat the ring as hostile: what the other side
//! can write is read once, checked, then used; a side that finds an impossible value marks its
//! queue broken with a [`QueueError`], and neither allocates memory nor panics because of it.
//!
//! The methods of [`DriverQueue`] have the names of Linux's virtqueue functions, those of [`DeviceQueue`] the
//! names of rust-vmm's. A driver that polls remembers an [`Opaque`] or a [`Token`], which differ in how soon
//! they wrap; a [`QueuePoller`] polls from another thread.
//!
//! ```
//! use vmbell_virtqueue::{
//!     Buffer, Chain, DeviceQueue, DriverQueue, Features, HostMemory, SplitDevice, SplitDriver,
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
//! [`DriverControl`] and [`DeviceControl`] save a side and restore it, in this process or in another one. The state
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
pub use driver::{Driver, Ring};
pub use error::{AddError, NotAdded, QueueError, SetupError, UsedError, WrapCounterError};
pub use features::{Features, Status, need_event};
pub use memory::{HostMemory, RingMemory};
pub use packed::{PackedDevice, PackedDriver, PackedLayout, PackedRing};
pub use poll::{Opaque, Progress, QueuePoller, Token};
pub use save::{
    BufferState, DeviceState, DriverState, HeadState, RestoreError, RingKind, STATE_VERSION,
};
pub use split::{SplitDevice, SplitDriver, SplitLayout, SplitRing};

/// The driver side: makes buffers available and takes used buffers back.
pub trait DriverQueue {
    /// The driver's data of each buffer, which comes back with the used buffer.
    type Data;
    /// The type that distinguishes this queue's tokens from those of other queues.
    type Brand: Brand;

    /// Makes a buffer of these pieces available; the device may see it at once.
    ///
    /// # Errors
    ///
    /// If there are too few free descriptors, the pieces can never fit, or the queue is broken.
    /// Nothing has changed then, and the error holds the data.
    fn add(
        &mut self,
        readable: &[Buffer],
        writable: &[Buffer],
        data: Self::Data,
    ) -> Result<(), NotAdded<Self::Data>>;

    /// Whether the device wants to be notified of what was added since the last call.
    fn kick_prepare(&mut self) -> bool;

    /// Takes back the next buffer that the device has used.
    ///
    /// # Errors
    ///
    /// If the device wrote what it must not; the queue is broken from then on.
    fn get_used(&mut self) -> Result<Option<Used<Self::Data>>, QueueError>;

    /// Disables used buffer notifications (driver event suppression). One may still come.
    fn disable_cb(&mut self);

    /// Enables a notification of the next used buffer, and returns how far the driver has consumed.
    ///
    /// The caller passes the value to [`poll`](Self::poll), which tells whether a buffer was used before that.
    fn enable_cb_prepare<P: Progress<Self::Brand>>(&mut self) -> P;

    /// Whether anything was used or consumed since `progress` was made. False if the queue is broken.
    ///
    /// With a [`Token`] it never misses a used buffer; with an [`Opaque`] without wrap counters it can. It may be true
    /// with nothing left to consume, if the buffers were consumed since the value was made.
    fn poll<P: Progress<Self::Brand>>(&self, progress: P) -> bool;

    /// Enables a notification of the next used buffer; false if a used buffer is waiting already.
    fn enable_cb(&mut self) -> bool {
        let token: Token<_> = self.enable_cb_prepare();
        !self.poll(token)
    }

    /// Enables a notification once three quarters of the buffers in flight are used; false if more than that are
    /// used already, or, on a packed ring, if any is. True if the queue is broken, so that no caller
    /// repeats it forever.
    fn enable_cb_delayed(&mut self) -> bool;
}

/// Set-up, reset, save and restore of the driver side.
pub trait DriverControl {
    /// The driver's data of each buffer, which comes back with the used buffer.
    type Data;

    /// Makes opaque values count wraps, until the next reset.
    ///
    /// # Errors
    ///
    /// If `status`, the device's, says that there is no driver yet or that queues are live, or if
    /// the queue is broken.
    fn use_wrap_counter(&mut self, status: Status) -> Result<(), WrapCounterError>;

    /// Why the queue is broken, if it is.
    fn broken(&self) -> Option<QueueError>;

    /// How many descriptors are free; 0 if the queue is broken.
    fn free(&self) -> u16;

    /// Where the next buffer will be made available: the upper half of a notification with `VIRTIO_F_NOTIFICATION_DATA`
    /// (virtio 1.3, 2.9). On a split ring the index; on a packed one the slot, with the wrap counter in bit 15.
    fn next_avail(&self) -> u16;

    /// Takes back the data of any buffer that the device has not used. Only for a device that is stopped or a
    /// queue that is not used any more.
    fn detach_unused(&mut self) -> Option<Self::Data>;

    /// Empties the queue and drops what was in flight, after the device was reset.
    ///
    /// Notifications are on and wrap counters off, with no wraps counted. [`Token`]s from before
    /// poll true.
    fn reset(&mut self);

    /// The state of this side, without the data of the buffers in flight.
    ///
    /// # Errors
    ///
    /// If the state could not be restored, because [`detach_unused`](Self::detach_unused) has taken data and
    /// no reset has followed.
    fn save(&self) -> Result<DriverState, RestoreError>;

    /// Continues from a saved state; what was in flight before is dropped.
    ///
    /// `data` returns the data of the buffer in flight with this id. It is called once for each, in the order of
    /// [`DriverState::buffers`], after the state was checked.
    ///
    /// [`Token`]s and [`Opaque`] values from before the save give the answers that they would have given without
    /// it, as the whole position is part of the state. Values that the saved queue made after the save can poll
    /// false although a buffer was used since, because the restored queue has other buffers at the same positions.
    /// Give the restored queue a new brand, and the compiler refuses them. A [`QueuePoller`] of the saved queue does not
    /// poll the restored one.
    ///
    /// # Errors
    ///
    /// If this queue cannot have the state, or `data` returns none. The queue has not changed then.
    fn restore(
        &mut self,
        state: &DriverState,
        data: impl FnMut(u16) -> Option<Self::Data>,
    ) -> Result<(), RestoreError>;
}

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
    /// [`next_avail`](DriverControl::next_avail). Both are equal when the device has taken all that is available.
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
///     Buffer, Chain, DeviceControl, DeviceQueue, DeviceState, DriverQueue, Features, HostMemory,
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
