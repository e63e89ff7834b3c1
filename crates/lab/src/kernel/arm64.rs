//! Takes arm64's Image out of what distributions make of it: the Image itself, one compressed with gzip, or one in an
//! EFI program that decompresses itself (Linux `drivers/firmware/efi/libstub/zboot-header.S`).

use std::path::Path;

use super::{KernelError, unpack};

/// The magic number of an Image and its offset (Linux `Documentation/arch/arm64/booting.rst`).
const MAGIC: (usize, &[u8]) = (56, b"ARM\x64");
/// The magic number of the self-decompressing EFI program and its offset, after DOS's magic number.
const ZBOOT: (usize, &[u8]) = (4, b"zimg");
// Offsets in its header: where the compressed Image is, and its length.
const PAYLOAD_OFFSET: usize = 8;
const PAYLOAD_LENGTH: usize = 12;

/// Whether the bytes are an Image.
pub(super) fn is_image(bytes: &[u8]) -> bool {
    has(bytes, MAGIC)
}

/// The Image in the bytes of the file at `path`.
pub(super) fn image(path: &Path, bytes: Vec<u8>) -> Result<Vec<u8>, KernelError> {
    if is_image(&bytes) {
        return Ok(bytes);
    }
    let packed = if bytes.starts_with(b"MZ") && has(&bytes, ZBOOT) {
        let (offset, size) = (word(&bytes, PAYLOAD_OFFSET), word(&bytes, PAYLOAD_LENGTH));
        let payload = bytes.get(offset..).and_then(|rest| rest.get(..size));
        payload.ok_or_else(|| KernelError::Truncated {
            path: path.to_path_buf(),
            kind: "an EFI zboot image",
            length: bytes.len(),
            offset,
            size,
        })?
    } else {
        &bytes
    };
    let plain = unpack(packed).transpose();
    let plain = plain.map_err(|source| KernelError::Decompress {
        what: "kernel",
        path: path.to_path_buf(),
        source,
    })?;
    plain
        .filter(|plain| is_image(plain))
        .ok_or_else(|| KernelError::NotAKernel {
            path: path.to_path_buf(),
            wanted: "an arm64 Image nor one that gzip or EFI zboot compressed",
        })
}

fn has(bytes: &[u8], (offset, magic): (usize, &[u8])) -> bool {
    bytes
        .get(offset..)
        .is_some_and(|rest| rest.starts_with(magic))
}

/// A little-endian word; 0 after the end.
fn word(bytes: &[u8], offset: usize) -> usize {
    let bytes = bytes.get(offset..offset + 4).unwrap_or_default();
    bytes
        .iter()
        .rev()
        .fold(0, |value, byte| value << 8 | usize::from(*byte))
}

#[cfg(test)]
#[path = "arm64_test.rs"]
mod tests;
