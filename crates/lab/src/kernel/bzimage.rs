//! Extracts the ELF kernel from a bzImage of x86-64 (Linux `Documentation/arch/x86/boot.rst`).

use std::path::{Path, PathBuf};

use super::unpack;
use crate::error::{LabError, cannot, failed};

pub(super) const ELF: &[u8] = b"\x7fELF";

// Offsets of fields in the setup header.
const SETUP_SECTORS: usize = 0x1f1;
const MAGIC: usize = 0x202;
const VERSION: usize = 0x206;
const KERNEL_VERSION: usize = 0x20e;
const PAYLOAD_OFFSET: usize = 0x248;
const PAYLOAD_LENGTH: usize = 0x24c;

/// The bytes of a bzImage with a valid setup header.
#[derive(Debug)]
pub struct BzImage {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl BzImage {
    /// Checks the magic number, and that the boot protocol is new enough to have `payload_offset`.
    pub fn new(path: PathBuf, bytes: Vec<u8>) -> Result<Self, LabError> {
        let known = bytes.get(MAGIC..MAGIC + 4) == Some(b"HdrS")
            && bytes.get(VERSION + 1).is_some_and(|major| *major >= 2);
        if !known || bytes.len() < PAYLOAD_LENGTH + 4 {
            return Err(not_a_kernel(&path, "a bzImage nor an ELF vmlinux"));
        }
        Ok(Self { path, bytes })
    }

    /// Returns the first word of the version string, the release.
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

    /// The bzImage itself.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Returns the ELF in the bzImage; `None` if the compression is unknown.
    pub fn extract(&self) -> Result<Option<Vec<u8>>, LabError> {
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
            let length = self.bytes.len();
            return Err(truncated(&self.path, "a bzImage", length, offset, size));
        };
        let Some(result) = unpack(payload) else {
            return Ok(None);
        };
        let kernel = result.map_err(cannot("decompress the kernel in", &self.path))?;
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

/// Makes the error of a file or folder that has none of the `wanted` forms.
pub(crate) fn not_a_kernel(path: &Path, wanted: &str) -> LabError {
    failed!("{} is not a kernel: neither {wanted}", path.display())
}

/// Makes the error of a compressed kernel in format `kind` whose header points outside the file.
pub(super) fn truncated(
    path: &Path,
    kind: &str,
    length: usize,
    offset: usize,
    size: usize,
) -> LabError {
    failed!(
        "{} is {kind} of {length} bytes whose header says that its kernel is at {offset}, {size} bytes long",
        path.display()
    )
}

#[cfg(test)]
#[path = "bzimage_test.rs"]
mod tests;
