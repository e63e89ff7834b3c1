//! Memory slots: which of the VMM's memory is the guest's.
#![allow(unsafe_code)]

use kvm_bindings::kvm_userspace_memory_region;
use kvm_ioctls::VmFd;
use vm_memory::{GuestAddress, GuestMemoryBackend, GuestMemoryMmap, GuestMemoryRegion};

use super::super::Error;

/// Maps fresh memory of this size for guest-physical addresses from `base`.
pub fn map(base: u64, size: u64) -> Result<GuestMemoryMmap, Error> {
    let bytes = usize::try_from(size).unwrap_or(usize::MAX);
    GuestMemoryMmap::from_ranges(&[(GuestAddress(base), bytes)])
        .map_err(|source| Error::Memory { size, source })
}

/// A VM with the memory that it can reach, which therefore lives as long.
#[derive(Debug)]
pub struct Slots {
    // Dropped first: a guest without a VM has no way to its memory.
    vm: VmFd,
    memory: Vec<GuestMemoryMmap>,
    next: u32,
}

impl Slots {
    /// A VM without memory.
    pub const fn new(vm: VmFd) -> Self {
        Self {
            vm,
            memory: Vec::new(),
            next: 0,
        }
    }

    /// The VM.
    pub const fn vm(&self) -> &VmFd {
        &self.vm
    }

    /// Lets the guest see this memory at its addresses.
    pub fn add(&mut self, memory: &GuestMemoryMmap) -> Result<(), Error> {
        for region in memory.iter() {
            let slot = kvm_userspace_memory_region {
                slot: self.next,
                flags: 0,
                guest_phys_addr: region.start_addr().0,
                memory_size: region.len(),
                userspace_addr: region.as_ptr() as u64,
            };
            // SAFETY: `region` is a mapping of this address and length. `self.memory` gets a handle
            // to it below, and lives until after `vm` is closed. KVM refuses overlapping slots.
            unsafe { self.vm.set_user_memory_region(slot) }
                .map_err(Error::system("give the guest memory"))?;
            self.next += 1;
        }
        self.memory.push(memory.clone());
        Ok(())
    }
}
