//! The RAM that an image may use: it leaves out the loader's information and the firmware's tables.

use super::{ImageError, Segment};

/// Address of the information, which reaches to the end of RAM below 1 MiB.
pub(super) const INFORMATION: u32 = 0x9_0000;
/// Size of the area for the information, in bytes.
pub(super) const INFORMATION_LEN: usize = 0xfc00;
/// The end of the RAM below 1 MiB that guests may use: the BIOS's data, video memory and firmware follow in a PC.
pub(crate) const LOW_END: u64 = 0x9_fc00;
/// The address at which RAM goes on.
pub(super) const HIGH: u64 = 0x10_0000;

/// The end of what a BIOS leaves at the start of RAM.
const BIOS_DATA_END: u64 = 0x500;

/// The zeros behind a segment's bytes, as many as replace what a BIOS leaves; the rest of RAM is zero already.
pub(super) fn zeros(segment: &Segment) -> Vec<u8> {
    let last = segment
        .address
        .saturating_add(segment.len)
        .min(BIOS_DATA_END);
    let count = last.saturating_sub(segment.end().0);
    vec![0; usize::try_from(count).unwrap_or_default()]
}

/// Fails unless a segment is in RAM that an image may use.
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
