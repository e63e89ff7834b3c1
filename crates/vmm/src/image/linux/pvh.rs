//! PVH: the entry point in a note of the ELF, and the start information that it finds in EBX (Xen
//! `docs/misc/pvh.pandoc` and `xen/include/public/arch-x86/hvm/start_info.h`).

use object::elf::{FileHeader32, FileHeader64, PT_NOTE};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, ReadRef};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use vmbell_devices::ACPI_BASE;

use super::Initrd;
use crate::image::error::ImageErrorKind;
use crate::image::low_memory::{Area, memory_map};
use crate::image::{Boot, Parsed, Protocol, Segment, elf};

/// The name and the type of the note with the entry point (`XEN_ELFNOTE_PHYS32_ENTRY`).
const NOTE_NAME: &[u8; 4] = b"Xen\0";
const NOTE_TYPE: u32 = 18;
/// The name of a note that each kernel of Linux has since 4.19 (`LINUX_ELFNOTE_BUILD_SALT`); PVH without Xen is newer.
/// The name follows the header of a note.
const LINUX_NAME: &[u8] = b"Linux\0";
const NAME_AT: usize = 12;
/// The longest command line that Linux takes (`COMMAND_LINE_SIZE`), without the zero at its end. Linux silently cuts a
/// longer one.
const LINUX_COMMAND_LINE: usize = 2047;

const MAGIC: u32 = 0x336e_c578;
/// The version of the start information that has a memory map.
const VERSION: u32 = 1;

/// The part of a note before its contents, for a name of four bytes.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct NoteHeader {
    namesz: U32,
    descsz: U32,
    kind: U32,
    name: [u8; 4],
}

/// `struct hvm_start_info`.
#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct StartInfo {
    magic: U32,
    version: U32,
    flags: U32,
    nr_modules: U32,
    modlist_paddr: U64,
    cmdline_paddr: U64,
    rsdp_paddr: U64,
    memmap_paddr: U64,
    memmap_entries: U32,
    reserved: U32,
}

/// `struct hvm_modlist_entry`.
#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct Module {
    paddr: U64,
    size: U64,
    cmdline_paddr: U64,
    reserved: U64,
}

/// `struct hvm_memmap_table_entry`.
#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct MapEntry {
    addr: U64,
    size: U64,
    kind: U32,
    reserved: U32,
}

/// Checks an ELF whose notes have the entry point.
pub(in crate::image) fn parse<'d>(contents: impl ReadRef<'d>) -> Result<Parsed, ImageErrorKind> {
    let segments = elf::load_segments(contents)?;
    let said = match object::FileKind::parse(contents) {
        Ok(object::FileKind::Elf64) => find::<FileHeader64<Endianness>, _>(contents)?,
        _ => find::<FileHeader32<Endianness>, _>(contents)?,
    };
    let Some(entry) = said.entry else {
        return Err(ImageErrorKind::NoEntryProtocol);
    };
    let inside = |segment: &Segment| {
        let first = segment.address;
        (first..first.saturating_add(segment.len)).contains(&entry.into())
    };
    if !segments.iter().any(inside) {
        return Err(ImageErrorKind::Entry {
            entry: entry.into(),
        });
    }
    Ok(Parsed {
        segments,
        entry,
        protocol: Protocol::Pvh {
            is_linux: said.is_linux,
        },
    })
}

/// What the notes of a kernel say.
#[derive(Default)]
struct Said {
    entry: Option<u32>,
    is_linux: bool,
}

/// Reads the segments of notes; the first entry point counts.
fn find<'d, Elf: FileHeader<Endian = Endianness>, R: ReadRef<'d>>(
    contents: R,
) -> Result<Said, ImageErrorKind> {
    let header = Elf::parse(contents).map_err(ImageErrorKind::Elf)?;
    let endian = header.endian().map_err(ImageErrorKind::Elf)?;
    let programs = header
        .program_headers(endian, contents)
        .map_err(ImageErrorKind::Elf)?;
    let mut said = Said::default();
    for program in programs {
        if program.p_type(endian) == PT_NOTE {
            let notes = program.data(endian, contents);
            let notes = notes.map_err(|()| ImageErrorKind::Truncated)?;
            said.entry = said.entry.or_else(|| entry_in(notes));
            said.is_linux |= is_linux(notes);
        }
    }
    Ok(said)
}

/// Whether a segment of notes has one with Linux's name.
fn is_linux(notes: &[u8]) -> bool {
    let names = notes.get(NAME_AT..).unwrap_or_default();
    let mut places = (0..names.len()).step_by(4);
    places.any(|at| names[at..].starts_with(LINUX_NAME))
}

/// Finds the entry point in a segment of notes.
///
/// Looks for the note at each multiple of 4 bytes, and does not walk from note to note. Linkers merge notes that are
/// aligned to 4 bytes into a segment whose alignment is 8 or more, so the header does not say how far apart the notes
/// are. A malformed note then hides no other note.
fn entry_in(notes: &[u8]) -> Option<u32> {
    let mut places = (0..notes.len()).step_by(4);
    places.find_map(|at| {
        let (note, desc) = NoteHeader::ref_from_prefix(&notes[at..]).ok()?;
        let is_entry = note.namesz == 4 && note.kind == NOTE_TYPE && note.name == *NOTE_NAME;
        let desc = desc.get(..usize::try_from(note.descsz.get()).ok()?)?;
        let entry = desc.first_chunk::<4>().filter(|_| is_entry)?;
        Some(u32::from_le_bytes(*entry))
    })
}

/// Makes the start information, with what it points to, for a machine whose RAM ends at `ram`.
pub(in crate::image) fn start_info(
    is_linux: bool,
    boot: &Boot,
    ram: u64,
    initrd: Option<Initrd>,
) -> Result<Vec<u8>, ImageErrorKind> {
    if is_linux {
        boot.check_arguments(LINUX_COMMAND_LINE)?;
    }
    let mut area = Area::with(size_of::<StartInfo>());
    let modlist = initrd.map_or(0, |Initrd { address, len }| {
        let module = Module {
            paddr: address.into(),
            size: len.into(),
            cmdline_paddr: U64::ZERO,
            reserved: U64::ZERO,
        };
        area.push(module.as_bytes(), 8)
    });
    let map = memory_map(ram).map(|(base, len, usage)| MapEntry {
        addr: base.into(),
        size: len.into(),
        kind: (usage as u32).into(),
        reserved: U32::ZERO,
    });
    let memmap = area.push(map.as_bytes(), 8);
    let command = area.push_text(&boot.arguments);
    let address = |address: u32| u64::from(address).into();
    let info = StartInfo {
        magic: MAGIC.into(),
        version: VERSION.into(),
        flags: U32::ZERO,
        nr_modules: u32::from(initrd.is_some()).into(),
        modlist_paddr: address(modlist),
        cmdline_paddr: address(command),
        rsdp_paddr: address(ACPI_BASE),
        memmap_paddr: address(memmap),
        memmap_entries: u32::try_from(map.len()).unwrap_or(u32::MAX).into(),
        reserved: U32::ZERO,
    };
    area.set(0, info.as_bytes());
    area.finish()
}
