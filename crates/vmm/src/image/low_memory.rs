//! Memory below and around 1 MiB as an image finds it: the RAM that the image may use, and the area for the loader's
//! information. The loader's information and the firmware's tables are not part of that RAM.
//!
//! The loader puts an image's information, command line and memory map into that area.

use super::error::ImageErrorKind;
use super::{RamEnd, Segment};

/// Address of the area for the information, which reaches to the end of RAM below 1 MiB.
pub(super) const INFORMATION: u32 = 0x9_0000;
/// Size of the area for the information, in bytes.
const INFORMATION_LEN: usize = 0xfc00;
/// The end of the RAM below 1 MiB that guests may use: the BIOS's data, video memory and firmware follow in a PC.
pub(crate) const LOW_END: u64 = 0x9_fc00;
/// The address at which RAM continues.
pub(super) const HIGH: u64 = 0x10_0000;

/// The end of what a BIOS leaves at the start of RAM.
const BIOS_DATA_END: u64 = 0x500;

/// Returns the zeros to write after a segment's bytes, over what a BIOS leaves; the rest of RAM is zero already.
pub(super) fn zeros(segment: &Segment) -> Vec<u8> {
    let last = segment
        .address
        .saturating_add(segment.len)
        .min(BIOS_DATA_END);
    let count = last.saturating_sub(segment.end().0);
    vec![0; usize::try_from(count).unwrap_or_default()]
}

/// Fails unless a segment is in RAM that an image may use.
pub(super) fn check(segment: &Segment, ram: RamEnd) -> Result<(), ImageErrorKind> {
    let (first, len) = (segment.address, segment.len);
    let end = first.saturating_add(len);
    ram.check(0, end)?;
    if end > u64::from(INFORMATION) && first < HIGH {
        return Err(ImageErrorKind::Outside {
            first,
            last: end.saturating_sub(1),
            low: INFORMATION.into(),
        });
    }
    Ok(())
}

/// The bytes of the area, from its address on.
pub(super) struct Area(Vec<u8>);

impl Area {
    /// An area that begins with `len` zeros.
    pub(super) fn with(len: usize) -> Self {
        Self(vec![0; len])
    }

    /// Appends `bytes` at a multiple of `alignment` and returns their guest-physical address.
    pub(super) fn push(&mut self, bytes: &[u8], alignment: usize) -> u32 {
        self.0.resize(self.0.len().next_multiple_of(alignment), 0);
        let offset = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        self.0.extend(bytes);
        INFORMATION.saturating_add(offset)
    }

    /// Appends a text with a zero after it and returns its guest-physical address. The text ends at its first zero.
    pub(super) fn push_text(&mut self, text: &str) -> u32 {
        let mut bytes = text.as_bytes().to_vec();
        bytes.push(0);
        self.push(&bytes, 4)
    }

    /// Replaces the bytes at an offset in the area.
    pub(super) fn set(&mut self, at: usize, bytes: &[u8]) {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Returns the bytes. Fails if the area has no room for them.
    pub(super) fn finish(self) -> Result<Vec<u8>, ImageErrorKind> {
        let Self(bytes) = self;
        if bytes.len() > INFORMATION_LEN {
            return Err(ImageErrorKind::Information {
                needed: bytes.len(),
                room: INFORMATION_LEN,
            });
        }
        Ok(bytes)
    }
}

/// What is in a range of addresses. The values are from the BIOS's memory map, and all loaders use them (ACPI 6.5, 15).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Usage {
    Available = 1,
    Reserved = 2,
}

/// The memory map, with the first address and length of each range: RAM below the BIOS's data, the hole up to 1 MiB,
/// and the RAM above.
pub(super) const fn memory_map(ram: u64) -> [(u64, u64, Usage); 3] {
    [
        (0, LOW_END, Usage::Available),
        (LOW_END, HIGH - LOW_END, Usage::Reserved),
        (HIGH, ram.saturating_sub(HIGH), Usage::Available),
    ]
}
