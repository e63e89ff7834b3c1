//! The contents of an image or of another file for the guest: bytes in memory, or a file. Only the needed parts of a
//! file are read, and directly into guest memory, since a kernel and its initrd have tens of megabytes.

use std::fs::File;
use std::io::{self, Cursor, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use object::ReadRef;
use object::read::ReadCache;
use vm_memory::{Bytes, GuestAddress, GuestMemoryError, GuestMemoryMmap};

use super::error::ImageErrorKind;
use super::multiboot;

/// The bytes to read of any file: enough for all headers at the start of an image.
const HEAD: usize = multiboot::SEARCH;

/// The contents.
#[derive(Clone, Debug)]
pub(super) enum Contents {
    File {
        file: Arc<File>,
        /// The length in bytes when the file was opened.
        len: u64,
    },
    Bytes(Arc<[u8]>),
}

impl Contents {
    /// Opens a file. A pipe is read up to its end if `is_image` accepts its first bytes.
    pub(super) fn open(path: &Path, is_image: impl Fn(&[u8]) -> bool) -> io::Result<Self> {
        Self::from_path(path, |mut file| {
            let mut bytes = head(&mut file)?;
            if is_image(&bytes) {
                file.read_to_end(&mut bytes)?;
            }
            Ok(bytes)
        })
    }

    /// Opens a file. `read` reads it if it is not a regular file.
    pub(super) fn from_path(
        path: &Path,
        read: impl FnOnce(File) -> io::Result<Vec<u8>>,
    ) -> io::Result<Self> {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        if metadata.is_file() {
            let (file, len) = (Arc::new(file), metadata.len());
            return Ok(Self::File { file, len });
        }
        Ok(Self::Bytes(read(file)?.into()))
    }

    /// The first bytes.
    pub(super) fn head(&self) -> io::Result<Vec<u8>> {
        match self {
            Self::File { file, .. } => {
                let mut file = &**file;
                file.seek(SeekFrom::Start(0))?;
                head(&mut file)
            }
            Self::Bytes(bytes) => Ok(bytes[..bytes.len().min(HEAD)].to_vec()),
        }
    }

    /// The length in bytes.
    pub(super) fn len(&self) -> u64 {
        match self {
            Self::File { len, .. } => *len,
            Self::Bytes(bytes) => bytes.len() as u64,
        }
    }

    /// Calls `parse` with a reader of any part of the contents.
    pub(super) fn parsed<P: Parse>(&self, parse: P) -> P::Output {
        match self {
            Self::File { file, .. } => parse.parse(&ReadCache::new(&**file)),
            Self::Bytes(bytes) => parse.parse(&bytes[..]),
        }
    }

    /// Copies a range into guest memory. Fails if the file has become shorter or longer since it was opened. Errors
    /// call the file `what`.
    pub(super) fn copy(
        &self,
        what: &str,
        range: &Range<u64>,
        memory: &GuestMemoryMmap,
        at: GuestAddress,
    ) -> Result<(), ImageErrorKind> {
        let count = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        let copied = match self {
            Self::File { file, len } => {
                let mut file = &**file;
                let found = file.seek(SeekFrom::Start(range.start));
                let copied = found
                    .map_err(GuestMemoryError::IOError)
                    .and_then(|_| memory.read_exact_volatile_from(at, &mut file, count));
                match file.metadata() {
                    // A changed length also explains a failed copy.
                    Ok(now) if now.len() != *len => {
                        return Err(ImageErrorKind::Changed {
                            file: what.to_owned(),
                            before: *len,
                            now: now.len(),
                        });
                    }
                    Ok(_) => copied,
                    Err(error) => Err(GuestMemoryError::IOError(error)),
                }
            }
            Self::Bytes(bytes) => {
                let mut bytes = Cursor::new(bytes);
                bytes.set_position(range.start);
                memory.read_exact_volatile_from(at, &mut bytes, count)
            }
        };
        copied.map_err(|source| ImageErrorKind::Memory {
            what: what.to_owned(),
            source,
        })
    }
}

fn head(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(HEAD as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A function on the contents, whether they are a file or bytes.
pub(super) trait Parse {
    /// What the function returns.
    type Output;

    /// Calls the function.
    fn parse<'d, R: ReadRef<'d>>(self, contents: R) -> Self::Output;
}
