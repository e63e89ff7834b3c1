//! Shared rings: split and packed virtqueues (virtio 1.3, 2.6 to 2.8), driver side and device side.
//!
//! Each side is a value that one thread owns. Both take the ring for hostile: what the other side
//! can write is read once, checked, then used; a side that finds something impossible marks its
//! queue broken with a [`QueueError`], and neither allocates nor panics over it.
//!
//! [`DriverQueue`] has the names that Linux's drivers know, [`DeviceQueue`] those of rust-vmm's
//! devices. A driver that polls remembers an [`Opaque`] or a [`Token`]: see [`Poller`] for what
//! keeps a token from being deceived when the ring's short index comes round.
//!
//! ```
//! use vmbell::virtqueue::{
//!     Buffer, Chain, DeviceQueue, DriverQueue, Features, HostMemory, SplitDevice, SplitDriver,
//!     SplitLayout, brand,
//! };
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let layout = SplitLayout::contiguous(0, 256);
//! let memory = HostMemory::new(64 << 10);
//! brand::scoped(|brand| {
//!     let mut driver = SplitDriver::new(&memory, &layout, Features::default(), brand)?;
//!     let mut device = SplitDevice::new(&memory, &layout, Features::default())?;
//!     let token = driver.enable_cb_prepare64();
//!
//!     driver.add(&[Buffer::new(0x8000, 64)], &[], "request")?;
//!     assert!(driver.kick_prepare(), "the device wants to know");
//!
//!     let mut chain = Chain::with_capacity(256);
//!     let head = device.pop(&mut chain)?.expect("it is there");
//!     assert_eq!(chain.readable()[0].len, 64);
//!     assert!(!driver.poll64(token));
//!     device.add_used(head, 0)?;
//!     assert!(driver.poll64(token) && device.needs_notification());
//!     assert_eq!(driver.get_used()?.expect("it is back").data, "request");
//!     Ok(())
//! })
//! # }
//! ```

pub mod brand;
mod buffer;
mod chain;
mod descriptor;
mod driver;
mod error;
mod features;
mod indirect;
mod memory;
mod need_event;
mod overlap;
mod packed;
mod poll;
mod slots;
mod split;
mod sync;
mod token;

pub use brand::Brand;
pub use buffer::{Buffer, Head, Used};
pub use chain::Chain;
pub use driver::Driver;
pub use error::{AddError, NotAdded, QueueError, SetupError, UsedError, WrapCounterError};
pub use features::{Features, Status};
pub use memory::{HostMemory, RingMemory};
pub use need_event::need_event;
pub use packed::{PackedDevice, PackedDriver, PackedLayout, PackedRing};
pub use poll::{PolledRing, Poller};
pub use split::{SplitDevice, SplitDriver, SplitLayout, SplitRing};
pub use token::{Opaque, Token};

/// The driver side: offers buffers and takes them back.
pub trait DriverQueue {
    /// What the driver wants back with each buffer.
    type Data;
    /// Tells this queue's tokens from others'.
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

    /// Tells the device that no notifications are wanted. One may still come.
    fn disable_cb(&mut self);

    /// Asks for a notification of the next used buffer, and remembers how far the queue is.
    ///
    /// The value is for [`poll`](Self::poll), which says whether there is something already.
    fn enable_cb_prepare(&mut self) -> Opaque<Self::Brand>;

    /// The same with a token that nothing deceives, for [`poll64`](Self::poll64).
    fn enable_cb_prepare64(&mut self) -> Token<Self::Brand>;

    /// Whether anything was used or consumed since `opaque` was made. False if the queue is broken.
    ///
    /// Without wrap counters it can miss what happened: see [`Opaque`].
    fn poll(&self, opaque: Opaque<Self::Brand>) -> bool;

    /// Whether anything was used or consumed since `token` was made. False if the queue is broken.
    ///
    /// Never misses what happened. True is possible with nothing left to consume, if somebody has
    /// consumed it meanwhile.
    fn poll64(&self, token: Token<Self::Brand>) -> bool;

    /// Asks for a notification of the next used buffer; false if one is waiting already.
    fn enable_cb(&mut self) -> bool {
        let token = self.enable_cb_prepare64();
        !self.poll64(token)
    }

    /// Asks for a notification once three quarters of the buffers in flight are used; false if
    /// more than that wait already, or any on a packed ring. True if the queue is broken, so that
    /// nobody tries for ever.
    fn enable_cb_delayed(&mut self) -> bool;
}

/// The driver side's set-up and end.
pub trait DriverControl {
    /// What the driver wants back with each buffer.
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

    /// How many descriptors are free; none of a broken queue.
    fn free(&self) -> u16;

    /// Takes back the data of some buffer that the device has not used, once it never will.
    fn detach_unused(&mut self) -> Option<Self::Data>;

    /// Empties the queue and drops what was in flight, after the device was reset.
    ///
    /// Notifications are on and wrap counters off, with no wraps counted. [`Token`]s from before
    /// poll true.
    fn reset(&mut self);
}

/// The device side: takes chains of buffers and gives them back used.
pub trait DeviceQueue {
    /// How many descriptors the queue has, and so how many a chain has at most.
    fn size(&self) -> u16;

    /// Takes the next chain and reads its descriptors into `chain`.
    ///
    /// # Errors
    ///
    /// If the driver wrote what it must not; the queue is broken from then on.
    fn pop(&mut self, chain: &mut Chain) -> Result<Option<Head>, QueueError>;

    /// Gives a chain back, with `len` bytes written to it.
    ///
    /// # Errors
    ///
    /// If the chain takes less, or if it is not this queue's turn for it. It is lost then.
    fn add_used(&mut self, head: Head, len: u32) -> Result<(), UsedError>;

    /// Gives several back at once: the driver sees all or none of them. In order, one used
    /// element stands for as many chains as it can.
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

    /// Asks to be notified of the next chain; true if one may be waiting already.
    fn enable_notification(&mut self) -> bool;

    /// Tells the driver that no notifications are wanted. One may still come.
    fn disable_notification(&mut self);
}

#[cfg(test)]
#[cfg(loom)]
#[path = "loom_test.rs"]
mod models;

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
