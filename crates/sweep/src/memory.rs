//! The guest's physical memory, in a paused VMM's process or in a snapshot's file.
//!
//! Guest memory begins at guest-physical address 0 and is one piece below 3 GiB, as in every VMM that the sweep starts.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Why guest memory cannot be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// The kernel refuses access to the process.
    #[error("process {pid} may not be read: run as root, or as the VMM's user with CAP_SYS_PTRACE")]
    Denied {
        /// The VMM.
        pid: u32,
    },
    /// A file cannot be opened or read.
    #[error("cannot read {path}: {source}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The process has no mapping, or more than one, that may be the guest's memory.
    #[error("{found} mappings of process {pid} have the guest memory's size of {len} bytes")]
    Mapping {
        /// The VMM.
        pid: u32,
        /// The size.
        len: u64,
        /// The number of mappings.
        found: usize,
    },
    /// The address is outside guest memory.
    #[error("guest address {address:#x} with {count} bytes is outside the memory of {len} bytes")]
    Outside {
        /// The guest-physical address.
        address: u64,
        /// The number of bytes.
        count: usize,
        /// The size of guest memory.
        len: u64,
    },
    /// The file ends before guest memory does: the snapshot is incomplete.
    #[error("{path} ends before guest address {address:#x}", path = path.display())]
    CutShort {
        /// The file.
        path: PathBuf,
        /// The guest-physical address.
        address: u64,
    },
}

/// Guest-physical memory from address 0 on.
#[derive(Debug)]
pub struct GuestMemory {
    file: File,
    path: PathBuf,
    /// The file's offset of guest address 0.
    base: u64,
    len: u64,
}

impl GuestMemory {
    /// The memory of `len` bytes of the VM that a process runs.
    pub fn of_process(pid: u32, len: u64) -> Result<Self, MemoryError> {
        let denied = |path: PathBuf| {
            move |source: io::Error| match source.kind() {
                ErrorKind::PermissionDenied => MemoryError::Denied { pid },
                _ => MemoryError::Read { path, source },
            }
        };
        let maps = PathBuf::from(format!("/proc/{pid}/maps"));
        let text = fs::read_to_string(&maps).map_err(denied(maps))?;
        let starts = mappings(&text, len);
        let [base] = starts[..] else {
            let found = starts.len();
            return Err(MemoryError::Mapping { pid, len, found });
        };
        let path = PathBuf::from(format!("/proc/{pid}/mem"));
        let file = File::open(&path).map_err(denied(path.clone()))?;
        Ok(Self {
            file,
            path,
            base,
            len,
        })
    }

    /// The memory of `len` bytes in a file that begins with guest address 0.
    pub fn of_file(path: &Path, len: u64) -> Result<Self, MemoryError> {
        let opened = OpenOptions::new().read(true).write(true).open(path);
        let file = opened.map_err(|source| MemoryError::Read {
            path: path.to_owned(),
            source,
        })?;
        Ok(Self {
            file,
            path: path.to_owned(),
            base: 0,
            len,
        })
    }

    /// Copies `N` bytes from a guest-physical address.
    pub fn read<const N: usize>(&self, address: u64) -> Result<[u8; N], MemoryError> {
        let mut bytes = [0; N];
        let place = self.place(address, N)?;
        let read = self.file.read_exact_at(&mut bytes, place);
        read.map_err(|source| self.failed(source, address))?;
        Ok(bytes)
    }

    /// Copies a little-endian number of two bytes.
    pub fn read_u16(&self, address: u64) -> Result<u16, MemoryError> {
        self.read(address).map(u16::from_le_bytes)
    }

    /// Writes a little-endian number of two bytes into a snapshot's file.
    pub fn write_u16(&self, address: u64, value: u16) -> Result<(), MemoryError> {
        let place = self.place(address, size_of::<u16>())?;
        let written = self.file.write_all_at(&value.to_le_bytes(), place);
        written.map_err(|source| self.failed(source, address))
    }

    fn place(&self, address: u64, count: usize) -> Result<u64, MemoryError> {
        let end = address.checked_add(count as u64);
        let is_inside = end.is_some_and(|end| end <= self.len);
        let place = self.base.checked_add(address).filter(|_| is_inside);
        place.ok_or(MemoryError::Outside {
            address,
            count,
            len: self.len,
        })
    }

    fn failed(&self, source: io::Error, address: u64) -> MemoryError {
        let path = self.path.clone();
        match source.kind() {
            ErrorKind::UnexpectedEof => MemoryError::CutShort { path, address },
            _ => MemoryError::Read { path, source },
        }
    }
}

/// The start addresses of all writable mappings of this length in a `/proc/PID/maps`.
fn mappings(maps: &str, len: u64) -> Vec<u64> {
    let start = |line: &str| {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let [start, end] = [start, end].map(|text| u64::from_str_radix(text, 16).ok());
        let (start, end) = (start?, end?);
        (rest.starts_with("rw") && end.checked_sub(start)? == len).then_some(start)
    };
    maps.lines().filter_map(start).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use proptest::prelude::*;
    use tempfile::NamedTempFile;

    use super::*;

    const MAPS: &str = "\
00400000-00452000 r-xp 00000000 08:02 173521 /usr/bin/vmm
7f0000000000-7f0001000000 rw-s 00000000 00:01 1024 /dev/shm/ram
7f0001000000-7f0002000000 r--p 00000000 00:00 0
7f0002000000-7f0002800000 rw-p 00000000 00:00 0 [stack]
";

    #[test]
    fn guest_memory_is_the_writable_mapping_of_its_size() {
        assert_eq!(mappings(MAPS, 16 << 20), [0x7f00_0000_0000]);
        assert_eq!(mappings(MAPS, 1 << 20), [0_u64; 0]);
    }

    #[test]
    fn this_process_has_no_mapping_of_an_odd_size() {
        let error = GuestMemory::of_process(std::process::id(), 12345).unwrap_err();
        assert!(
            matches!(error, MemoryError::Mapping { found: 0, .. }),
            "{error}"
        );
    }

    #[test]
    fn a_snapshot_that_was_cut_short_is_an_error() {
        let mut file = NamedTempFile::new().unwrap();
        file.write_all(&[7; 100]).unwrap();
        let memory = GuestMemory::of_file(file.path(), 4096).unwrap();
        assert_eq!(memory.read_u16(98).unwrap(), 0x0707);
        assert!(matches!(
            memory.read_u16(99),
            Err(MemoryError::CutShort { .. })
        ));
        memory.write_u16(10, 0x1234).unwrap();
        assert_eq!(memory.read::<4>(9).unwrap(), [7, 0x34, 0x12, 7]);
    }

    proptest! {
        #[test]
        fn no_address_reaches_beyond_the_memory(address: u64) {
            let file = NamedTempFile::new().unwrap();
            file.as_file().set_len(8192).unwrap();
            let memory = GuestMemory::of_file(file.path(), 4096).unwrap();
            prop_assert_eq!(memory.read_u16(address).is_ok(), address <= 4094);
        }

        #[test]
        fn any_maps_are_read(text in "([0-9a-f]{1,18}-[0-9a-f]{1,18} rw.{0,8}\n|.{0,40}\n){0,8}", len: u64) {
            let _ = mappings(&text, len);
        }
    }
}
