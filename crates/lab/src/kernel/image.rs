//! Converts a kernel's file into the form that QEMU boots fastest. The thread that prepares a kernel runs this.
//!
//! The architecture of a kernel is in its header: an ELF header or the header of arm64's Image (Linux
//! `Documentation/arch/arm64/booting.rst`). Distributions have arm64's Image uncompressed, compressed with gzip, or
//! inside an EFI program that decompresses itself (Linux `drivers/firmware/efi/libstub/zboot-header.S`).

use std::fs;
use std::path::Path;

use super::bzimage::{BzImage, ELF, not_a_kernel, truncated};
use super::unpack;
use crate::error::{LabError, cannot, failed};

/// The offset and the magic number of arm64's Image (Linux `Documentation/arch/arm64/booting.rst`).
const MAGIC: (usize, &[u8]) = (56, b"ARM\x64");
/// The offset and the magic number of the self-decompressing EFI program, in addition to DOS's magic number.
const ZBOOT: (usize, &[u8]) = (4, b"zimg");
// Offsets in the EFI program's header: the position of the compressed Image, and its length.
const PAYLOAD_OFFSET: usize = 8;
const PAYLOAD_LENGTH: usize = 12;

/// A kernel that QEMU can boot.
#[derive(Debug)]
pub struct KernelImage {
    /// An ELF or an Image. If a bzImage's compression is unknown, the bzImage itself, which boots more slowly.
    pub bytes: Vec<u8>,
    /// The release (`uname -r`); `None` if the file does not contain it.
    pub version: Option<String>,
}

impl KernelImage {
    /// Reads a kernel for `arch`, a name as used by Rust and QEMU. For x86-64 the file is a bzImage or an ELF, for
    /// arm64 an Image, which may be compressed.
    pub fn read(path: &Path, arch: &'static str) -> Result<Self, LabError> {
        let bytes = fs::read(path).map_err(cannot("read", path))?;
        if let Some(found) = architecture(&bytes).filter(|found| found != arch) {
            let path = path.display();
            return Err(failed!("{path} is a kernel for {found}, and L1 is {arch}"));
        }
        if arch == "aarch64" {
            return Ok(Self {
                bytes: arm64_image(path, bytes)?,
                version: None,
            });
        }
        if bytes.starts_with(ELF) {
            return Ok(Self {
                bytes,
                version: None,
            });
        }
        let image = BzImage::new(path.to_path_buf(), bytes)?;
        let version = image.version();
        let kernel = image.extract()?;
        Ok(Self {
            bytes: kernel.unwrap_or_else(|| image.into_bytes()),
            version,
        })
    }
}

/// Returns the architecture in the header of an ELF or of arm64's Image.
fn architecture(bytes: &[u8]) -> Option<String> {
    if is_image(bytes) {
        return Some("aarch64".to_owned());
    }
    let machine = bytes.starts_with(ELF).then(|| bytes.get(18..20))??;
    let machine = u16::from_le_bytes(machine.try_into().ok()?);
    Some(match object::elf::Machine(machine) {
        object::elf::EM_X86_64 => "x86_64".to_owned(),
        object::elf::EM_AARCH64 => "aarch64".to_owned(),
        _ => format!("ELF machine {machine}"),
    })
}

/// Returns whether the bytes are an arm64 Image.
fn is_image(bytes: &[u8]) -> bool {
    has(bytes, MAGIC)
}

/// Returns the arm64 Image in the bytes of the file at `path`.
fn arm64_image(path: &Path, bytes: Vec<u8>) -> Result<Vec<u8>, LabError> {
    if is_image(&bytes) {
        return Ok(bytes);
    }
    let packed = if bytes.starts_with(b"MZ") && has(&bytes, ZBOOT) {
        let (offset, size) = (word(&bytes, PAYLOAD_OFFSET), word(&bytes, PAYLOAD_LENGTH));
        let payload = bytes.get(offset..).and_then(|rest| rest.get(..size));
        payload.ok_or_else(|| truncated(path, "an EFI zboot image", bytes.len(), offset, size))?
    } else {
        &bytes
    };
    let plain = unpack(packed).transpose();
    let plain = plain.map_err(cannot("decompress the kernel in", path))?;
    plain.filter(|plain| is_image(plain)).ok_or_else(|| {
        not_a_kernel(
            path,
            "an arm64 Image nor one that gzip or EFI zboot compressed",
        )
    })
}

fn has(bytes: &[u8], (offset, magic): (usize, &[u8])) -> bool {
    bytes
        .get(offset..)
        .is_some_and(|rest| rest.starts_with(magic))
}

/// Reads a little-endian word; 0 beyond the end.
fn word(bytes: &[u8], offset: usize) -> usize {
    let bytes = bytes.get(offset..offset + 4).unwrap_or_default();
    bytes
        .iter()
        .rev()
        .fold(0, |value, byte| value << 8 | usize::from(*byte))
}

#[cfg(test)]
#[path = "image_test.rs"]
mod tests;
