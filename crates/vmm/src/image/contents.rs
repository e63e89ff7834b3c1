//! The contents of an image: bytes, or a file, of which only what is needed is read. Segments go from the file into the
//! guest's memory at once, since a kernel has tens of megabytes.

use std::fs::File;
use std::io::{self, Cursor, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use object::ReadRef;
use object::read::ReadCache;
use vm_memory::{Bytes, GuestAddress, GuestMemoryError, GuestMemoryMmap};

use super::multiboot;

/// What is read of any file: enough for all headers at the start of an image.
const HEAD: usize = multiboot::SEARCH;

/// The contents.
#[derive(Clone, Debug)]
pub(super) enum Contents {
    /// No process shortens it meanwhile, or loading fails.
    File(Arc<File>),
    Bytes(Arc<[u8]>),
}

impl Contents {
    /// Those of a file. A pipe is read up to its end if `is_image` says of its first bytes that they are an image's.
    pub(super) fn open(path: &Path, is_image: impl Fn(&[u8]) -> bool) -> io::Result<Self> {
        let mut file = File::open(path)?;
        if file.metadata()?.is_file() {
            return Ok(Self::File(Arc::new(file)));
        }
        let mut bytes = head(&mut file)?;
        if is_image(&bytes) {
            file.read_to_end(&mut bytes)?;
        }
        Ok(Self::Bytes(bytes.into()))
    }

    /// The first bytes.
    pub(super) fn head(&self) -> io::Result<Vec<u8>> {
        match self {
            Self::File(file) => {
                let mut file = &**file;
                file.seek(SeekFrom::Start(0))?;
                head(&mut file)
            }
            Self::Bytes(bytes) => Ok(bytes[..bytes.len().min(HEAD)].to_vec()),
        }
    }

    /// Their length.
    pub(super) fn len(&self) -> io::Result<u64> {
        match self {
            Self::File(file) => Ok(file.metadata()?.len()),
            Self::Bytes(bytes) => Ok(bytes.len() as u64),
        }
    }

    /// Calls `parse` with what any place of the contents can be read from.
    pub(super) fn parsed<P: Parse>(&self, parse: P) -> P::Output {
        match self {
            Self::File(file) => parse.parse(&ReadCache::new(&**file)),
            Self::Bytes(bytes) => parse.parse(&bytes[..]),
        }
    }

    /// Copies a range into guest memory.
    pub(super) fn copy(
        &self,
        range: &Range<u64>,
        memory: &GuestMemoryMmap,
        at: GuestAddress,
    ) -> Result<(), GuestMemoryError> {
        let count = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        match self {
            Self::File(file) => {
                let mut file = &**file;
                file.seek(SeekFrom::Start(range.start))
                    .map_err(GuestMemoryError::IOError)?;
                memory.read_exact_volatile_from(at, &mut file, count)
            }
            Self::Bytes(bytes) => {
                let mut bytes = Cursor::new(bytes);
                bytes.set_position(range.start);
                memory.read_exact_volatile_from(at, &mut bytes, count)
            }
        }
    }
}

fn head(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(HEAD as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A function of contents, however they are read.
pub(super) trait Parse {
    /// What it returns.
    type Output;

    /// Calls it.
    fn parse<'d, R: ReadRef<'d>>(self, contents: R) -> Self::Output;
}
