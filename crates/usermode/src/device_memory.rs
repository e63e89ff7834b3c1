//! Device memory in the sandbox, which maps it at its start: later nothing in the sandbox may map anything. The checks
//! run on the thread that creates the guest.

use stub::layout::{MAX_DEVICE_MAPPINGS, PATCH_BASE, PATCH_SIZE};

use super::irqchip::IOAPIC_BASE;
use vmbell_hypervisor::{DeviceMemoryRule, Error, VmConfig};

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
        // The error of the sandbox that starts could not say what is wrong with it.
        memory.map()?;
    }
    Ok(())
}
