//! The address map: RAM from 0, this board's devices above the most RAM, and the interrupt controllers where the backend
//! has them.

use crate::device::virtio::mmio::Location;

/// The device tree, below the kernel. It may be no larger than the room up to the kernel.
pub(super) const TREE: u64 = 0x10_0000;
pub(super) const TREE_LEN: usize = 0x10_0000;

/// The registers of the serial port.
pub(super) const SERIAL: u64 = 0xc000_0000;

/// The registers of the first virtio device, and how many devices there can be.
const VIRTIO: u64 = 0xc001_0000;
pub(super) const VIRTIO_MAX: u32 = 32;
/// The GSI of the first of them.
const VIRTIO_GSI: u32 = 16;

/// Where a virtio device is.
pub(super) const fn virtio(index: u32) -> Location {
    Location {
        address: VIRTIO + Location::LEN * index as u64,
        gsi: VIRTIO_GSI + index,
    }
}
