//! The address map: devices where QEMU's machine `virt` has such devices (`hw/arm/virt.c`), since images made for it write
//! to its serial port before they have read the device tree; RAM above; and the interrupt controllers where the backend
//! has them.

use vmbell_devices::virtio::mmio::Location;

/// The registers of the serial port.
pub(super) const SERIAL: u64 = 0x0900_0000;

/// The registers of the first virtio device, and how many devices there can be.
const VIRTIO: u64 = 0x0a00_0000;
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
