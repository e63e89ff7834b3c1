//! Compressed kernels of arm64, which do not unpack themselves without firmware: how the user unpacks one.

use crate::machine::image::foreign::unpacker;

/// The magic number of an EFI program that unpacks itself, behind DOS's (Linux
/// `drivers/firmware/efi/libstub/zboot-header.S`).
const ZBOOT: &[u8] = b"zimg";
const ZBOOT_AT: usize = 4;
/// Offsets in its header: where the compressed kernel is, and its length.
const PAYLOAD_OFFSET: usize = 8;
const PAYLOAD_LENGTH: usize = 12;

/// The commands that make an Image of this file; `None` if it is not compressed.
pub(super) fn unpacking(image: &str, file: &[u8]) -> Option<String> {
    if let Some(program) = unpacker(file) {
        return Some(format!("{program} -dc <'{image}' >Image"));
    }
    if !file.starts_with(b"MZ") || !file.get(ZBOOT_AT..)?.starts_with(ZBOOT) {
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
