//! The memory that holds rings: plain memory of this process, or guest memory of the vm-memory crate.
//!
//! A queue resolves its parts to host pointers once, at set-up, and checks ranges and alignment
//! then, so that no access translates an address. Of the virtqueue's code only this folder is unsafe. Accesses
//! do not set dirty bitmaps: a VMM that migrates a guest must mark a queue's pages itself.

#![allow(unsafe_code)]

mod host;
mod words;

use std::{ptr::NonNull, sync::Arc};

use vm_memory::{
    GuestAddress, GuestMemoryBackend, GuestMemoryMmap, GuestMemoryRegion, bitmap::NewBitmap,
};

use super::SetupError;

pub use host::HostMemory;
pub(super) use words::{Word, Words, slice};

/// Memory that a driver and a device share.
///
/// # Safety
///
/// If [`resolve`](Self::resolve) returns a pointer, all `len` bytes from it on are mapped for
/// reads and writes, and stay so while the value or a clone of it is alive, even if it is moved.
/// Nothing in this process holds a plain reference to these bytes.
pub unsafe trait RingMemory: Clone {
    /// The host pointer to `len` bytes at `addr`; `None` if not all of them are memory, or if they are not
    /// contiguous in the host's address space.
    fn resolve(&self, addr: u64, len: usize) -> Option<NonNull<u8>>;
}

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

/// A part of a ring: its name, its address and its length in bytes.
pub(super) type Part = (&'static str, u64, u64);

/// Checks that the parts of a ring have no byte in common; [`SetupError::Overlap`] if two of them do.
///
/// Each part consists of atomics of its own width, and the driver, which may be a hostile guest, chooses the addresses.
/// Rust's memory model does not define atomics of two widths on one byte.
pub(super) fn check_apart(parts: [Part; 3]) -> Result<(), SetupError> {
    let [one, two, three] = parts;
    for ((part, addr, len), (other, start, size)) in [(one, two), (one, three), (two, three)] {
        if addr < start.saturating_add(size) && start < addr.saturating_add(len) {
            return Err(SetupError::Overlap { part, addr, other });
        }
    }
    Ok(())
}

#[cfg(test)]
#[cfg(not(any(loom, miri)))]
#[path = "guest_test.rs"]
mod tests;
