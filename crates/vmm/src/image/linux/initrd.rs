//! Where an initrd goes: to the end of RAM, as far from the kernel as can be.

use crate::image::ImageError;

const PAGE: u64 = 4096;

/// An initrd's place in RAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::image) struct Initrd {
    /// Guest-physical address, at a page boundary.
    pub(in crate::image) address: u64,
    /// Its size in bytes.
    pub(in crate::image) len: u64,
}

impl Initrd {
    /// The highest place for so many bytes above the kernel, whose memory ends at `kernel`, up to the end of RAM, and not
    /// above `last`.
    pub(in crate::image) fn place(
        image: &str,
        len: usize,
        kernel: u64,
        ram: u64,
        last: u64,
    ) -> Result<Self, ImageError> {
        let len = u64::try_from(len).unwrap_or(u64::MAX);
        let end = ram.min(last.saturating_add(1));
        let address = end.checked_sub(len).map(|address| address / PAGE * PAGE);
        match address.filter(|address| *address >= kernel) {
            Some(address) => Ok(Self { address, len }),
            None => Err(ImageError::Initrd {
                image: image.to_owned(),
                len,
                room: end.saturating_sub(kernel),
            }),
        }
    }
}
