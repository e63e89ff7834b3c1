//! Guest memory that another process can map, too: that of a file without a name.

use std::fs::File;
use std::io;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use vm_memory::{FileOffset, GuestAddress, GuestMemoryMmap};

/// Makes one region of memory. The file's size cannot change, so whoever maps it cannot take it away.
///
/// # Errors
///
/// If the host has no such memory left.
pub fn shared_memory(base: GuestAddress, size: u64) -> io::Result<GuestMemoryMmap> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = File::from(memfd_create(c"vmbell-memory", flags)?);
    file.set_len(size)?;
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    let len = usize::try_from(size).map_err(io::Error::other)?;
    let range = (base, len, Some(FileOffset::new(file, 0)));
    GuestMemoryMmap::from_ranges_with_files([range]).map_err(io::Error::other)
}

#[cfg(test)]
#[cfg(not(miri))]
mod tests {
    use std::os::unix::fs::FileExt;

    use vm_memory::{Bytes, GuestMemoryBackend, GuestMemoryRegion};

    use super::*;

    #[test]
    fn what_is_written_to_the_memory_is_in_the_file_whose_size_stays() {
        let memory = shared_memory(GuestAddress(0x1000), 0x2000).unwrap();
        memory.write_slice(b"here", GuestAddress(0x1800)).unwrap();
        let file = memory.iter().next().unwrap().file_offset().unwrap();
        let mut bytes = [0; 4];
        file.file().read_exact_at(&mut bytes, 0x800).unwrap();
        assert_eq!(&bytes, b"here");
        assert!(file.file().set_len(0).is_err());
    }
}
