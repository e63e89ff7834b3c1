//! Coalesced writes: the kernel stores them in a ring, and the guest leaves only when the ring is full (Linux
//! Documentation/virt/kvm/coalesced-mmio.rst).
//!
//! All vCPUs of a guest share the ring. At every exit the vCPU's thread first reports the writes that are in the ring.

use std::mem::offset_of;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use kvm_bindings::{KVM_COALESCED_MMIO_PAGE_OFFSET, kvm_coalesced_mmio, kvm_coalesced_mmio_ring};

use super::run_page::RunPage;

use vmbell::sync::Mutex;

const PAGE: u64 = 4096;
/// Offset of the ring in the mapping of a run page, in bytes.
const RING: u64 = KVM_COALESCED_MMIO_PAGE_OFFSET as u64 * PAGE;
const FIRST: u64 = RING + offset_of!(kvm_coalesced_mmio_ring, first) as u64;
const LAST: u64 = RING + offset_of!(kvm_coalesced_mmio_ring, last) as u64;
const ENTRIES: u64 = RING + offset_of!(kvm_coalesced_mmio_ring, coalesced_mmio) as u64;
const ENTRY: u64 = size_of::<kvm_coalesced_mmio>() as u64;
/// `KVM_COALESCED_MMIO_MAX` of Linux `uapi/linux/kvm.h`.
const LIMIT: u64 = (RING + PAGE - ENTRIES) / ENTRY;

/// A write that the kernel stored in the ring.
#[derive(Clone, Copy, Debug)]
pub struct Write {
    pub address: u64,
    pub len: u32,
    pub data: u64,
}

/// The consumer's side of a guest's ring.
#[derive(Debug, Default)]
pub struct Coalesced {
    in_use: AtomicBool,
    /// Held by the thread that takes a write out of the ring.
    turn: Mutex<()>,
}

impl Coalesced {
    /// Called when the first range is registered: from then on the ring may hold writes.
    pub fn begin(&self) {
        self.in_use.store(true, Relaxed);
    }

    /// Returns whether the ring may hold writes.
    #[inline]
    pub fn is_used(&self) -> bool {
        self.in_use.load(Relaxed)
    }

    /// Takes the oldest write out of the ring; `None` if the ring is empty.
    #[inline]
    pub fn pop(&self, page: &RunPage) -> Option<Write> {
        if self.is_used() {
            self.take(page)
        } else {
            None
        }
    }

    fn take(&self, page: &RunPage) -> Option<Write> {
        let (first, last) = (page.word(FIRST)?, page.word(LAST)?);
        let _turn = self.turn.lock();
        let index = first.load(Relaxed);
        // The kernel completes an entry before it moves `last` past it.
        if index == last.load(Acquire) || u64::from(index) >= LIMIT {
            return None;
        }
        let entry = ENTRIES + ENTRY * u64::from(index);
        let field = |offset: usize| page.load(entry + offset as u64);
        let write = Write {
            address: field(offset_of!(kvm_coalesced_mmio, phys_addr)),
            len: (field(offset_of!(kvm_coalesced_mmio, len)) & 0xff) as u32,
            data: field(offset_of!(kvm_coalesced_mmio, data)),
        };
        let next = (u64::from(index) + 1) % LIMIT;
        // From here on the kernel may use the entry again.
        first.store((next & 0xffff_ffff) as u32, Release);
        Some(write)
    }
}
