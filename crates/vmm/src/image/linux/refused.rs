//! Files that an arm64 machine does not boot, and what the user can do about each: most often a kernel for another CPU, or
//! one that has to be unpacked first.

use object::elf::EM_AARCH64;

use super::SetupHeader;
use super::arm64::is_image;
use crate::image::foreign::{cpu, unpacker};
use crate::image::{ImageError, elf, multiboot};

/// Offset of the field with the CPU in an ELF.
const ELF_MACHINE: usize = 18;

/// The magic number of programs for EFI, and of such a program that unpacks itself, behind the former (Linux
/// `drivers/firmware/efi/libstub/zboot-header.S`).
const EFI: &[u8] = b"MZ";
const ZBOOT: &[u8] = b"zimg";
const ZBOOT_AT: usize = 4;
/// Offsets in its header: where the compressed kernel is, and its length.
const PAYLOAD_OFFSET: usize = 8;
const PAYLOAD_LENGTH: usize = 12;

/// Why a file that begins with these bytes is not booted; `None` if it is.
pub(super) fn refusal(image: &str, file: &[u8]) -> Option<ImageError> {
    let name = image.to_owned();
    if is_image(file) {
        return None;
    }
    if file.is_empty() {
        return Some(ImageError::EmptyFile { image: name });
    }
    if !begins_with_branch(file)
        && let Some(commands) = unpacking(image, file)
    {
        let image = name;
        return Some(ImageError::Packed { image, commands });
    }
    if elf::is_elf(file) && elf_machine(file) == Some(EM_AARCH64.0) {
        return Some(ImageError::Arm64Elf { image: name });
    }
    if elf::is_elf(file)
        || SetupHeader::find(file).is_some()
        || multiboot::Header::find(file).is_some()
        || cpu(file).is_some()
    {
        return Some(ImageError::OtherKernel { image: name });
    }
    if file.starts_with(EFI) {
        return Some(ImageError::EfiProgram { image: name });
    }
    (!begins_with_instruction(file)).then_some(ImageError::NotAnArm64Image { image: name })
}

fn elf_machine(file: &[u8]) -> Option<u16> {
    let machine = file.get(ELF_MACHINE..)?.first_chunk()?;
    Some(u16::from_le_bytes(*machine))
}

/// Whether the first word has an encoding that arm64 gives to instructions (Arm DDI 0487, C4.1): bits 25 to 28 are none of
/// 0, 1 and 3.
fn begins_with_instruction(file: &[u8]) -> bool {
    word(file, 0).is_some_and(|word| !matches!(word >> 25 & 0xf, 0 | 1 | 3))
}

/// Whether the first word is `b` (Arm DDI 0487, C6.2), as most images have it: the three bytes of lzma's magic number can be
/// part of one.
fn begins_with_branch(file: &[u8]) -> bool {
    word(file, 0).is_some_and(|word| word >> 26 == 5)
}

/// The commands that make an Image of this file; `None` if it is not compressed.
fn unpacking(image: &str, file: &[u8]) -> Option<String> {
    if let Some(program) = unpacker(file) {
        return Some(format!("{program} -dc <'{image}' >Image"));
    }
    if !file.starts_with(EFI) || !file.get(ZBOOT_AT..)?.starts_with(ZBOOT) {
        return None;
    }
    let (offset, len) = (word(file, PAYLOAD_OFFSET)?, word(file, PAYLOAD_LENGTH)?);
    let payload = file.get(usize::try_from(offset).ok()?..)?;
    let (program, first) = (unpacker(payload)?, u64::from(offset) + 1);
    Some(format!(
        "tail -c +{first} '{image}' | head -c {len} | {program} -dc >Image"
    ))
}

fn word(file: &[u8], at: usize) -> Option<u32> {
    let bytes = file.get(at..)?.first_chunk()?;
    Some(u32::from_le_bytes(*bytes))
}
