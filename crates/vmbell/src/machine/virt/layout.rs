//! The address map: RAM from 0, this board's devices above the most RAM, and the interrupt controllers where the backend
//! has them.

use super::{VirtConfig, VirtError};
use crate::device::virtio::mmio::Location;
use crate::machine::{MEMORY_MAX, MEMORY_MIN};

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

const PAGE: u64 = 4096;

/// Fails with [`VirtError::Size`] unless the board can have this amount of RAM. The number of vCPUs is checked by the
/// backend.
pub(super) fn check(config: VirtConfig) -> Result<(), VirtError> {
    let size = config.memory;
    if (MEMORY_MIN..=MEMORY_MAX).contains(&size) && size.is_multiple_of(PAGE) {
        return Ok(());
    }
    Err(VirtError::Size { size })
}
