//! A saved PC as two files of a folder: `state`, a header and the [`PcState`] as JSON, and `memory`, the guest's RAM.
//!
//! The header has a magic text, the version of the format, the lengths of both parts, and a checksum of itself and the
//! JSON. A state that is cut, changed or of another version is refused, and serde names a field that is missing or
//! unknown. The RAM has no checksum: a restore would have to read all of it, and instead maps it copy-on-write, so that
//! only the pages that the guest uses are read. Any number of guests can be restored from one folder at the same time.
//! `memory` is sparse, without pages of zeros. No process may truncate it while a restored guest runs.
//!
//! [`write()`] makes the folder under another name, syncs it and renames it, so a folder with the right name is
//! complete. Only its owner can read it. The calling thread does all of it.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, open, openat};
use vm_memory::mmap::MmapRegionBuilder;
use vm_memory::{
    Bytes, FileOffset, GuestAddress, GuestMemoryBackend, GuestMemoryMmap, GuestMemoryRegion,
    GuestRegionMmap,
};

use crate::pc::PcState;
use crate::ram::MEMORY_MAX;

/// The version of the format, including that of [`PcState`].
pub const SNAPSHOT_VERSION: u32 = 1;

const MAGIC: [u8; 16] = *b"vmbell snapshot\n";
/// Magic text, version, length of the JSON, length of the RAM, checksum.
const HEADER: usize = 16 + 4 + 8 + 8 + 8;
/// Where the checksum is.
const CHECKSUM: usize = HEADER - 8;
/// The maximum length of the JSON, which is enough for the maximum number of vCPUs.
const STATE_MAX: u64 = 8 << 20;
const PAGE: usize = 4096;

const STATE_FILE: &str = "state";
const MEMORY_FILE: &str = "memory";

/// Why a snapshot cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotFileError {
    /// A file or the folder could not be accessed.
    #[error("cannot {operation} {}", path.display())]
    File {
        /// What should have been done.
        operation: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The error of the system call.
        source: io::Error,
    },
    /// The folder exists already.
    #[error("{} exists already", path.display())]
    Exists {
        /// The folder.
        path: PathBuf,
    },
    /// The state is not one that this version wrote.
    #[error("this is not the state of a snapshot: {what}")]
    Format {
        /// What is wrong.
        what: String,
    },
    /// The state has a field that is missing, unknown or not of its type.
    #[error("the state of the snapshot has a wrong field")]
    Field(#[source] serde_json::Error),
    /// The guest's RAM could not be read or mapped.
    #[error("cannot {operation} the guest's memory")]
    Memory {
        /// What should have been done.
        operation: &'static str,
        /// The error.
        source: io::Error,
    },
}

/// A snapshot that was read.
#[derive(Debug)]
pub struct Snapshot {
    /// The state of the PC.
    pub state: PcState,
    /// Its RAM, mapped copy-on-write.
    pub memory: GuestMemoryMmap,
}

impl Snapshot {
    /// Reads the snapshot in a folder, and maps its memory.
    ///
    /// # Errors
    ///
    /// If the folder is not a snapshot of this version, or a file cannot be read or mapped.
    pub fn open(folder: &Path) -> Result<Self, SnapshotFileError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = open(folder, flags, Mode::empty());
        let opened = opened.map_err(|errno| file_error("open", folder, errno.into()))?;

        let (path, file) = open_in(folder, &opened, STATE_FILE)?;
        let failed = |source| file_error("read", &path, source);
        let mut bytes = Vec::new();
        let most = STATE_MAX + HEADER as u64 + 1;
        file.take(most).read_to_end(&mut bytes).map_err(failed)?;
        let state = decode(&bytes)?;

        let (path, file) = open_in(folder, &opened, MEMORY_FILE)?;
        let failed = |source| file_error("read", &path, source);
        let (len, expected) = (file.metadata().map_err(failed)?.len(), state.memory());
        if len != expected {
            return Err(format_error(format!(
                "its memory has {len} bytes, not {expected}"
            )));
        }
        let memory = map(file, len)?;
        Ok(Self { state, memory })
    }
}

