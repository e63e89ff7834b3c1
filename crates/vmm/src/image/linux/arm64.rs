//! Images for arm64: Linux's Image, whose header says where it goes and how much memory it takes (Linux
//! `Documentation/arch/arm64/booting.rst`), and flat files that were made for QEMU's machine `virt`.
//!
//! It also recognizes files that an arm64 machine does not boot, most often a kernel for another CPU or a packed one,
//! and says what the user can do about each.

use std::path::Path;

use object::elf::EM_AARCH64;
use vm_memory::{GuestMemoryBackend, GuestMemoryMmap, GuestMemoryRegion};
use vmbell_hypervisor::aarch64::IMAGE_RAM;

use super::Initrd;
use super::bzimage::SetupHeader;
use crate::image::error::{COMPRESSED_FORM, ImageErrorKind, cpu, unpacker};
use crate::image::{Boot, BootFile, ImageError, RamEnd, elf, multiboot, uki};

/// The magic number and its offset.
const MAGIC: &[u8] = b"ARM\x64";
const MAGIC_AT: usize = 0x38;
/// Offsets of the other header fields: the kernel's load address relative to the start of RAM, and the size of the
/// memory that it takes there.
const TEXT_OFFSET: usize = 8;
const IMAGE_SIZE: usize = 16;

/// For a file without a header, relative to the start of RAM: its load address, and the end of the memory that it may
/// use, unless half of RAM is less.
const FLAT_OFFSET: u64 = 0x8_0000;
const FLAT_END: u64 = 128 << 20;

/// The maximum number of bytes of a device tree, and the alignment of its address, so that the kernel maps it with one
/// entry.
pub(crate) const TREE_LEN: u64 = 2 << 20;
/// The longest command line that the kernel takes (`COMMAND_LINE_SIZE`), without the zero at its end.
const COMMAND_LINE: usize = 2047;

/// Whether a file is an Image.
pub(super) fn is_image(file: &[u8]) -> bool {
    file.get(MAGIC_AT..)
        .is_some_and(|magic| magic.starts_with(MAGIC))
}

/// What the header says.
#[derive(Clone, Copy, Debug)]
struct Header {
    text_offset: u64,
    image_size: u64,
}

impl Header {
    /// Finds the header of an Image. Before Linux 3.17 the header does not say how much memory the kernel takes; such a
    /// file is treated as if it had no header.
    fn find(file: &[u8]) -> Option<Self> {
        let field = |at: usize| {
            let bytes = file.get(at..)?.first_chunk()?;
            Some(u64::from_le_bytes(*bytes))
        };
        let header = Self {
            text_offset: field(TEXT_OFFSET)?,
            image_size: field(IMAGE_SIZE)?,
        };
        (is_image(file) && header.image_size > 0).then_some(header)
    }
}

/// An image for arm64.
#[derive(Clone, Debug)]
pub struct Arm64Image {
    file: BootFile,
    header: Option<Header>,
}

/// Where an image is in memory, and what goes with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Loaded {
    /// Guest-physical address of the first instruction.
    pub(crate) entry: u64,
    /// The place of the device tree, of [`TREE_LEN`] bytes.
    pub(crate) tree: u64,
    /// First address and length of the initrd.
    pub(crate) initrd: Option<(u64, u64)>,
}

impl Arm64Image {
    /// Opens and checks a file.
    pub fn open(path: &Path) -> Result<Self, ImageError> {
        let (file, head) = BootFile::image(path, |name, head| refusal(name, head).is_none())?;
        Self::of(file, &head)
    }

    /// Checks the bytes of a file. `name` is for errors.
    pub fn parse(name: String, bytes: &[u8]) -> Result<Self, ImageError> {
        let (file, head) = BootFile::image_of(name, bytes)?;
        Self::of(file, &head)
    }

    fn of(file: BootFile, head: &[u8]) -> Result<Self, ImageError> {
        if let Some(refusal) = refusal(file.name(), head) {
            return Err(refusal.of(file.name()));
        }
        let header = Header::find(head);
        Ok(Self { file, header })
    }

    /// Whether the image is a kernel of Linux, which has a console.
    pub const fn is_kernel(&self) -> bool {
        self.header.is_some()
    }

    /// Copies the image and its initrd into `memory`, which must be all zeros and begin at a multiple of [`TREE_LEN`].
    pub(crate) fn load(&self, memory: &GuestMemoryMmap, boot: &Boot) -> Result<Loaded, ImageError> {
        let loaded = self.load_all(memory, boot);
        loaded.map_err(|kind| kind.of(self.file.name()))
    }

    fn load_all(&self, memory: &GuestMemoryMmap, boot: &Boot) -> Result<Loaded, ImageErrorKind> {
        let initrd = self.check_files(boot)?;
        boot.check_arguments(COMMAND_LINE)?;
        let base = memory.iter().next().map_or(0, |ram| ram.start_addr().0);
        let ram = RamEnd::new(memory, IMAGE_RAM.end);
        let (entry, end) = self.place(base, ram.now);
        let tree = end.checked_next_multiple_of(TREE_LEN).unwrap_or(u64::MAX);
        let end = tree.saturating_add(TREE_LEN);
        ram.check(base, end)?;
        self.file.copy("the image", memory, entry)?;
        let initrd = Initrd::load(initrd, memory, ram, (end, u64::MAX))?;
        Ok(Loaded {
            entry,
            tree,
            initrd: initrd.map(|initrd| (initrd.address, initrd.len)),
        })
    }

