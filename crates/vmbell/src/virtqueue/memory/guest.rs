//! [`RingMemory`] for guest memory of the vm-memory crate, by reference or in an `Arc`.

#![allow(unsafe_code)]

use std::{ptr::NonNull, sync::Arc};

use vm_memory::{
    GuestAddress, GuestMemoryBackend, GuestMemoryMmap, GuestMemoryRegion, bitmap::NewBitmap,
};

use super::RingMemory;

fn resolve<B: NewBitmap>(
    memory: &GuestMemoryMmap<B>,
    addr: u64,
    len: usize,
) -> Option<NonNull<u8>> {
    let region = memory.find_region(GuestAddress(addr))?;
    let offset = region.to_region_addr(GuestAddress(addr))?;
    let end = offset.0.checked_add(u64::try_from(len).ok()?)?;
    if end > region.len() {
        return None;
    }
    NonNull::new(region.get_host_address(offset).ok()?)
}

// SAFETY: the pointer is into a mapping of `memory`, which is borrowed for as long as any copy of
// the reference lives; vm-memory gives out volatile slices of it and no references.
unsafe impl<B: NewBitmap> RingMemory for &GuestMemoryMmap<B> {
    fn resolve(&self, addr: u64, len: usize) -> Option<NonNull<u8>> {
        resolve(self, addr, len)
    }
}

// SAFETY: as above; the `Arc` and all its clones own the mapping.
unsafe impl<B: NewBitmap> RingMemory for Arc<GuestMemoryMmap<B>> {
    fn resolve(&self, addr: u64, len: usize) -> Option<NonNull<u8>> {
        resolve(self, addr, len)
    }
}

#[cfg(test)]
#[cfg(not(any(loom, miri)))]
#[path = "guest_test.rs"]
mod tests;
