//! Reads a kernel's file into the form that QEMU boots fastest. The thread that prepares a kernel runs this.
//!
//! The header says which architecture a kernel is for: that of an ELF, or that of arm64's Image (Linux
//! `Documentation/arch/arm64/booting.rst`).

use std::fs;
use std::path::Path;

use super::bzimage::BzImage;
use super::{KernelError, arm64};

pub(super) const ELF: &[u8] = b"\x7fELF";

/// A kernel that QEMU can boot.
#[derive(Debug)]
pub struct KernelImage {
    /// An ELF or an Image; a bzImage itself if its compression is not known, which boots, but more slowly.
    pub bytes: Vec<u8>,
    /// The release (`uname -r`); `None` if the file does not have it.
    pub version: Option<String>,
}

impl KernelImage {
    /// Reads a kernel for `arch`, which is named as Rust and QEMU do: for x86-64 a bzImage or an ELF, for arm64 an
    /// Image, which may be compressed.
    pub fn read(path: &Path, arch: &'static str) -> Result<Self, KernelError> {
        let bytes = fs::read(path).map_err(KernelError::io("read", path))?;
        if let Some(found) = architecture(&bytes).filter(|found| found != arch) {
            return Err(KernelError::Architecture {
                path: path.to_path_buf(),
                found,
                wanted: arch,
            });
        }
        if arch == "aarch64" {
            return Ok(Self {
                bytes: arm64::image(path, bytes)?,
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

/// The architecture that the header of an ELF or of arm64's Image names.
fn architecture(bytes: &[u8]) -> Option<String> {
    if arm64::is_image(bytes) {
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

#[cfg(test)]
#[path = "image_test.rs"]
mod tests;
