//! Guest RAM and device memory: files that the monitor and the sandbox map.
//!
//! RAM is a file of the backend, or the file of the caller's memory. The sandbox maps device memory at its start: later
//! nothing in the sandbox may map anything. The thread that creates the guest runs this code.

use rustix::fs::SealFlags;
use stub::layout::{MAX_DEVICE_MAPPINGS, PATCH_BASE, PATCH_SIZE};
use vm_memory::{
    FileOffset, GuestAddress, GuestMemoryBackend, GuestMemoryMmap, GuestMemoryRegion, MmapRegion,
};
use vmbell_core::addresses::RAM_BASE;
use vmbell_hypervisor::{DeviceMemoryRule, Error, VmConfig};

use super::error::UsermodeError;
use super::irqchip::IOAPIC_BASE;
use super::mapping::{memory_file, seal};

/// Guest RAM and its file.
#[derive(Debug)]
pub struct Ram {
    /// The monitor's mapping.
    pub memory: GuestMemoryMmap,
    /// The file, and the offset at which RAM begins in it.
    pub file: FileOffset,
}

impl Ram {
    /// Returns the RAM that a checked `config` asks for.
    pub fn of(config: &VmConfig) -> Result<Self, Error> {
        match &config.memory {
            Some(memory) => Self::given(memory),
            None => Self::new(config.ram_size),
        }
    }

    fn new(size: u64) -> Result<Self, Error> {
        let file = memory_file(c"vmbell-ram", size)?;
        seal(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let file = FileOffset::new(file, 0);
        let bytes = usize::try_from(size).unwrap_or(usize::MAX);
        let range = (GuestAddress(RAM_BASE), bytes, Some(file.clone()));
        let memory = GuestMemoryMmap::from_ranges_with_files([range])
            .map_err(|source| Error::Memory { size, source })?;
        Ok(Self { memory, file })
    }

    /// Checks that the sandbox can map what the caller has mapped: an error during the sandbox's start could not say
    /// what is wrong with the memory.
    fn given(memory: &GuestMemoryMmap) -> Result<Self, Error> {
        let unshared = |what| Error::from(UsermodeError::MemoryNotShared { what });
        let region = memory.iter().next().ok_or(unshared("has no region"))?;
        let file = region
            .file_offset()
            .ok_or(unshared("is not a mapping of a file"))?;
        if region.flags() & libc::MAP_SHARED == 0 {
            return Err(unshared("is a private mapping"));
        }
        let metadata = file.file().metadata();
        let len = metadata
            .map_err(Error::system("find the size of the memory's file"))?
            .len();
        let end = file.start().checked_add(region.len());
        if end.is_none_or(|end| end > len) {
            return Err(unshared("ends past the end of its file"));
        }
        let protection = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
        MmapRegion::<()>::build(
            Some(file.clone()),
            region.size(),
            protection,
            libc::MAP_SHARED | libc::MAP_NORESERVE,
        )
        .map_err(|error| Error::System {
            operation: "map the memory's file for reading, writing and executing, as the sandbox does",
            source: std::io::Error::other(error),
        })?;
        Ok(Self {
            memory: memory.clone(),
            file: file.clone(),
        })
    }
}

/// Fails unless all device memory is where the sandbox has room, and not where the stub handles accesses itself.
pub fn check_device_memory(config: &VmConfig) -> Result<(), Error> {
    for (address, memory) in &config.device_memory {
        let refuse = |rule| {
            Err(Error::DeviceMemory {
                address: *address,
                size: memory.size,
                rule,
            })
        };
        let (first, end) = (PATCH_BASE + PATCH_SIZE, IOAPIC_BASE);
        if *address < first || address.saturating_add(memory.size) > end {
            return refuse(DeviceMemoryRule::Place { first, end });
        }
        if config.device_memory.len() > MAX_DEVICE_MAPPINGS {
            let most = MAX_DEVICE_MAPPINGS;
            return refuse(DeviceMemoryRule::Count { most });
        }
        // An error during the sandbox's start could not say what is wrong with the memory.
        memory.map()?;
    }
    Ok(())
}
