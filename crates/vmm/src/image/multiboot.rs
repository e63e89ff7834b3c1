//! Images for a Multiboot 1 loader (Multiboot 0.6.96): ELFs, and flat files whose header has their addresses.
//!
//! The header of a file has flags and addresses (3.1). The information that an image gets is memory, command line and
//! modules (3.3).

use object::ReadRef;
use vm_memory::GuestMemoryMmap;

use super::error::ImageErrorKind;
use super::{BootFile, Parsed, Protocol, RamEnd, elf, len};
use crate::image::low_memory::{Area, HIGH, LOW_END, memory_map};
use crate::image::{Boot, Module, Segment};

/// The value that the loader leaves in EAX (Multiboot 0.6.96, 3.2).
pub(super) const LOADER_MAGIC: u32 = 0x2bad_b002;

/// Checks an image with this header.
pub(super) fn parse<'d>(
    header: Header,
    head: &[u8],
    contents: impl ReadRef<'d>,
) -> Result<Parsed, ImageErrorKind> {
    let (segments, entry) = match header.check()? {
        Some(addresses) => addresses.segments(len(contents))?,
        None if elf::is_elf(head) => elf::segments(contents)?,
        None => return Err(ImageErrorKind::NotElf),
    };
    Ok(Parsed {
        segments,
        entry,
        protocol: Protocol::Multiboot,
    })
}

const MAGIC: u32 = 0x1bad_b002;
/// The header is in this number of bytes at the start of the file, at a multiple of four.
pub(in crate::image) const SEARCH: usize = 8192;

const PAGE_ALIGN: u32 = 1 << 0;
const MEMORY_INFO: u32 = 1 << 1;
/// The image prefers a video mode. This machine has no video, and the information leaves it out, as in QEMU.
const VIDEO: u32 = 1 << 2;
const ADDRESSES: u32 = 1 << 16;
/// The bits that a loader must refuse if it does not know them.
const REQUIRED: u32 = 0xffff;

/// A header with the right checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::image) struct Header {
    /// The header's offset in the file, in bytes.
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

    /// Fails if the header requires something that no loader has. Returns the addresses, if the header has them.
    pub(super) fn check(self) -> Result<Option<Addresses>, ImageErrorKind> {
        let bits = self.flags & REQUIRED & !(PAGE_ALIGN | MEMORY_INFO | VIDEO);
        if bits != 0 {
            return Err(ImageErrorKind::Requirement { bits });
        }
        Ok(self.addresses)
    }
}

impl Addresses {
    /// The single segment of a flat file of this length, and its entry point.
    pub(super) fn segments(self, file: u64) -> Result<(Vec<Segment>, u32), ImageErrorKind> {
        let wrong = ImageErrorKind::Addresses;
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
            return Err(ImageErrorKind::Entry { entry });
        }
        let segment = Segment {
            address: first,
            len,
            file: start..end,
        };
        Ok((vec![segment], self.entry))
    }
}

const PAGE: u64 = 4096;
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

/// A module in memory.
pub(in crate::image) struct Loaded<'b> {
    command_line: &'b str,
    address: u64,
    len: u64,
}

/// Copies each module to a page boundary in RAM above the image, which ends at `end`. RAM below belongs to the image,
/// or has no room for modules.
pub(in crate::image) fn load_modules<'b>(
    memory: &GuestMemoryMmap,
    ram: RamEnd,
    boot: &'b Boot,
    end: u64,
) -> Result<Vec<Loaded<'b>>, ImageErrorKind> {
    let environment = boot.environment.iter().map(|file| ("", file));
    let with_arguments = |Module { command_line, file }: &'b Module| (&**command_line, file);
    let mut free = end.max(HIGH);
    let load = |(command_line, file): (&'b str, &BootFile)| {
        let address = free.next_multiple_of(PAGE);
        let len = file.len();
        free = address.saturating_add(len);
        let name = format!("module {}", file.name());
        if free > ram.now {
            return Err(ram.no_room(name, len, (address, u64::MAX)));
        }
        file.copy(&name, memory, address)?;
        Ok(Loaded {
            command_line,
            address,
            len,
        })
    };
    environment
        .chain(boot.modules.iter().map(with_arguments))
        .map(load)
        .collect()
}

/// The bytes to be written at [`super::low_memory::INFORMATION`], for a machine whose RAM ends at `ram`.
pub(in crate::image) fn information(
    image: &str,
    boot: &Boot,
    ram: u64,
    modules: &[Loaded<'_>],
) -> Result<Vec<u8>, ImageErrorKind> {
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
    if !modules.is_empty() {
        flags |= HAS_MODULES;
        let mut entries = Vec::new();
        for module in modules {
            let text = area.push_text(module.command_line);
            let end = module.address.saturating_add(module.len);
            let words = [low(module.address), low(end), text, 0];
            entries.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        }
        let at = area.push(&entries, 4);
        set(
            &mut area,
            20,
            u32::try_from(modules.len()).unwrap_or(u32::MAX),
        );
        set(&mut area, 24, at);
    }
    set(&mut area, 0, flags);
    area.finish()
}

fn set(area: &mut Area, at: usize, value: u32) {
    area.set(at, &value.to_le_bytes());
}

fn kibibytes(bytes: u64) -> u32 {
    low(bytes >> 10)
}

/// Narrows an address or a number that is below 4 GiB, as all RAM is.
fn low(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

fn map_entries(ram: u64) -> Vec<u8> {
    let mut map = Vec::new();
    for (base, len, usage) in memory_map(ram) {
        // The length of the entry without this length field.
        map.extend(20_u32.to_le_bytes());
        map.extend(base.to_le_bytes());
        map.extend(len.to_le_bytes());
        map.extend((usage as u32).to_le_bytes());
    }
    map
}
