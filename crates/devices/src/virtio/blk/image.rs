//! Checks whether a file can be a disk, and recognizes image formats.

use std::fs::{File, Metadata};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt};

/// Bytes of the first sector.
const HEAD: usize = 512;
/// Bytes of a sector.
pub(super) const SECTOR: u64 = 512;

/// Formats of images, with the offset and the bytes that identify them.
const FORMATS: [(&str, usize, &[u8]); 7] = [
    ("qcow2", 0, b"QFI\xfb"),
    ("VMDK", 0, b"KDMV"),
    ("VMDK", 0, b"COWD"),
    ("VMDK", 0, b"# Disk DescriptorFile"),
    ("VHDX", 0, b"vhdxfile"),
    ("VHD", 0, b"conectix"),
    ("VDI", 0x40, b"\x7f\x10\xda\xbe"),
];

/// Why a file cannot be a disk.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiskError {
    /// The file is neither a file with contents nor a block device.
    #[error("it is {kind}, but a disk is a file or a block device")]
    Kind {
        /// The kind of the file.
        kind: &'static str,
    },
    /// The file has no whole sector.
    #[error("its size is {len} bytes, but a disk has at least one sector of 512 bytes")]
    Short {
        /// The file's size in bytes.
        len: u64,
    },
    /// Another program uses the file.
    #[error("another program, such as the VMM of another guest, {how}")]
    Locked {
        /// What the other program does.
        how: &'static str,
    },
    /// The host could not do what the disk needs.
    #[error("cannot {operation}")]
    System {
        /// What the host could not do.
        operation: &'static str,
        /// The host's error.
        source: io::Error,
    },
}

impl DiskError {
    pub(super) const fn system(operation: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { operation, source }
    }
}

/// Fails if the file is not a file with contents or a block device. Other kinds have no size or no positions, and
/// opening a pipe waits for its other end.
pub(super) fn check(found: &Metadata) -> Result<(), DiskError> {
    let kind = match found.file_type() {
        found if found.is_file() || found.is_block_device() => return Ok(()),
        found if found.is_dir() => "a folder",
        found if found.is_char_device() => "a character device",
        found if found.is_fifo() => "a pipe",
        _ => "a socket",
    };
    Err(DiskError::Kind { kind })
}

/// The size of a disk's file in bytes: at least a sector.
pub(super) fn len(mut file: &File) -> Result<u64, DiskError> {
    let len = file.seek(SeekFrom::End(0));
    let len = len.map_err(DiskError::system("find out its size"))?;
    if len < SECTOR {
        return Err(DiskError::Short { len });
    }
    Ok(len)
}

/// The image format that the first sector belongs to, if it is known. If the sector cannot be read, returns `None`: the
/// guest gets the error.
pub(super) fn format(file: &File) -> Option<&'static str> {
    let mut head = [0; HEAD];
    file.read_exact_at(&mut head, 0).ok()?;
    let is_it = |(_, at, bytes): &&(_, usize, &[u8])| head[*at..].starts_with(bytes);
    FORMATS.iter().find(is_it).map(|(name, ..)| *name)
}
