//! Images for a Multiboot 1 loader (Multiboot 0.6.96): ELFs, and flat files whose header has their addresses.
//!
//! The header of a file has flags and addresses (3.1). The information that an image gets is memory, command line and one
//! module (3.3).

use object::ReadRef;

use super::{ImageError, Parsed, Protocol, elf, len};
use crate::image::low_memory::{self, Area, HIGH, LOW_END, memory_map};
use crate::image::{Boot, Segment};

/// The value that the loader leaves in EAX (Multiboot 0.6.96, 3.2).
pub(super) const LOADER_MAGIC: u32 = 0x2bad_b002;

/// Checks an image with this header.
pub(super) fn parse<'d>(
    header: Header,
    image: &str,
    head: &[u8],
    contents: impl ReadRef<'d>,
) -> Result<Parsed, ImageError> {
    let (segments, entry) = match header.check(image)? {
        Some(addresses) => addresses.segments(image, len(contents))?,
        None if elf::is_elf(head) => elf::segments(image, contents)?,
        None => {
            return Err(ImageError::NotElf {
                image: image.to_owned(),
            });
        }
    };
    Ok(Parsed {
        segments,
        entry,
        protocol: Protocol::Multiboot {
            align_modules: header.aligns_modules(),
        },
    })
}

const MAGIC: u32 = 0x1bad_b002;
/// The header is within this many first bytes of the file, at a multiple of four.
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
    const fn aligns_modules(self) -> bool {
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
    /// The single segment of a flat file of this length, and its entry point.
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
            return Err(wrong("load_end_addr is after the end of the file"));
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

const PAGE: usize = 4096;
const LOADER: &str = "vmbell";

const HAS_MEMORY: u32 = 1 << 0;
const HAS_COMMAND_LINE: u32 = 1 << 2;
const HAS_MODULES: u32 = 1 << 3;
const HAS_MEMORY_MAP: u32 = 1 << 6;
const HAS_LOADER_NAME: u32 = 1 << 9;

/// Size of the information's fixed part in bytes, up to and including the loader's name.
const FIXED: usize = 68;

/// The command line: the image's file name, which guests take as `argv[0]`, and the arguments.
fn command_line(image: &str, arguments: &str) -> String {
    let name = image.rsplit('/').next().unwrap_or(image);
    // A space would split the name into two arguments.
    let name = name.replace(char::is_whitespace, "_");
    format!("{name} {arguments}").trim_end().replace('\0', " ")
}

/// The bytes to be written at [`low_memory::INFORMATION`], for a machine whose RAM ends at `ram`.
pub(in crate::image) fn information(
    image: &str,
    boot: &Boot,
    ram: u64,
    align_modules: bool,
) -> Result<Vec<u8>, ImageError> {
    let mut area = Area::with(FIXED);
    let mut flags = HAS_MEMORY | HAS_COMMAND_LINE | HAS_MEMORY_MAP | HAS_LOADER_NAME;
    set(&mut area, 4, kibibytes(LOW_END));
    // The memory from 1 MiB on. kvm-unit-tests takes this value as the end of RAM and so does not use the last
    // mebibyte; read as the specification says, it is all of the RAM above 1 MiB.
    set(&mut area, 8, kibibytes(ram.saturating_sub(HIGH)));
    let command = area.push_text(&command_line(image, &boot.arguments));
    set(&mut area, 16, command);
    let map = map_entries(ram);
    let at = area.push(&map, 4);
    set(&mut area, 44, u32::try_from(map.len()).unwrap_or(u32::MAX));
    set(&mut area, 48, at);
    let name = area.push_text(LOADER);
    set(&mut area, 64, name);
    if let Some(module) = &boot.environment {
        let module = module.bytes()?;
        flags |= HAS_MODULES;
        let entry = area.push(&[0; 16], 4);
        let first = area.push(&module, if align_modules { PAGE } else { 16 });
        let len = u32::try_from(module.len()).unwrap_or(u32::MAX);
        let entry_at = (entry - low_memory::INFORMATION) as usize;
        set(&mut area, entry_at, first);
        set(&mut area, entry_at + 4, first.saturating_add(len));
        set(&mut area, 20, 1);
        set(&mut area, 24, entry);
    }
    set(&mut area, 0, flags);
    area.finish(image)
}

fn set(area: &mut Area, at: usize, value: u32) {
    area.set(at, &value.to_le_bytes());
}

fn kibibytes(bytes: u64) -> u32 {
    u32::try_from(bytes >> 10).unwrap_or(u32::MAX)
}

fn map_entries(ram: u64) -> Vec<u8> {
    let mut map = Vec::new();
    for (base, len, usage) in memory_map(ram) {
        // The length of the entry without this field.
        map.extend(20_u32.to_le_bytes());
        map.extend(base.to_le_bytes());
        map.extend(len.to_le_bytes());
        map.extend((usage as u32).to_le_bytes());
    }
    map
}
