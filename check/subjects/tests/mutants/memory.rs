//! The shared memory of a scenario, in the form that vmbell's queues need.
#![allow(unsafe_code)]

use std::ptr::NonNull;

use vmbell_check::Memory;
use vmbell_virtqueue::RingMemory;

/// The whole memory: a guest address is an offset in it.
#[derive(Clone, Copy, Debug)]
pub struct Site(pub Memory);

// SAFETY: the range is checked. The checker keeps the memory mapped while it explores, without plain references.
unsafe impl RingMemory for Site {
    fn resolve(&self, addr: u64, len: usize) -> Option<NonNull<u8>> {
        let (start, memory) = (usize::try_from(addr).ok()?, self.0.len());
        if start >= memory || len > memory - start {
            return None;
        }
        // SAFETY: `start` is less than the length of the memory.
        Some(unsafe { self.0.pointer().add(start) })
    }
}
