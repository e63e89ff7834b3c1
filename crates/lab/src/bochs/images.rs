//! What Bochs loads into the machine's memory: the kernel's segments, the files, the kernel's start information (PVH,
//! Xen `public/arch-x86/hvm/start_info.h`), and an option ROM that enters the kernel.
//!
//! There is no disk and no boot loader. The BIOS runs the ROM when it has set up the machine and its ACPI tables; the
//! ROM switches to 32-bit mode and jumps to the kernel's PVH entry.

use std::ops::Range;
use std::path::Path;

use object::elf::{NoteType, PT_LOAD, PT_NOTE};
use object::read::elf::{ElfFile64, ProgramHeader};

use crate::error::{LabError, cannot, failed};

/// Where the option ROM is.
pub(crate) const ROM: u64 = 0xd0000;
/// Where the start information is: below the kernel.
pub(crate) const INFO: u64 = 8 << 20;
/// Where kernels may be: after the start information, and where their 32-bit entry can reach.
const KERNELS: Range<u64> = INFO + (1 << 20)..(4 << 30) + 1;
/// The offset of the code in the ROM, after the header.
const CODE: usize = 0x10;
/// The length of the ROM in bytes, which is 1 in the units of its header.
const ROM_SIZE: usize = 512;
/// Offsets in the start information: the module, the memory map, the command line.
const MODULE: u64 = 0x100;
const MAP: u64 = 0x200;
const LINE: u64 = 0x1000;
/// The magic number of the start information.
const MAGIC: u32 = 0x336e_c578;
/// The name and the type of the ELF note with the PVH entry (`XEN_ELFNOTE_PHYS32_ENTRY`).
const NOTE: (&[u8], NoteType) = (b"Xen", NoteType(18));
/// The size of the BIOS's ACPI tables at the end of memory.
const ACPI: u64 = 64 << 10;
/// The alignment of the files' address.
const UNIT: u64 = 2 << 20;

/// A kernel as it is loaded into memory.
#[derive(Debug)]
pub(crate) struct FlatKernel {
    /// The address of the kernel's first byte.
    pub begin: u64,
    /// The first address after the kernel.
    pub end: u64,
    /// The address of the kernel's PVH entry.
    pub entry: u32,
    /// The kernel's bytes from `begin` on, without the memory at the end that the kernel clears itself.
    pub bytes: Vec<u8>,
}

impl FlatKernel {
    /// Reads an ELF kernel.
    pub fn read(path: &Path) -> Result<Self, LabError> {
        let elf = std::fs::read(path).map_err(cannot("read", path))?;
        let path = path.display();
        let kernel = Self::of(&elf).ok_or_else(|| {
            failed!("{path} is not an ELF kernel with a PVH entry, and Bochs boots no other")
        })?;
        match kernel.fits() {
            true => Ok(kernel),
            false => Err(failed!(
                "{path} would be at {:#x} to {:#x}, and the lab loads kernels between {:#x} and {:#x}",
                kernel.begin,
                kernel.end,
                KERNELS.start,
                KERNELS.end - 1
            )),
        }
    }

    /// Whether the kernel leaves room for the start information and is below 4 GiB.
    fn fits(&self) -> bool {
        KERNELS.contains(&self.begin) && KERNELS.contains(&self.end)
    }

    fn of(elf: &[u8]) -> Option<Self> {
        let file = ElfFile64::<object::Endianness, _>::parse(elf).ok()?;
        let endian = file.endian();
        let segments = file.elf_program_headers();
        let mut entry = None;
        let (mut begin, mut end, mut filled) = (u64::MAX, 0, 0);
        for segment in segments {
            let address = segment.p_paddr(endian);
            if segment.p_type(endian) == PT_LOAD {
                begin = begin.min(address);
                end = end.max(address.checked_add(segment.p_memsz(endian))?);
                filled = filled.max(address.checked_add(segment.p_filesz(endian))?);
            } else if segment.p_type(endian) == PT_NOTE {
                let mut notes = segment.notes(endian, elf).ok()??;
                while let Ok(Some(note)) = notes.next() {
                    if (note.name(), note.n_type(endian)) == NOTE {
                        entry = note.desc().first_chunk().copied().map(u32::from_le_bytes);
                    }
                }
            }
        }
        let length = usize::try_from(filled.checked_sub(begin)?).ok()?;
        // A corrupt header must not make the lab allocate more than a kernel can have.
        let mut bytes = vec![0; (length <= 1 << 30).then_some(length)?];
        for segment in segments {
            if segment.p_type(endian) == PT_LOAD {
                let at = usize::try_from(segment.p_paddr(endian) - begin).ok()?;
                let data = segment.data(endian, elf).ok()?;
                bytes.get_mut(at..at + data.len())?.copy_from_slice(data);
            }
        }
        let entry = entry?;
        Some(Self {
            begin,
            end,
            entry,
            bytes,
        })
    }
}

/// Where everything is in the machine's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemoryLayout {
    /// The size of the memory in bytes.
    pub memory: u64,
    /// The address of the files.
    pub initrd: u64,
    /// Their length in bytes.
    pub length: u64,
}

