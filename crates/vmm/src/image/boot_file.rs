//! A file for the guest. An initrd goes from the file into guest memory, without a copy in this process.

use std::io::{self, Read};
use std::path::Path;

use vm_memory::{GuestAddress, GuestMemoryMmap};

use super::ImageError;
use super::contents::Contents;

/// A file for the guest, which stays open until it is in guest memory.
#[derive(Clone, Debug)]
pub struct BootFile {
    name: String,
    contents: Contents,
}

impl BootFile {
    /// Opens a file that has fewer than `end` bytes. A regular file is read when the guest is started; a pipe or a device
    /// is read now, up to its end.
    ///
    /// # Errors
    ///
    /// If the file cannot be read; of the kind [`FileTooLarge`](io::ErrorKind::FileTooLarge) if it has more bytes.
    pub fn open(path: &Path, end: u64) -> io::Result<Self> {
        let contents = Contents::from_path(path, |file| {
            let mut bytes = Vec::new();
            // A device may have no end.
            file.take(end).read_to_end(&mut bytes)?;
            Ok(bytes)
        })?;
        if contents.len() >= end {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let name = path.display().to_string();
        Ok(Self { name, contents })
    }

    /// Its name, for messages.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Its length in bytes.
    pub(super) fn len(&self) -> u64 {
        self.contents.len()
    }

    /// Copies it into the memory of a guest for `image`, of which it is this part.
    pub(super) fn copy(
        &self,
        image: &str,
        what: &'static str,
        memory: &GuestMemoryMmap,
        at: u64,
    ) -> Result<(), ImageError> {
        let copied = self
            .contents
            .copy(&(0..self.len()), memory, GuestAddress(at));
        copied.map_err(|error| ImageError::copy(&self.name, image, what, error))
    }
}

/// A file of these bytes.
impl From<Vec<u8>> for BootFile {
    fn from(bytes: Vec<u8>) -> Self {
        Self {
            name: String::new(),
            contents: Contents::Bytes(bytes.into()),
        }
    }
}

#[cfg(test)]
#[path = "boot_file_test.rs"]
mod tests;
