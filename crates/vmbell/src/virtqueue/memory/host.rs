//! Plain memory of this process, with addresses from zero on.

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

/// Zeroed memory that its clones share.
#[derive(Clone)]
pub struct HostMemory {
    lines: Arc<[Line]>,
}

impl HostMemory {
    /// At least `len` bytes.
    pub fn new(len: usize) -> Self {
        let lines = (0..len.div_ceil(LINE_BYTES)).map(|_| Line::default());
        Self {
            lines: lines.collect(),
        }
    }

    /// How many bytes there are.
    pub fn len(&self) -> usize {
        size_of::<Line>() * Arc::as_ptr(&self.lines).len()
    }

    /// Whether there is no byte.
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
        // No reference to all lines on the way: Miri follows one to each of its atomics.
        let first = Arc::as_ptr(&self.lines);
        NonNull::new(first.cast::<u8>().wrapping_add(start).cast_mut())
    }
}

#[cfg(test)]
#[cfg(not(loom))]
#[path = "host_test.rs"]
mod tests;
