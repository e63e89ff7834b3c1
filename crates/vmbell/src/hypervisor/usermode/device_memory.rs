//! Device memory in the sandbox, which maps it at its start: later nothing in the sandbox may map anything. The checks
//! run on the thread that creates the guest.

use stub::layout::{MAX_DEVICE_MAPPINGS, PATCH_BASE, PATCH_SIZE};
use vm_memory::{FileOffset, MmapRegion};

use super::super::{DeviceMemory, DeviceMemoryRule, Error, VmConfig};
use super::irqchip::IOAPIC_BASE;

/// Fails unless all device memory is where the sandbox has room for it, and not where the stub answers.
pub fn check(config: &VmConfig) -> Result<(), Error> {
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
        check_file(memory)?;
    }
    Ok(())
}

/// Maps device memory once, since the error of the sandbox that starts could not say what is wrong with it.
fn check_file(memory: &DeviceMemory) -> Result<(), Error> {
    let failed = Error::system("map device memory");
    let file = memory.file.try_clone().map_err(failed)?;
    let size = usize::try_from(memory.size).unwrap_or(usize::MAX);
    let write = if memory.writable { libc::PROT_WRITE } else { 0 };
    MmapRegion::<()>::build(
        Some(FileOffset::new(file, memory.offset)),
        size,
        libc::PROT_READ | write,
        libc::MAP_SHARED,
    )
    .map_err(|error| failed(std::io::Error::other(error)))?;
    Ok(())
}
