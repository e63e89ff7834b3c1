//! Memory slots: they map the VMM's memory to guest-physical addresses (KVM_SET_USER_MEMORY_REGION). RAM is set by the
//! thread that creates the guest, device memory by any thread.
#![allow(unsafe_code)]

use kvm_bindings::{KVM_MEM_READONLY, kvm_userspace_memory_region};
use kvm_ioctls::VmFd;
use vm_memory::{GuestAddress, GuestMemoryBackend, GuestMemoryMmap, GuestMemoryRegion, MmapRegion};

use super::super::{DeviceMemory, Error};

use vmbell::sync::Mutex;

/// Maps `size` bytes of new memory for guest-physical addresses from `base`.
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
    devices: Mutex<Devices>,
}

/// The device memory of a guest.
#[derive(Debug, Default)]
struct Devices {
    mapped: Vec<DeviceSlot>,
    /// Numbers of slots that are free again.
    free: Vec<u32>,
}

#[derive(Debug)]
struct DeviceSlot {
    slot: u32,
    address: u64,
    memory: MmapRegion<()>,
}

impl Slots {
    /// Makes the slots of a VM that has no memory yet.
    pub fn new(vm: VmFd) -> Self {
        Self {
            vm,
            memory: Vec::new(),
            next: 0,
            devices: Mutex::default(),
        }
    }

    /// The VM.
    pub const fn vm(&self) -> &VmFd {
        &self.vm
    }

    /// Adds `memory` as memory slots at its guest-physical addresses. If a slot fails, the VM keeps the slots before
    /// it.
    pub fn add(&mut self, memory: &GuestMemoryMmap) -> Result<(), Error> {
        self.memory.push(memory.clone());
        for region in memory.iter() {
            let slot = kvm_userspace_memory_region {
                slot: self.next,
                flags: 0,
                guest_phys_addr: region.start_addr().0,
                memory_size: region.len(),
                userspace_addr: region.as_ptr() as u64,
            };
            // SAFETY: `region` is a mapping of this address and length. `self.memory` got a handle to it above, and
            // lives until after `vm` is closed. KVM refuses overlapping slots.
            unsafe { self.vm.set_user_memory_region(slot) }
                .map_err(Error::system("give the guest memory"))?;
            self.next += 1;
        }
        Ok(())
    }

    /// Maps device memory into the guest at `address`.
    pub fn map_device(&self, address: u64, memory: &DeviceMemory) -> Result<(), Error> {
        let mut devices = self.devices.lock();
        let ram = self.memory.iter().flat_map(|memory| memory.iter());
        let ram = ram.map(|region| (region.start_addr().0, region.len()));
        let others = devices.mapped.iter();
        let others = others.map(|other| (other.address, other.memory.size() as u64));
        memory.check(address, ram.chain(others))?;
        let mapping = memory.map()?;
        let used = devices.mapped.len() + devices.free.len();
        let fresh = self.next + u32::try_from(used).unwrap_or(u32::MAX - self.next);
        let slot = devices.free.pop().unwrap_or(fresh);
        let request = kvm_userspace_memory_region {
            slot,
            flags: if memory.writable { 0 } else { KVM_MEM_READONLY },
            guest_phys_addr: address,
            memory_size: memory.size,
            userspace_addr: mapping.as_ptr() as u64,
        };
        // SAFETY: `mapping` has this address and size. On success `self.devices` owns it until the slot is removed or
        // `vm` is closed.
        let result = unsafe { self.vm.set_user_memory_region(request) };
        if let Err(error) = result {
            devices.free.push(slot);
            return Err(Error::system("give the guest device memory")(error));
        }
        devices.mapped.push(DeviceSlot {
            slot,
            address,
            memory: mapping,
        });
        Ok(())
    }

    /// Unmaps the device memory at `address` from the guest.
    pub fn unmap_device(&self, address: u64) -> Result<(), Error> {
        let mut devices = self.devices.lock();
        let found = devices.mapped.iter();
        let Some(index) = found
            .map(|device| device.address)
            .position(|at| at == address)
        else {
            return Ok(());
        };
        let slot = devices.mapped[index].slot;
        let request = kvm_userspace_memory_region {
            slot,
            guest_phys_addr: address,
            ..kvm_userspace_memory_region::default()
        };
        // SAFETY: a size of 0 removes the slot; the kernel no longer uses the mapping when this returns.
        unsafe { self.vm.set_user_memory_region(request) }
            .map_err(Error::system("take device memory from the guest"))?;
        devices.mapped.swap_remove(index);
        devices.free.push(slot);
        Ok(())
    }
}

#[cfg(test)]
#[cfg(not(miri))]
#[path = "memory_test.rs"]
mod tests;
