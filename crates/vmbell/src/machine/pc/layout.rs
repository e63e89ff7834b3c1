//! Where things are on the PC.

use super::{PcConfig, PcError};
use crate::bus::{BusError, BusRange};
use crate::device::pci::{Window, Windows};

/// The least RAM: the first mebibyte has holes, and something has to be above it.
pub const MEMORY_MIN: u64 = 2 << 20;
/// The most RAM: devices are above.
pub const MEMORY_MAX: u64 = 3 << 30;

const PAGE: u64 = 4096;

/// Whether a PC can be made like this; how many vCPUs there can be is up to the backend.
pub(super) fn check(config: PcConfig) -> Result<(), PcError> {
    let size = config.memory;
    if (MEMORY_MIN..=MEMORY_MAX).contains(&size) && size.is_multiple_of(PAGE) {
        return Ok(());
    }
    Err(PcError::Size { size })
}

/// The addresses that BARs are assigned from: above the ports of the board, above the most RAM and
/// below the interrupt controllers, and far above 4 GiB.
pub(super) fn windows() -> Result<Windows, BusError> {
    Ok(Windows {
        io: Window::new(BusRange::new(0xc000, 0x4000)?),
        memory32: Window::new(BusRange::new(0xe000_0000, 0x1e00_0000)?),
        memory64: Window::new(BusRange::new(0x10_0000_0000, 0x70_0000_0000)?),
    })
}
