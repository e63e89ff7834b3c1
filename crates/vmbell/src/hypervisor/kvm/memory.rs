//! Memory slots: which memory of the VMM is guest memory at which address (KVM_SET_USER_MEMORY_REGION). Set by
//! the thread that creates the guest.
#![allow(unsafe_code)]

use kvm_bindings::kvm_userspace_memory_region;
use kvm_ioctls::VmFd;
use vm_memory::{GuestAddress, GuestMemoryBackend, GuestMemoryMmap, GuestMemoryRegion};

use super::super::Error;

/// Maps new memory of `size` bytes for guest-physical addresses from `base`.
pub fn map(base: u64, size: u64) -> Result<GuestMemoryMmap, Error> {
    let bytes = usize::try_from(size).unwrap_or(usize::MAX);
    GuestMemoryMmap::from_ranges(&[(GuestAddress(base), bytes)])
        .map_err(|source| Error::Memory { size, source })
}

/// A VM and its guest memory, which stays mapped as long as the VM exists.
#[derive(Debug)]
pub struct Slots {
    // Dropped first: without the VM the guest can no longer reach its memory.
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

    /// Adds `memory` as memory slots at its guest-physical addresses.
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
