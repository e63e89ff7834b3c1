//! Configuration space in memory (ECAM, PCI Express 5.0, 7.2.2), on boards without configuration ports. An access takes
//! one exit; through the ports, it takes two. Registers in shared memory ([`ConfigPages`]) are read without an exit.
//!
//! Bits 19 to 15 of an address select the slot, bits 14 to 12 select the function, and the lower bits select the
//! register. Functions have the 256 bytes of PCI 3.0; the bytes above read as ones. Runs on the thread of the vCPU that
//! makes the access.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use vm_memory::{Bytes, GuestAddress, GuestMemoryBackend, GuestMemoryMmap, GuestMemoryRegion};
use vmbell_hypervisor::{DeviceMemory, shared_memory};

use super::capability::CONFIG_SIZE;

/// Bytes of one bus.
pub const CONFIG_MEMORY_LEN: u64 = 1 << 20;

const FUNCTION_BITS: u32 = 12;
const SLOT_BITS: u32 = 15;
const FUNCTIONS: u64 = 7;
const REGISTERS: u64 = (1 << FUNCTION_BITS) - 1;

/// The registers that an access selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ConfigPlace {
    pub(super) slot: usize,
    pub(super) register: usize,
}

impl ConfigPlace {
    /// Returns the registers at an offset of the memory; `None` if the function number is not 0.
    pub(super) fn of_offset(offset: u64) -> Option<Self> {
        if offset >> FUNCTION_BITS & FUNCTIONS != 0 {
            return None;
        }
        let slot = usize::try_from(offset >> SLOT_BITS).ok()?;
        let register = usize::try_from(offset & REGISTERS).ok()?;
        Some(Self { slot, register })
    }
}

/// A copy of the first slots' registers in memory that the guest reads without an exit. The thread that changes a
/// register updates the copy before its vCPU enters the guest again.
pub(super) struct ConfigPages {
    memory: GuestMemoryMmap,
    file: Arc<File>,
    slots: usize,
}

impl ConfigPages {
    /// Memory for this number of slots, filled with ones.
    pub(super) fn new(slots: usize) -> io::Result<Self> {
        let ones = vec![0xff; slots << SLOT_BITS];
        let memory = shared_memory(GuestAddress(0), ones.len() as u64)?;
        let written = memory.write_slice(&ones, GuestAddress(0));
        written.map_err(io::Error::other)?;
        let region = memory.iter().next();
        let file = region.and_then(|region| region.file_offset());
        let file = Arc::clone(file.ok_or(io::ErrorKind::NotFound)?.arc());
        Ok(Self {
            memory,
            file,
            slots,
        })
    }

    pub(super) const fn slots(&self) -> usize {
        self.slots
    }

    /// Returns the memory to map into the guest.
    pub(super) fn device_memory(&self) -> DeviceMemory {
        DeviceMemory {
            file: Arc::clone(&self.file),
            offset: 0,
            size: (self.slots as u64) << SLOT_BITS,
            writable: false,
        }
    }

    /// Copies the dwords that contain these registers, with the values that `read` returns.
    pub(super) fn copy(&self, place: ConfigPlace, len: usize, read: impl Fn(usize, &mut [u8])) {
        let base = (place.slot as u64) << SLOT_BITS;
        let end = place.register.saturating_add(len).min(CONFIG_SIZE);
        for at in (place.register & !3..end).step_by(4) {
            let mut dword = [0; 4];
            read(at, &mut dword);
            let (dword, at) = (u32::from_le_bytes(dword), GuestAddress(base + at as u64));
            let stored = self.memory.store(dword, at, Ordering::Release);
            debug_assert!(stored.is_ok(), "the memory has slot {}", place.slot);
        }
    }
}

#[cfg(test)]
#[path = "ecam_test.rs"]
mod tests;
