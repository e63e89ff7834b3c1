//! The memory that holds rings: plain memory of this process, or guest memory from the vm-memory crate.
//!
//! At set-up, a queue resolves its parts to host pointers once, and checks ranges and alignment, so that no access
//! translates an address. This folder has all the `unsafe` code of the crate. Accesses do not set dirty bitmaps: a VMM
//! that migrates a guest must mark a queue's pages itself.

#![allow(unsafe_code)]

mod cursor;
mod words;

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use vm_memory::bitmap::NewBitmap;
use vm_memory::{GuestAddress, GuestMemoryBackend, GuestMemoryMmap, GuestMemoryRegion};

use super::error::SetupError;

pub(super) use cursor::Cursor;
pub(super) use words::{CyclicWords, Word, Words, slice};

/// Memory that a driver and a device share.
///
/// # Safety
///
/// If [`resolve`](Self::resolve) returns a pointer, all `len` bytes from it on are mapped for reads and writes, and
/// stay mapped while the value or a clone of it is alive, even if the value is moved. Nothing in this process holds a
/// plain reference to these bytes.
pub unsafe trait RingMemory: Clone {
    /// The host pointer to `len` bytes at `addr`; `None` unless all of them are memory and contiguous in the host's
    /// address space.
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
type Part = (&'static str, u64, u64);

/// Checks that the parts of a ring share no byte. Fails with [`SetupError::Overlap`] if two parts do.
///
/// Each part consists of atomics of one width, and the driver, possibly a hostile guest, chooses the addresses. Rust's
/// memory model does not define a race between atomics of different widths on one byte.
///
/// A guest can still cause such a race: it overlaps the rings of two queues, or a table and a ring, and two threads
/// serve them. CPUs define the result, and each access is one instruction. The value is checked like any other that a
/// guest writes. Only 16-bit accesses everywhere would exclude the race, at the cost of eight loads per descriptor.
pub(super) fn check_apart(parts: [Part; 3]) -> Result<(), SetupError> {
    let [one, two, three] = parts;
    for ((part, addr, len), (other, start, size)) in [(one, two), (one, three), (two, three)] {
        if addr < start.saturating_add(size) && start < addr.saturating_add(len) {
            return Err(SetupError::Overlap { part, addr, other });
        }
    }
    Ok(())
}

const LINE_BYTES: usize = 64;

/// Aligned so that rings do not share cache lines with other data.
#[derive(Default)]
#[repr(C, align(64))]
struct Line([AtomicU64; LINE_BYTES / 8]);

/// Memory of this process, initially zero; clones share it.
#[derive(Clone)]
pub struct HostMemory {
    lines: Arc<[Line]>,
}

impl HostMemory {
    /// Allocates `len` bytes, rounded up to whole cache lines.
    pub fn new(len: usize) -> Self {
        let lines = (0..len.div_ceil(LINE_BYTES)).map(|_| Line::default());
        Self {
            lines: lines.collect(),
        }
    }

    /// The size in bytes.
    pub fn len(&self) -> usize {
        size_of::<Line>() * Arc::as_ptr(&self.lines).len()
    }

    /// Whether the size is 0.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }
}

impl fmt::Debug for HostMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("HostMemory");
        debug.field("len", &self.len()).finish_non_exhaustive()
    }
}

// SAFETY: the pointer is into `lines`, which every clone keeps alive and in place by `Arc`. It consists of atomics
// only, so no plain reference to its bytes exists.
unsafe impl RingMemory for HostMemory {
    fn resolve(&self, addr: u64, len: usize) -> Option<NonNull<u8>> {
        let start = usize::try_from(addr).ok()?;
        let end = start.checked_add(len)?;
        if end > self.len() {
            return None;
        }
        // A raw pointer, because Miri would check a reference to all lines for each atomic.
        let first = Arc::as_ptr(&self.lines);
        NonNull::new(first.cast::<u8>().wrapping_add(start).cast_mut())
    }
}

#[cfg(test)]
#[path = "memory_test.rs"]
mod tests;