/// Opens a regular file of an open folder. A hostile folder may have a link to a file of another guest in its place, or
/// a pipe, which would block the call.
fn open_in(
    folder: &Path,
    opened: &OwnedFd,
    name: &str,
) -> Result<(PathBuf, File), SnapshotFileError> {
    let path = folder.join(name);
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = openat(opened, name, flags, Mode::empty()).map_err(io::Error::from);
    let file = file.map(File::from).and_then(|file| {
        if file.metadata()?.is_file() {
            return Ok(file);
        }
        let what = "it is not a regular file";
        Err(io::Error::new(io::ErrorKind::InvalidInput, what))
    });
    match file {
        Ok(file) => Ok((path, file)),
        Err(source) => Err(file_error("open", &path, source)),
    }
}

/// Writes a snapshot into a new folder.
///
/// # Errors
///
/// If the folder exists, or a file cannot be written. There is then no folder of this name.
pub fn write(
    folder: &Path,
    state: &PcState,
    memory: &GuestMemoryMmap,
) -> Result<(), SnapshotFileError> {
    if folder.exists() {
        let path = folder.to_owned();
        return Err(SnapshotFileError::Exists { path });
    }
    let partial = make_partial(folder)?;
    let written = write_files(&partial, state, memory).and_then(|()| {
        fs::rename(&partial, folder).map_err(|source| file_error("make", folder, source))
    });
    if written.is_err() {
        // The first error is the one to report.
        let _ = fs::remove_dir_all(&partial);
        return written;
    }
    let parent = folder.parent().filter(|parent| *parent != Path::new(""));
    let synced = sync_folder(parent.unwrap_or(Path::new(".")));
    if synced.is_err() {
        let _ = fs::remove_dir_all(folder);
    }
    synced
}

/// Makes a folder with a name that is not in use: a killed process may have left its folder, and in a container the
/// next process has the same number.
fn make_partial(folder: &Path) -> Result<PathBuf, SnapshotFileError> {
    let mut number: u64 = 0;
    loop {
        let mut name = folder.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{number}.partial"));
        let partial = folder.with_file_name(name);
        match fs::DirBuilder::new().mode(0o700).create(&partial) {
            Ok(()) => return Ok(partial),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(source) => return Err(file_error("make", &partial, source)),
        }
    }
}

fn write_files(
    folder: &Path,
    state: &PcState,
    memory: &GuestMemoryMmap,
) -> Result<(), SnapshotFileError> {
    let bytes = encode(state)?;
    // The guest's memory can have secrets of its users.
    let make = |path: &Path| {
        let mut options = File::options();
        options.write(true).create_new(true).mode(0o600).open(path)
    };
    let path = folder.join(STATE_FILE);
    let written = make(&path).and_then(|mut file| {
        file.write_all(&bytes)?;
        file.sync_all()
    });
    written.map_err(|source| file_error("write", &path, source))?;
    let path = folder.join(MEMORY_FILE);
    let file = make(&path).map_err(|source| file_error("write", &path, source))?;
    write_memory(&file, memory)?;
    file.sync_all()
        .map_err(|source| file_error("write", &path, source))?;
    sync_folder(folder)
}

/// Makes the names in a folder durable.
fn sync_folder(folder: &Path) -> Result<(), SnapshotFileError> {
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(|source| file_error("write", folder, source))
}

/// Writes the pages that are not all zeros.
fn write_memory(file: &File, memory: &GuestMemoryMmap) -> Result<(), SnapshotFileError> {
    let failed = |source| SnapshotFileError::Memory {
        operation: "write",
        source,
    };
    let mut page = [0; PAGE];
    for region in memory.iter() {
        file.set_len(region.len()).map_err(failed)?;
        for at in (0..region.len()).step_by(PAGE) {
            let place = GuestAddress(region.start_addr().0 + at);
            let read = memory.read_slice(&mut page, place);
            read.map_err(|error| failed(io::Error::other(error)))?;
            if page.iter().any(|byte| *byte != 0) {
                file.write_all_at(&page, at).map_err(failed)?;
            }
        }
    }
    Ok(())
}

