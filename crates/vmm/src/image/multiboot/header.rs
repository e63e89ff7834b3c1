//! The Multiboot header of a file, and the addresses that it may hold (Multiboot 0.6.96, 3.1).

use crate::image::{ImageError, Segment};

const MAGIC: u32 = 0x1bad_b002;
/// The header lies within this many first bytes of the file, at a multiple of four.
pub(in crate::image) const SEARCH: usize = 8192;

const PAGE_ALIGN: u32 = 1 << 0;
const MEMORY_INFO: u32 = 1 << 1;
const VIDEO: u32 = 1 << 2;
const ADDRESSES: u32 = 1 << 16;
/// The bits that a loader must refuse if it does not know them.
const REQUIRED: u32 = 0xffff;

/// A header with the right checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::image) struct Header {
    /// Its offset in the file, in bytes.
    offset: usize,
    flags: u32,
    addresses: Option<Addresses>,
}

/// The addresses at which a flat file is loaded, as the header has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::image) struct Addresses {
    offset: usize,
    header: u32,
    load: u32,
    load_end: u32,
    bss_end: u32,
    entry: u32,
}

impl Header {
    /// The first header in a file.
    pub(in crate::image) fn find(bytes: &[u8]) -> Option<Self> {
        (0..SEARCH.min(bytes.len()))
            .step_by(4)
            .find_map(|offset| Self::at(bytes, offset))
    }

    fn at(bytes: &[u8], offset: usize) -> Option<Self> {
        let word = |index: usize| {
            let at = offset.checked_add(4 * index)?;
            let end = at.checked_add(4).filter(|end| *end <= SEARCH)?;
            let bytes = bytes.get(at..end)?;
            Some(u32::from_le_bytes(bytes.try_into().ok()?))
        };
        let (magic, flags, checksum) = (word(0)?, word(1)?, word(2)?);
        if magic != MAGIC || magic.wrapping_add(flags).wrapping_add(checksum) != 0 {
            return None;
        }
        let addresses = if flags & ADDRESSES == 0 {
            None
        } else {
            Some(Addresses {
                offset,
                header: word(3)?,
                load: word(4)?,
                load_end: word(5)?,
                bss_end: word(6)?,
                entry: word(7)?,
            })
        };
        Some(Self {
            offset,
            flags,
            addresses,
        })
    }

    /// Whether modules must begin at page boundaries.
    pub(super) const fn aligns_modules(self) -> bool {
        self.flags & PAGE_ALIGN != 0
    }

    /// Fails if the header requires what this loader cannot do. Returns the addresses, if the header has them.
    pub(super) fn check(self, image: &str) -> Result<Option<Addresses>, ImageError> {
        let refuse = |what, bits| {
            Err(ImageError::Requirement {
                image: image.to_owned(),
                what,
                bits,
            })
        };
        if self.flags & VIDEO != 0 {
            return refuse("a video mode", VIDEO);
        }
        let unknown = self.flags & REQUIRED & !(PAGE_ALIGN | MEMORY_INFO);
        if unknown != 0 {
            return refuse("something that multiboot 1 does not define", unknown);
        }
        Ok(self.addresses)
    }
}

impl Addresses {
    /// The single segment of a flat file of so many bytes, and its entry point.
    pub(super) fn segments(
        self,
        image: &str,
        file: u64,
    ) -> Result<(Vec<Segment>, u32), ImageError> {
        let wrong = |what| ImageError::Addresses {
            image: image.to_owned(),
            what,
        };
        // The header itself is at `header` in memory, so the distance from the first loaded byte to the header
        // is the same in the file as in memory.
        let before = self.header.checked_sub(self.load);
        let before = before.ok_or_else(|| wrong("load_addr is above header_addr"))?;
        let start = usize::try_from(before)
            .ok()
            .and_then(|before| self.offset.checked_sub(before));
        let start = start.ok_or_else(|| wrong("load_addr is before the start of the file"))?;
        let start = start as u64;
        let end = match self.load_end.checked_sub(self.load) {
            _ if self.load_end == 0 => file,
            None => return Err(wrong("load_end_addr is below load_addr")),
            Some(len) => start.saturating_add(len.into()),
        };
        if end > file || start > end {
            return Err(wrong("load_end_addr is behind the end of the file"));
        }
        let loaded = end - start;
        let len = match self.bss_end.checked_sub(self.load) {
            _ if self.bss_end == 0 => loaded,
            Some(len) if u64::from(len) >= loaded => len.into(),
            _ => return Err(wrong("bss_end_addr is below the end of what is loaded")),
        };
        let entry = u64::from(self.entry);
        let first = u64::from(self.load);
        if !(first..first + len).contains(&entry) {
            let image = image.to_owned();
            return Err(ImageError::Entry { image, entry });
        }
        let segment = Segment {
            address: first,
            len,
            file: start..end,
        };
        Ok((vec![segment], self.entry))
    }
}
