//! [`RingMemory`] for plain memory of this process, with addresses from zero on.

#![allow(unsafe_code)]

use std::{
    fmt,
    ptr::NonNull,
    sync::{Arc, atomic::AtomicU64},
};

use super::RingMemory;

const LINE_BYTES: usize = 64;

/// Aligned so that rings share no cache line with anything else.
#[derive(Default)]
#[repr(C, align(64))]
struct Line([AtomicU64; LINE_BYTES / 8]);

/// Memory of this process, zeroed at first; clones share it.
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

// SAFETY: the pointer is into `lines`, which every clone keeps alive and in place by `Arc`, and
// which is atomics only, so no plain reference to its bytes exists.
unsafe impl RingMemory for HostMemory {
    fn resolve(&self, addr: u64, len: usize) -> Option<NonNull<u8>> {
        let start = usize::try_from(addr).ok()?;
        let end = start.checked_add(len)?;
        if end > self.len() {
            return None;
        }
        // A raw pointer and no reference to all lines, which Miri would check for each atomic.
        let first = Arc::as_ptr(&self.lines);
        NonNull::new(first.cast::<u8>().wrapping_add(start).cast_mut())
    }
}

#[cfg(test)]
#[cfg(not(loom))]
#[path = "host_test.rs"]
mod tests;
