//! What a device's file can do: the interface of VFIO devices (Linux `uapi/linux/vfio.h`), implemented by the kernel
//! or by a device of a test.

use std::fmt;
use std::fs::File;
use std::io;
use std::sync::Arc;

use vmbell::eventfd::EventFd;

/// The file of a device. Its answers are not to be trusted: [`Device`](super::Device) checks them. Any thread may use
/// it.
pub trait DeviceFile: Send + Sync + fmt::Debug {
    /// VFIO_DEVICE_GET_INFO.
    fn info(&self) -> io::Result<DeviceInfo>;

    /// VFIO_DEVICE_GET_REGION_INFO with room for `room` bytes; the answer has at most `room` bytes, and its first word
    /// is the number of bytes that it needs.
    fn region_info(&self, index: u32, room: usize) -> io::Result<Vec<u8>>;

    /// VFIO_DEVICE_GET_IRQ_INFO: flags and count.
    fn irq_info(&self, index: u32) -> io::Result<(u32, u32)>;

    /// VFIO_DEVICE_SET_IRQS.
    fn set_irqs(&self, request: &SetIrqs<'_>) -> io::Result<()>;

    /// Reads at an offset of the file.
    fn read(&self, offset: u64, data: &mut [u8]) -> io::Result<()>;

    /// Writes at an offset of the file.
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()>;

    /// VFIO_DEVICE_RESET.
    fn reset(&self) -> io::Result<()>;

    /// The file whose parts are mapped: offsets of regions are offsets in it.
    fn mappable(&self) -> Arc<File>;
}

/// What a device reports about itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceInfo {
    /// VFIO_DEVICE_FLAGS_*: the device's bus, and whether the device can be reset.
    pub flags: u32,
    /// How many regions there are.
    pub regions: u32,
    /// How many interrupt indexes there are.
    pub irqs: u32,
}

/// A request about the interrupts of one index.
#[derive(Clone, Copy, Debug)]
pub struct SetIrqs<'f> {
    /// The index.
    pub index: u32,
    /// The first interrupt.
    pub start: u32,
    /// What to do.
    pub action: Action,
    /// The interrupts, and their eventfds.
    pub data: Data<'f>,
}

/// What is done with interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The interrupts are masked.
    Mask,
    /// The interrupts are unmasked.
    Unmask,
    /// The interrupts are signalled, or get the eventfds that they signal.
    Trigger,
}

/// The interrupts of a request.
#[derive(Clone, Copy, Debug)]
pub enum Data<'f> {
    /// This number of interrupts, without data. A trigger of 0 interrupts disables the index.
    None(u32),
    /// One interrupt for each eventfd. `None` removes the eventfd.
    Eventfds(&'f [Option<&'f EventFd>]),
}