    /// Returns the first address of the image in RAM from `base` to `ram`, and the end of the memory that it may use.
    fn place(&self, base: u64, ram: u64) -> (u64, u64) {
        let len = self.file.len();
        if let Some(header) = self.header {
            let entry = base.saturating_add(header.text_offset);
            return (entry, entry.saturating_add(header.image_size.max(len)));
        }
        let entry = base + FLAT_OFFSET;
        let end = base + FLAT_END.min((ram - base) / 2);
        (entry, end.max(entry.saturating_add(len)))
    }

    /// Returns the initrd. An image without a header can get the environment as its initrd, as kvm-unit-tests expect.
    fn check_files<'b>(&self, boot: &'b Boot) -> Result<Option<&'b BootFile>, ImageErrorKind> {
        let what = match (&boot.environment, &boot.initrd) {
            (None, initrd) => return Ok(initrd.as_ref()),
            (environment, None) if !self.is_kernel() => return Ok(environment.as_ref()),
            (_, None) => "an environment file (--env)",
            (_, Some(_)) => "an environment file (--env) in addition to its initrd",
        };
        Err(ImageErrorKind::NoUse { what })
    }
}

/// Offset of the field with the CPU in an ELF.
const ELF_MACHINE: usize = 18;

/// The magic number of EFI programs, and the second one of an EFI program that unpacks itself (Linux
/// `drivers/firmware/efi/libstub/zboot-header.S`).
const EFI: &[u8] = b"MZ";
const ZBOOT: &[u8] = b"zimg";
const ZBOOT_AT: usize = 4;
/// Offsets in the header of a program that unpacks itself: where the compressed kernel is, and its length.
const PAYLOAD_OFFSET: usize = 8;
const PAYLOAD_LENGTH: usize = 12;

/// Returns why a file that begins with these bytes cannot be booted; `None` if it can.
pub(super) fn refusal(image: &str, file: &[u8]) -> Option<ImageErrorKind> {
    if is_image(file) {
        return None;
    }
    if file.is_empty() {
        return Some(ImageErrorKind::EmptyFile);
    }
    if !begins_with_branch(file)
        && let Some(commands) = unpacking(image, file)
    {
        return Some(ImageErrorKind::Form {
            form: COMPRESSED_FORM,
            commands,
        });
    }
    if elf::is_elf(file) && elf_machine(file) == Some(EM_AARCH64.0) {
        return Some(ImageErrorKind::Form {
            form: "an ELF",
            commands: format!("objcopy -O binary -S '{image}' Image"),
        });
    }
    if elf::is_elf(file)
        || SetupHeader::find(file).is_some()
        || multiboot::Header::find(file).is_some()
        || cpu(file).is_some()
    {
        return Some(ImageErrorKind::NotForArm64);
    }
    if let Some(advice) = uki::advice(image, file) {
        return Some(ImageErrorKind::Unified { advice });
    }
    if file.starts_with(EFI) {
        return Some(ImageErrorKind::EfiProgram);
    }
    (!begins_with_instruction(file)).then_some(ImageErrorKind::NotAnArm64Image)
}

fn elf_machine(file: &[u8]) -> Option<u16> {
    let machine = file.get(ELF_MACHINE..)?.first_chunk()?;
    Some(u16::from_le_bytes(*machine))
}

/// Whether the first word is in an encoding group of arm64 instructions (Arm DDI 0487, C4.1): bits 25 to 28 are not 0,
/// 1 or 3.
fn begins_with_instruction(file: &[u8]) -> bool {
    word_at(file, 0).is_some_and(|word| !matches!(word >> 25 & 0xf, 0 | 1 | 3))
}

/// Whether the first word is a `b` instruction (Arm DDI 0487, C6.2), as in most images. The three bytes of lzma's magic
/// number can be part of a `b`.
fn begins_with_branch(file: &[u8]) -> bool {
    word_at(file, 0).is_some_and(|word| word >> 26 == 5)
}

/// Returns the commands that make an Image of this file; `None` if it is not compressed.
fn unpacking(image: &str, file: &[u8]) -> Option<String> {
    if let Some(program) = unpacker(file) {
        return Some(format!("{program} -dc <'{image}' >Image"));
    }
    if !file.starts_with(EFI) || !file.get(ZBOOT_AT..)?.starts_with(ZBOOT) {
        return None;
    }
    let (offset, len) = (
        word_at(file, PAYLOAD_OFFSET)?,
        word_at(file, PAYLOAD_LENGTH)?,
    );
    let payload = file.get(usize::try_from(offset).ok()?..)?;
    let (program, first) = (unpacker(payload)?, u64::from(offset) + 1);
    Some(format!(
        "tail -c +{first} '{image}' | head -c {len} | {program} -dc >Image"
    ))
}

fn word_at(file: &[u8], at: usize) -> Option<u32> {
    let bytes = file.get(at..)?.first_chunk()?;
    Some(u32::from_le_bytes(*bytes))
}

#[cfg(test)]
#[path = "arm64_test.rs"]
mod tests;
