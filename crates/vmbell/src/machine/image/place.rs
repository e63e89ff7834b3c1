//! Which RAM an image may take: not where the loader's information and the firmware's tables are.

use super::{ImageError, Segment};

/// Where the information begins; it ends where RAM below 1 MiB does.
pub(super) const INFORMATION: u32 = 0x9_0000;
/// Bytes for it.
pub(super) const INFORMATION_LEN: usize = 0x1_0000;
/// Where low RAM ends: from here on a PC has video memory and firmware.
pub(super) const LOW_END: u64 = 0xa_0000;
/// Where the rest of RAM begins.
pub(super) const HIGH: u64 = 0x10_0000;

/// Whether a segment is in RAM that is free.
pub(super) fn check(image: &str, segment: &Segment, ram: u64) -> Result<(), ImageError> {
    let (first, len) = (segment.address, segment.len);
    let end = first.saturating_add(len);
    if end > ram {
        return Err(ImageError::TooLarge {
            image: image.to_owned(),
            end,
            ram,
        });
    }
    if end > u64::from(INFORMATION) && first < HIGH {
        return Err(ImageError::Outside {
            image: image.to_owned(),
            first,
            last: end.saturating_sub(1),
            low: INFORMATION.into(),
        });
    }
    Ok(())
}
