//! A file for the guest: an image, or a file that goes with an image. It is read directly into guest memory, without a
//! copy in this process.

use std::io::{self, Read};
use std::path::Path;

use vm_memory::{GuestAddress, GuestMemoryMmap};

use super::contents::Contents;
use super::error::{ImageError, ImageErrorKind};

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

    /// Opens an image, and also returns its first bytes. A pipe is read up to its end if `is_image` accepts the first
    /// bytes.
    pub(super) fn image(
        path: &Path,
        is_image: impl Fn(&str, &[u8]) -> bool,
    ) -> Result<(Self, Vec<u8>), ImageError> {
        let name = path.display().to_string();
        match Contents::open(path, |head| is_image(&name, head)) {
            Ok(contents) => Self { name, contents }.with_head(),
            Err(error) => Err(ImageErrorKind::Read(error).of(&name)),
        }
    }

    /// Makes an image of these bytes, and also returns the first of them.
    pub(super) fn image_of(name: String, bytes: &[u8]) -> Result<(Self, Vec<u8>), ImageError> {
        let contents = Contents::Bytes(bytes.into());
        Self { name, contents }.with_head()
    }

    fn with_head(self) -> Result<(Self, Vec<u8>), ImageError> {
        match self.contents.head() {
            Ok(head) => Ok((self, head)),
            Err(error) => Err(ImageErrorKind::Read(error).of(&self.name)),
        }
    }

    /// The contents of the file.
    pub(super) const fn contents(&self) -> &Contents {
        &self.contents
    }

    /// The name of the file, for messages.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The length of the file in bytes.
    pub(super) fn len(&self) -> u64 {
        self.contents.len()
    }

    /// Copies the file into guest memory. Errors call the file `what`.
    pub(super) fn copy(
        &self,
        what: &str,
        memory: &GuestMemoryMmap,
        at: u64,
    ) -> Result<(), ImageErrorKind> {
        let all = 0..self.len();
        self.contents.copy(what, &all, memory, GuestAddress(at))
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
