//! Virtqueues: split and packed rings (virtio 1.3, 2.6 to 2.8), driver side and device side.
//!
//! Each side is a value that one thread owns. Both treat the ring as hostile: a value that the other side can write is
//! read once, checked, and then used. A side that finds an impossible value marks its queue broken with a
//! [`QueueError`], and neither side allocates memory or panics because of such a value.
//!
//! The methods of [`Driver`] have the names of Linux's virtqueue functions, and the methods of [`DeviceQueue`] have the
//! names that rust-vmm uses. A driver that polls keeps an [`Opaque`] or a [`Token`], which wrap after different numbers
//! of buffers; a [`QueuePoller`] polls from another thread.
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
//! [`Driver::save`] and [`DeviceControl`] save a side and `restore` it, in this process or in another. The state
//! ([`DriverState`], [`DeviceState`]) is a value with public fields; with the feature `serde` it can be serialized. The
//! state does not include what is in memory: the ring, with both sides' event suppression, and indirect tables. The
//! caller saves the memory at the same time, while neither side runs. A restored side behaves as the saved side would
//! have. A state may come from an untrusted source: it is restored completely, or restoring fails with a
//! [`RestoreError`] and changes nothing.
//!
//! A state does not include pending notifications: a kick may be in the counter of an ioeventfd, and an interrupt in
//! the counter of an irqfd or in the interrupt controller. A VMM that resumes a guest signals each queue's doorbell and
//! raises each queue's interrupt once. This is always safe, because each side checks the ring for work. To avoid the
//! extra notifications, a VMM must save both counters along with the queue.

pub mod brand;
mod descriptor;
mod device;
mod driver;
mod error;
mod features;
mod hint;
mod indirect;
mod memory;
mod packed;
mod poll;
mod ring;
mod save;
mod slots;
mod split;
mod sync;

pub use brand::Brand;
pub use descriptor::{Buffer, Chain, Head, Used};
pub use device::{DeviceControl, DeviceQueue};
pub use driver::{Driver, Side};
pub use error::{AddError, NotAdded, QueueError, SetupError, UsedError, WrapCounterError};
pub use features::{Features, Status, need_event};
pub use memory::{HostMemory, RingMemory};
pub use packed::{PackedDevice, PackedDriver, PackedLayout, PackedRing, PackedSide};
pub use poll::{Opaque, Progress, QueuePoller, Token};
pub use ring::Ring;
pub use save::{
    BufferState, DeviceState, DriverState, HeadState, RestoreError, RingKind, STATE_VERSION,
};
pub use split::{SplitDevice, SplitDriver, SplitLayout, SplitRing, SplitSide};

#[cfg(test)]
#[cfg(loom)]
#[path = "loom_test.rs"]
mod models;

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
