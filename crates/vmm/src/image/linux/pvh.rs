//! PVH: the entry point in a note of the ELF, and the start information that it finds in EBX (Xen
//! `docs/misc/pvh.pandoc` and `xen/include/public/arch-x86/hvm/start_info.h`).

use object::elf::{FileHeader32, FileHeader64, PT_NOTE};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, ReadRef};
use vmbell_devices::ACPI_BASE;

use super::Initrd;
use crate::image::low_memory::{Area, memory_map};
use crate::image::{Boot, ImageError, Parsed, Protocol, Segment, elf};

/// The name and the type of the note with the entry point (`XEN_ELFNOTE_PHYS32_ENTRY`).
const NOTE_NAME: &[u8] = b"Xen";
const NOTE_TYPE: u32 = 18;

const MAGIC: u32 = 0x336e_c578;
/// The version that has a memory map.
const VERSION: u32 = 1;
/// Sizes in bytes: of the information, and of an entry of its list of modules.
const FIXED: usize = 56;
const MODULE: usize = 32;

/// Checks an ELF whose notes have the entry point.
pub(in crate::image) fn parse<'d>(
    image: &str,
    contents: impl ReadRef<'d>,
) -> Result<Parsed, ImageError> {
    let segments = elf::load_segments(image, contents)?;
    let entry = match object::FileKind::parse(contents) {
        Ok(object::FileKind::Elf64) => find::<FileHeader64<Endianness>, _>(image, contents)?,
        _ => find::<FileHeader32<Endianness>, _>(image, contents)?,
    };
    let Some(entry) = entry else {
        return Err(ImageError::NoEntryProtocol {
            image: image.to_owned(),
        });
    };
    let inside = |segment: &Segment| {
        let first = segment.address;
        (first..first.saturating_add(segment.len)).contains(&entry.into())
    };
    if !segments.iter().any(inside) {
        return Err(ImageError::Entry {
            image: image.to_owned(),
            entry: entry.into(),
        });
    }
    Ok(Parsed {
        segments,
        entry,
        protocol: Protocol::Pvh,
    })
}

/// The entry point, if a note has one.
fn find<'d, Elf: FileHeader<Endian = Endianness>, R: ReadRef<'d>>(
    image: &str,
    contents: R,
) -> Result<Option<u32>, ImageError> {
    let broken = |source| ImageError::Elf {
        image: image.to_owned(),
        source,
    };
    let header = Elf::parse(contents).map_err(broken)?;
    let endian = header.endian().map_err(broken)?;
    for program in header.program_headers(endian, contents).map_err(broken)? {
        if program.p_type(endian) != PT_NOTE {
            continue;
        }
        let Some(mut notes) = program.notes(endian, contents).map_err(broken)? else {
            continue;
        };
        while let Some(note) = notes.next().map_err(broken)? {
            if note.name() == NOTE_NAME && note.n_type(endian).0 == NOTE_TYPE {
                let entry = note.desc().first_chunk::<4>();
                return Ok(entry.map(|entry| u32::from_le_bytes(*entry)));
            }
        }
    }
    Ok(None)
}

/// The bytes of the start information, with what it points to, for a machine whose RAM ends at `ram`.
pub(in crate::image) fn start_info(
    image: &str,
    boot: &Boot,
    ram: u64,
    initrd: Option<Initrd>,
) -> Result<Vec<u8>, ImageError> {
    let mut area = Area::with(FIXED);
    let mut modules = 0;
    if let Some(Initrd { address, len }) = initrd {
        let mut entry = [0; MODULE];
        entry[..8].copy_from_slice(&address.to_le_bytes());
        entry[8..16].copy_from_slice(&len.to_le_bytes());
        modules = area.push(&entry, 8);
    }
    let map = memory_map(ram);
    let entries: Vec<u8> = map
        .iter()
        .flat_map(|(base, len, usage)| [*base, *len, *usage as u64].map(u64::to_le_bytes).concat())
        .collect();
    let entries = area.push(&entries, 8);
    let command = area.push_text(&boot.arguments);
    let map_len = u32::try_from(map.len()).unwrap_or(u32::MAX);
    for (at, value) in [
        (0, MAGIC),
        (4, VERSION),
        (12, u32::from(initrd.is_some())),
        (16, modules),
        (24, command),
        (32, ACPI_BASE),
        (40, entries),
        (48, map_len),
    ] {
        area.set(at, &value.to_le_bytes());
    }
    area.finish(image)
}
