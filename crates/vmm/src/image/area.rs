//! The area below 1 MiB for what a loader tells an image: its information, its command line and its memory map.

use super::ImageError;
use super::place::{self, HIGH, INFORMATION_LEN, LOW_END};

/// The bytes of the area, from its address on.
pub(super) struct Area(Vec<u8>);

impl Area {
    /// An area that begins with so many zeros.
    pub(super) fn with(len: usize) -> Self {
        Self(vec![0; len])
    }

    /// Appends `bytes` at a multiple of `alignment` and returns their guest-physical address.
    pub(super) fn push(&mut self, bytes: &[u8], alignment: usize) -> u32 {
        self.0.resize(self.0.len().next_multiple_of(alignment), 0);
        let offset = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        self.0.extend(bytes);
        place::INFORMATION.saturating_add(offset)
    }

    /// Appends a text with a zero behind it and returns its guest-physical address. It ends at the first zero of its own.
    pub(super) fn push_text(&mut self, text: &str) -> u32 {
        let mut bytes = text.as_bytes().to_vec();
        bytes.push(0);
        self.push(&bytes, 4)
    }

    /// Replaces the bytes at an offset in the area.
    pub(super) fn set(&mut self, at: usize, bytes: &[u8]) {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// The bytes, if there is room for them.
    pub(super) fn finish(self, image: &str) -> Result<Vec<u8>, ImageError> {
        let Self(bytes) = self;
        if bytes.len() > INFORMATION_LEN {
            return Err(ImageError::Information {
                image: image.to_owned(),
                needed: bytes.len(),
                room: INFORMATION_LEN,
            });
        }
        Ok(bytes)
    }
}

/// What is in a range of addresses. The values are those of the BIOS's memory map, which all loaders use (ACPI 6.5, 15).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Usage {
    Available = 1,
    Reserved = 2,
}

/// The memory map, first address and length of each range: RAM below the BIOS's data, the hole up to 1 MiB, and the RAM
/// above.
pub(super) const fn memory_map(ram: u64) -> [(u64, u64, Usage); 3] {
    [
        (0, LOW_END, Usage::Available),
        (LOW_END, HIGH - LOW_END, Usage::Reserved),
        (HIGH, ram.saturating_sub(HIGH), Usage::Available),
    ]
}
