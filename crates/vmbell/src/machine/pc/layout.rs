//! The address map of the PC, and the check of its amount of RAM.

use super::{PcConfig, PcError};
use crate::bus::{BusError, BusRange};
use crate::device::pci::{Window, Windows};

/// The least RAM in bytes: the first mebibyte has holes, so there must be RAM above it.
pub const MEMORY_MIN: u64 = 2 << 20;
/// The most RAM in bytes: devices are above it.
pub const MEMORY_MAX: u64 = 3 << 30;

/// The most vCPUs.
pub const VCPUS_MAX: u16 = 64;
const _: () = assert!(VCPUS_MAX as usize == stub::layout::MAX_VCPUS);

const PAGE: u64 = 4096;

/// Fails with [`PcError::Size`] unless a PC can have this amount of RAM. The number of vCPUs is checked by the
/// backend.
pub(super) fn check(config: PcConfig) -> Result<(), PcError> {
    let size = config.memory;
    if (MEMORY_MIN..=MEMORY_MAX).contains(&size) && size.is_multiple_of(PAGE) {
        return Ok(());
    }
    Err(PcError::Size { size })
}

/// The address windows for BARs: ports above those of the board, 32-bit addresses between the most RAM and the
/// interrupt controllers, and 64-bit addresses far above 4 GiB.
pub(super) fn windows() -> Result<Windows, BusError> {
    Ok(Windows {
        io: Window::new(BusRange::new(0xc000, 0x4000)?),
        memory32: Window::new(BusRange::new(0xe000_0000, 0x1e00_0000)?),
        memory64: Window::new(BusRange::new(0x10_0000_0000, 0x70_0000_0000)?),
    })
}