/// Maps the RAM copy-on-write: what the guest writes does not reach the file.
fn map(file: File, len: u64) -> Result<GuestMemoryMmap, SnapshotFileError> {
    let failed = |source| SnapshotFileError::Memory {
        operation: "map",
        source,
    };
    let size = usize::try_from(len).map_err(|error| failed(io::Error::other(error)))?;
    let region = MmapRegionBuilder::new(size)
        .with_file_offset(FileOffset::new(file, 0))
        .with_mmap_prot(libc::PROT_READ | libc::PROT_WRITE)
        .with_mmap_flags(libc::MAP_PRIVATE | libc::MAP_NORESERVE)
        .build();
    let region = region.map_err(|error| failed(io::Error::other(error)))?;
    let region = GuestRegionMmap::new(region, GuestAddress(0));
    let region = region.ok_or_else(|| failed(io::ErrorKind::InvalidInput.into()))?;
    let memory = GuestMemoryMmap::from_regions(vec![region]);
    memory.map_err(|error| failed(io::Error::other(error)))
}

fn encode(state: &PcState) -> Result<Vec<u8>, SnapshotFileError> {
    let json = serde_json::to_vec(state).map_err(SnapshotFileError::Field)?;
    let mut bytes = Vec::with_capacity(HEADER + json.len());
    bytes.extend(MAGIC);
    bytes.extend(SNAPSHOT_VERSION.to_le_bytes());
    bytes.extend((json.len() as u64).to_le_bytes());
    bytes.extend(state.memory().to_le_bytes());
    let checksum = checksum(&bytes, &json);
    bytes.extend(checksum.to_le_bytes());
    bytes.extend(json);
    Ok(bytes)
}

/// Reads the bytes of a `state` file, which may be hostile.
///
/// # Errors
///
/// If they are not a state of this version.
pub fn decode(bytes: &[u8]) -> Result<PcState, SnapshotFileError> {
    let Some((header, json)) = bytes.split_first_chunk::<HEADER>() else {
        return Err(format_error("it has no header"));
    };
    let word = |at: usize| {
        let word = header[at..].iter().take(8).rev();
        word.fold(0, |word, byte| word << 8 | u64::from(*byte))
    };
    if header[..16] != MAGIC {
        return Err(format_error("it does not begin with its magic text"));
    }
    let version = word(16) & 0xffff_ffff;
    if version != u64::from(SNAPSHOT_VERSION) {
        return Err(format_error(format!(
            "its version is {version}, not {SNAPSHOT_VERSION}"
        )));
    }
    let (len, memory) = (word(20), word(28));
    if len != json.len() as u64 {
        let here = json.len();
        return Err(format_error(format!(
            "{here} bytes follow its header, not {len}"
        )));
    }
    if word(CHECKSUM) != checksum(&header[..CHECKSUM], json) {
        return Err(format_error("its checksum is wrong"));
    }
    let state: PcState = serde_json::from_slice(json).map_err(SnapshotFileError::Field)?;
    let is_ram = memory > 0 && memory <= MEMORY_MAX && memory.is_multiple_of(PAGE as u64);
    if state.memory() != memory || !is_ram {
        return Err(format_error(format!("it has {memory} bytes of memory")));
    }
    Ok(state)
}

/// FNV-1a with 64 bits, which differs for any two inputs that differ in one byte. It finds accidents, not forgeries.
fn checksum(header: &[u8], json: &[u8]) -> u64 {
    let bytes = header.iter().chain(json);
    bytes.fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    })
}

fn file_error(operation: &'static str, path: &Path, source: io::Error) -> SnapshotFileError {
    SnapshotFileError::File {
        operation,
        path: path.to_owned(),
        source,
    }
}

fn format_error(what: impl Into<String>) -> SnapshotFileError {
    SnapshotFileError::Format { what: what.into() }
}
