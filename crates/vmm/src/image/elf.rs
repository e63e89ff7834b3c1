//! Reads the segments of a 32-bit or 64-bit ELF whose addresses are all below 4 GiB.

use object::elf::{EM_386, EM_X86_64, FileHeader32, FileHeader64, PT_LOAD};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, ReadRef};

use super::Segment;
use super::error::ImageErrorKind;

/// Whether a file begins like an ELF.
pub(super) fn is_elf(bytes: &[u8]) -> bool {
    bytes.starts_with(&object::elf::ELFMAG)
}

/// Returns the segments to load, with physical addresses, and the physical address of the entry point.
pub(super) fn segments<'d>(
    contents: impl ReadRef<'d>,
) -> Result<(Vec<Segment>, u32), ImageErrorKind> {
    let Loaded {
        segments,
        wanted,
        entry,
    } = load(contents)?;
    let entry = entry.and_then(|entry| u32::try_from(entry).ok());
    let entry = entry.ok_or(ImageErrorKind::Entry { entry: wanted })?;
    Ok((segments, entry))
}

/// The segments to load, with physical addresses.
pub(super) fn load_segments<'d>(
    contents: impl ReadRef<'d>,
) -> Result<Vec<Segment>, ImageErrorKind> {
    Ok(load(contents)?.segments)
}

/// What is needed to load and enter an ELF.
struct Loaded {
    segments: Vec<Segment>,
    /// The entry point as the header gives it.
    wanted: u64,
    /// The entry point's physical address, if it is in a segment.
    entry: Option<u64>,
}

fn load<'d>(contents: impl ReadRef<'d>) -> Result<Loaded, ImageErrorKind> {
    match object::FileKind::parse(contents) {
        Ok(object::FileKind::Elf64) => read::<FileHeader64<Endianness>, _>(contents),
        // Any other file: the reader of 32-bit files reports what is wrong with it.
        _ => read::<FileHeader32<Endianness>, _>(contents),
    }
}

fn read<'d, Elf: FileHeader<Endian = Endianness>, R: ReadRef<'d>>(
    contents: R,
) -> Result<Loaded, ImageErrorKind> {
    let header = Elf::parse(contents).map_err(ImageErrorKind::Elf)?;
    let endian = header.endian().map_err(ImageErrorKind::Elf)?;
    let machine = header.e_machine(endian);
    if ![EM_386, EM_X86_64].contains(&machine) {
        let cpu = format!("ELF machine {}", machine.0);
        return Err(ImageErrorKind::OtherCpu { cpu });
    }
    // Even if a linker knows the physical addresses, it stores the entry point as a virtual address.
    let wanted: u64 = header.e_entry(endian).into();
    let file = super::len(contents);
    let mut entry = None;
    let mut segments = Vec::new();
    for program in header
        .program_headers(endian, contents)
        .map_err(ImageErrorKind::Elf)?
    {
        let len: u64 = program.p_memsz(endian).into();
        if program.p_type(endian) != PT_LOAD || len == 0 {
            continue;
        }
        let address: u64 = program.p_paddr(endian).into();
        let virtual_address: u64 = program.p_vaddr(endian).into();
        let (start, size) = program.file_range(endian);
        if start.checked_add(size).is_none_or(|end| end > file) {
            return Err(ImageErrorKind::Truncated);
        }
        let offset = wanted.checked_sub(virtual_address);
        if let Some(offset) = offset.filter(|offset| *offset < len) {
            entry = entry.or_else(|| address.checked_add(offset));
        }
        // If a segment has more bytes in the file than in memory, the rest is ignored.
        let end = start + size.min(len);
        segments.push(Segment {
            address,
            len,
            file: start..end,
        });
    }
    if segments.is_empty() {
        return Err(ImageErrorKind::Empty);
    }
    Ok(Loaded {
        segments,
        wanted,
        entry,
    })
}
