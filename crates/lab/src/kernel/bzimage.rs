//! Takes the ELF kernel out of a bzImage.

use std::fs;
use std::path::{Path, PathBuf};

use super::{KernelError, unpack};

// Offsets in the setup header.
const SETUP_SECTORS: usize = 0x1f1;
const MAGIC: usize = 0x202;
const VERSION: usize = 0x206;
const KERNEL_VERSION: usize = 0x20e;
const PAYLOAD_OFFSET: usize = 0x248;
const PAYLOAD_LENGTH: usize = 0x24c;

const ELF: &[u8] = b"\x7fELF";
/// The magic number of arm64's Image and its offset (Documentation/arch/arm64/booting.rst).
const ARM64: (usize, &[u8]) = (56, b"ARM\x64");

/// A kernel that QEMU can boot.
#[derive(Debug)]
pub struct KernelImage {
    /// The ELF, or the bzImage itself if its compression is not known: it boots, but more slowly.
    pub bytes: Vec<u8>,
    /// The release (`uname -r`); `None` if the file does not have it.
    pub version: Option<String>,
}

/// The bytes of a bzImage with a valid setup header.
#[derive(Debug)]
pub struct BzImage {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl KernelImage {
    /// Reads a bzImage or an ELF for `arch`, which is named as Rust and QEMU do.
    pub fn read(path: &Path, arch: &'static str) -> Result<Self, KernelError> {
        let bytes = fs::read(path).map_err(KernelError::io("read", path))?;
        if let Some(found) = architecture(&bytes).filter(|found| found != arch) {
            return Err(KernelError::Architecture {
                path: path.to_path_buf(),
                found,
                wanted: arch,
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
            bytes: kernel.unwrap_or(image.bytes),
            version,
        })
    }
}

/// The architecture that the header of an ELF or of arm64's Image names.
fn architecture(bytes: &[u8]) -> Option<String> {
    let (offset, magic) = ARM64;
    if bytes
        .get(offset..)
        .is_some_and(|rest| rest.starts_with(magic))
    {
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

impl BzImage {
    /// Checks the magic number, and that the boot protocol is new enough to have `payload_offset`.
    pub fn new(path: PathBuf, bytes: Vec<u8>) -> Result<Self, KernelError> {
        let known = bytes.get(MAGIC..MAGIC + 4) == Some(b"HdrS")
            && bytes.get(VERSION + 1).is_some_and(|major| *major >= 2);
        if !known || bytes.len() < PAYLOAD_LENGTH + 4 {
            return Err(KernelError::NotAKernel { path });
        }
        Ok(Self { path, bytes })
    }

    /// The version string's first word, which is the release.
    pub fn version(&self) -> Option<String> {
        let offset = usize::from(u16::from_le_bytes(
            self.bytes[KERNEL_VERSION..][..2].try_into().ok()?,
        )) + 0x200;
        let text = self
            .bytes
            .get(offset..)?
            .split(|byte| *byte == 0 || *byte == b' ')
            .next()?;
        let text = std::str::from_utf8(text).ok()?;
        (!text.is_empty() && text.len() < 128).then(|| text.to_owned())
    }

    /// The ELF in the bzImage; `None` if its compression is not known.
    pub fn extract(&self) -> Result<Option<Vec<u8>>, KernelError> {
        let sectors = match self.bytes[SETUP_SECTORS] {
            0 => 4,
            sectors => usize::from(sectors),
        };
        let offset = (sectors + 1) * 512 + self.word(PAYLOAD_OFFSET);
        let size = self.word(PAYLOAD_LENGTH);
        let payload = self
            .bytes
            .get(offset..)
            .and_then(|rest| rest.get(..size))
            .filter(|payload| payload.len() > 4);
        let Some(payload) = payload else {
            return Err(KernelError::Truncated {
                path: self.path.clone(),
                length: self.bytes.len(),
                offset,
                size,
            });
        };
        let Some(result) = unpack(payload) else {
            return Ok(None);
        };
        let kernel = result.map_err(|source| KernelError::Decompress {
            what: "kernel",
            path: self.path.clone(),
            source,
        })?;
        Ok(Some(kernel).filter(|kernel| kernel.starts_with(ELF)))
    }

    fn word(&self, offset: usize) -> usize {
        let bytes = &self.bytes[offset..offset + 4];
        bytes
            .iter()
            .rev()
            .fold(0, |value, byte| value << 8 | usize::from(*byte))
    }
}

#[cfg(test)]
#[path = "bzimage_test.rs"]
mod tests;
