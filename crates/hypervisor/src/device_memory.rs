//! Device memory that the guest accesses without an exit, the trait that maps it into a guest, and guest memory that
//! another process can also map: an unnamed file.

use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use rustix::fs::{FileType, MemfdFlags, SealFlags, fcntl_add_seals, fstat, memfd_create};
use vm_memory::{FileOffset, GuestAddress, GuestMemoryMmap, MmapRegion};
use vmbell::irq::Gsi;
use vmbell_core::addresses::PAGE;

use super::error::{DeviceMemoryRule, Error};
use super::irqs::ForwardedInterrupt;

/// A part of a file that is mapped into the guest as memory, such as the registers of a device (a VFIO region) or a
/// memory file that a device model reads.
#[derive(Clone, Debug)]
pub struct DeviceMemory {
    /// The file, which can be mapped as shared memory. No process may truncate it while the guest has the memory.
    pub file: Arc<File>,
    /// The offset of the memory in the file, in bytes; a multiple of 4096.
    pub offset: u64,
    /// The size of the memory in bytes; a multiple of 4096.
    pub size: u64,
    /// Whether the guest may write to the memory. Otherwise a store exits, like a store to an address without memory.
    pub writable: bool,
}

/// What a backend does for devices that are assigned to a guest: it maps their memory and registers their VFIO files.
/// Every [`Vm`](super::Vm) implements this trait; its functions may be called from any thread.
pub trait AssignedDevices: Send + Sync {
    /// Maps `memory` at guest-physical `address` while the guest exists. Needs
    /// [`Capability::MovableDeviceMemory`](super::Capability::MovableDeviceMemory); without it,
    /// [`VmConfig::device_memory`](super::VmConfig::device_memory) is the only way. Fails if RAM or other device memory
    /// is at that address.
    fn map_device_memory(&self, address: u64, memory: &DeviceMemory) -> Result<(), Error>;

    /// Unmaps the memory at `address`. Once this returns, no vCPU can access it. It is not an error if nothing is
    /// mapped there.
    fn unmap_device_memory(&self, address: u64) -> Result<(), Error>;

    /// Adds a VFIO file, a group's or a device's, to the backend before one of its devices is opened (Linux
    /// `Documentation/virt/kvm/devices/vfio.rst`). A backend that has no use for the file does nothing.
    fn add_vfio_file(&self, file: BorrowedFd<'_>) -> Result<(), Error>;

    /// Removes a VFIO file from the backend. The guest no longer has any of its devices.
    fn remove_vfio_file(&self, file: BorrowedFd<'_>) -> Result<(), Error>;

    /// Forwards interrupt `index` of a VFIO device, which is level-triggered, to the line `gsi`: the guest's EOI
    /// completes the physical interrupt. Needs
    /// [`Capability::ForwardedInterrupts`](super::Capability::ForwardedInterrupts), and all vCPUs.
    fn forward_interrupt(
        &self,
        device: &Arc<File>,
        index: u32,
        gsi: Gsi,
    ) -> Result<Box<dyn ForwardedInterrupt>, Error>;
}

impl DeviceMemory {
    /// Fails unless the memory is whole pages at a page-aligned address and overlaps no guest-physical range in
    /// `taken`.
    pub fn check(
        &self,
        address: u64,
        taken: impl IntoIterator<Item = (u64, u64)>,
    ) -> Result<(), Error> {
        let refuse = |rule| {
            Err(Error::DeviceMemory {
                address,
                size: self.size,
                rule,
            })
        };
        let paged = [address, self.offset, self.size];
        if self.size == 0 || paged.iter().any(|value| !value.is_multiple_of(PAGE)) {
            return refuse(DeviceMemoryRule::Pages);
        }
        let (Some(end), Some(file_end)) = (
            address.checked_add(self.size),
            self.offset.checked_add(self.size),
        ) else {
            return refuse(DeviceMemoryRule::Wraps);
        };
        if let Some(len) = self.file_len().filter(|len| *len < file_end) {
            return refuse(DeviceMemoryRule::File { len });
        }
        for (start, len) in taken {
            if address < start.saturating_add(len) && start < end {
                return refuse(DeviceMemoryRule::Overlap { start, len });
            }
        }
        Ok(())
    }

    /// Maps the memory into this process.
    pub fn map(&self) -> Result<MmapRegion<()>, Error> {
        let failed = Error::system::<std::io::Error>("map device memory");
        let file = self.file.try_clone().map_err(failed)?;
        let size = usize::try_from(self.size).unwrap_or(usize::MAX);
        let write = if self.writable { libc::PROT_WRITE } else { 0 };
        MmapRegion::build(
            Some(FileOffset::new(file, self.offset)),
            size,
            libc::PROT_READ | write,
            libc::MAP_SHARED,
        )
        .map_err(|error| failed(std::io::Error::other(error)))
    }

    /// Returns the length of the file; `None` for the file of a device.
    fn file_len(&self) -> Option<u64> {
        // Not `File::metadata`: a VMM that confines itself cannot allow statx(2), which takes a path.
        let status = fstat(&self.file).ok()?;
        let is_file = FileType::from_raw_mode(status.st_mode) == FileType::RegularFile;
        is_file.then_some(status.st_size.cast_unsigned())
    }
}

/// Makes one region of memory from an unnamed file. The file's size is sealed, so no other process can truncate it.
///
/// # Errors
///
/// Fails if the host does not have enough memory for it.
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
