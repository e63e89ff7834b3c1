//! The two traits of a device side, the same for both kinds of ring: [`DeviceQueue`] takes chains and gives them back,
//! and [`DeviceControl`] saves and restores the side. The thread that owns the side calls them.

use super::descriptor::{Chain, Head};
use super::error::{QueueError, UsedError};
use super::save::{DeviceState, RestoreError};

/// The device side: takes available descriptor chains and returns them as used.
pub trait DeviceQueue {
    /// How many descriptors the queue has, which is also the limit of a chain.
    fn size(&self) -> u16;

    /// Takes the next chain and reads its descriptors into `chain`.
    ///
    /// # Errors
    ///
    /// If the driver wrote invalid values; the queue is broken from then on.
    fn pop(&mut self, chain: &mut Chain) -> Result<Option<Head>, QueueError>;

    /// The position where the next chain will be taken, in the format of the driver's
    /// [`next_avail`](super::Driver::next_avail). The two are equal when the device has taken all available chains.
    fn next_avail(&self) -> u16;

    /// Gives a chain back, with `len` bytes written to it.
    ///
    /// # Errors
    ///
    /// If `len` is more than the chain's writable bytes, or the chain is not the next in order, or not from this queue.
    /// The chain is then lost.
    fn add_used(&mut self, head: Head, len: u32) -> Result<(), UsedError>;

    /// Gives several chains back at once: the driver sees either all of them or none. With `VIRTIO_F_IN_ORDER`, one
    /// used element covers as many chains as possible (virtio 1.3, 2.7.9).
    ///
    /// # Errors
    ///
    /// As for [`add_used`](Self::add_used); the chains before the bad one are given back.
    fn add_used_batch(
        &mut self,
        chains: impl IntoIterator<Item = (Head, u32)>,
    ) -> Result<(), UsedError>;

    /// Returns whether the driver wants a notification for the chains given back since the last call.
    fn needs_notification(&mut self) -> bool;

    /// Enables a notification of the next available chain; returns true if a chain may be waiting already.
    fn enable_notification(&mut self) -> bool;

    /// Disables available buffer notifications (device event suppression). One notification may still come.
    fn disable_notification(&mut self);
}

/// Saves and restores the device side.
///
/// ```
/// use vmbell_virtqueue::{
///     Buffer, Chain, DeviceControl, DeviceQueue, Features, HostMemory, SplitDevice,
///     SplitDriver, SplitLayout, brand,
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
///     let state = device.save([&head])?;
///
///     // Later, with the same contents of the memory:
///     let mut device = SplitDevice::new(&memory, &layout, features)?;
///     let mut heads = device.restore(&state)?;
///     device.add_used(heads.remove(0), 0)?;
///     assert!(device.needs_notification());
///     assert_eq!(driver.get_used()?.expect("it is back").data, "request");
///     Ok(())
/// })
/// # }
/// ```
pub trait DeviceControl {
    /// Saves the state of this side. `heads` are all chains that were taken and not given back; a chain that is missing
    /// from them is lost to the driver.
    ///
    /// # Errors
    ///
    /// If the state could not be restored, because some of the `heads` are not from this queue.
    fn save<'h>(
        &self,
        heads: impl IntoIterator<Item = &'h Head>,
    ) -> Result<DeviceState, RestoreError>;

    /// Continues from a saved state; returns the chains that were saved with it, in the same order.
    ///
    /// The buffers of a [`Chain`] are not part of a state. A device that still needs them saves them itself.
    ///
    /// # Errors
    ///
    /// If the state does not fit this queue. The queue is then unchanged.
    fn restore(&mut self, state: &DeviceState) -> Result<Vec<Head>, RestoreError>;
}
