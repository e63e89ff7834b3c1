//! What a BIOS leaves in RAM for boot loaders and operating systems: in the BIOS data area, where the RAM below 1 MiB
//! ends and where the extended BIOS data area is; and that area itself, which is empty.

use vm_memory::{Bytes, GuestAddress, GuestMemoryError, GuestMemoryMmap};

use crate::machine::image::LOW_END;

/// The word with the segment of the extended BIOS data area.
const EXTENDED: GuestAddress = GuestAddress(0x40e);
/// The word with the size of the RAM below 1 MiB, in KiB.
const BASE_MEMORY: GuestAddress = GuestAddress(0x413);
/// Size of the extended BIOS data area in KiB, which is also its first byte.
const EXTENDED_LEN: u8 = 1;

/// Writes both areas. The extended one is directly behind the RAM that guests may use.
pub(super) fn write(memory: &GuestMemoryMmap) -> Result<(), GuestMemoryError> {
    let (segment, kibibytes) = (LOW_END >> 4, LOW_END >> 10);
    let word = |value| u16::try_from(value).unwrap_or(u16::MAX).to_le_bytes();
    memory.write_slice(&word(segment), EXTENDED)?;
    memory.write_slice(&word(kibibytes), BASE_MEMORY)?;
    memory.write_slice(&[EXTENDED_LEN], GuestAddress(LOW_END))
}