impl MemoryLayout {
    /// Places files of this length after the kernel. Fails if the memory is too small.
    pub fn new(kernel: &FlatKernel, length: u64, memory: u64) -> Result<Self, LabError> {
        let initrd = kernel.end.next_multiple_of(UNIT);
        let needed = initrd + length + ACPI;
        if needed > memory {
            return Err(failed!(
                "out of memory: the kernel and the files need {} MiB, and L1 has {} MiB",
                needed.div_ceil(1 << 20),
                memory >> 20
            )
            .hint("use more --memory"));
        }
        Ok(Self {
            memory,
            initrd,
            length,
        })
    }

    /// Returns the start information for this layout and command line, which goes to [`INFO`].
    pub fn start_information(&self, line: &str) -> Vec<u8> {
        const RAM: u32 = 1;
        const RESERVED: u32 = 2;
        const TABLES: u32 = 3;
        let acpi = self.memory - ACPI;
        let map = [
            (0, 0x9f000, RAM),
            (0x9f000, 0x1000, RESERVED),
            (0xe8000, 0x18000, RESERVED),
            (1 << 20, acpi - (1 << 20), RAM),
            (acpi, ACPI, TABLES),
            (0xfffc_0000, 0x4_0000, RESERVED),
        ];
        let mut info = StartInformation::default();
        // Version 1, no flags, one module. Without an address, the kernel searches for ACPI's root pointer.
        info.words(&[MAGIC, 1, 0, 1]);
        info.longs(&[INFO + MODULE, INFO + LINE, 0, INFO + MAP]);
        info.words(&[u32::try_from(map.len()).unwrap_or_default(), 0]);
        info.fill(MODULE);
        info.longs(&[self.initrd, self.length, 0, 0]);
        info.fill(MAP);
        for (address, size, kind) in map {
            info.longs(&[address, size]);
            info.words(&[kind, 0]);
        }
        info.fill(LINE);
        info.0.extend(line.as_bytes());
        info.0.push(0);
        info.0
    }
}

#[derive(Default)]
struct StartInformation(Vec<u8>);

impl StartInformation {
    fn words(&mut self, words: &[u32]) {
        self.0
            .extend(words.iter().flat_map(|word| word.to_le_bytes()));
    }

    fn longs(&mut self, longs: &[u64]) {
        self.0
            .extend(longs.iter().flat_map(|long| long.to_le_bytes()));
    }

    /// Adds zeros up to this offset.
    fn fill(&mut self, to: u64) {
        self.0.resize(usize::try_from(to).unwrap_or_default(), 0);
    }
}

/// Returns the option ROM, which enters a kernel at `entry` with the start information at [`INFO`].
pub(crate) fn option_rom(entry: u32) -> [u8; ROM_SIZE] {
    let mut rom = [0; ROM_SIZE];
    // The signature, the length in units of 512 bytes, and a jump over the rest of the header.
    rom[..5].copy_from_slice(&[0x55, 0xaa, 1, 0xeb, 0x0b]);
    let base = u32::try_from(ROM).unwrap_or_default();
    let info = u32::try_from(INFO).unwrap_or_default();
    // Offsets of what follows the 16-bit code.
    const PROTECTED: u16 = 0x30;
    const TABLE: u16 = 0x50;
    const POINTER: u16 = 0x68;
    let real: &[&[u8]] = &[
        &[0xfa],                         // cli
        &[0xe4, 0x92],                   // in al, 0x92
        &[0x0c, 0x02],                   // or al, 2: address line 20
        &[0xe6, 0x92],                   // out 0x92, al
        &[0x2e, 0x66, 0x0f, 0x01, 0x16], // lgdt cs:[POINTER]
        &POINTER.to_le_bytes(),
        &[0x0f, 0x20, 0xc0], // mov eax, cr0
        &[0x0c, 0x01],       // or al, 1: protected mode
        &[0x0f, 0x22, 0xc0], // mov cr0, eax
        &[0x66, 0xea],       // jmp 8:PROTECTED
        &(base + u32::from(PROTECTED)).to_le_bytes(),
        &[0x08, 0x00],
    ];
    let protected: &[&[u8]] = &[
        &[0x66, 0xb8, 0x10, 0x00], // mov ax, 16
        &[0x8e, 0xd8],             // mov ds, ax
        &[0x8e, 0xc0],             // mov es, ax
        &[0x8e, 0xd0],             // mov ss, ax
        &[0xbb],                   // mov ebx, info
        &info.to_le_bytes(),
        &[0xb8], // mov eax, entry
        &entry.to_le_bytes(),
        &[0xff, 0xe0], // jmp eax
    ];
    // The GDT: the null descriptor, then flat code and data segments.
    let table = [0_u64, 0x00cf_9a00_0000_ffff, 0x00cf_9200_0000_ffff].map(u64::to_le_bytes);
    let pointer = [
        23_u16.to_le_bytes().to_vec(),
        (base + u32::from(TABLE)).to_le_bytes().to_vec(),
    ];
    let parts = [
        (CODE, real.concat()),
        (PROTECTED.into(), protected.concat()),
        (TABLE.into(), table.concat()),
        (POINTER.into(), pointer.concat()),
    ];
    for (at, bytes) in parts {
        rom[at..at + bytes.len()].copy_from_slice(&bytes);
    }
    // The BIOS runs a ROM whose bytes add up to 0.
    let sum = rom.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
    rom[ROM_SIZE - 1] = sum.wrapping_neg();
    rom
}

#[cfg(test)]
#[path = "images_test.rs"]
mod tests;
