//! The memory of a ring, in the form that each side needs. A guest address is an offset in this memory.
#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::sync::atomic::AtomicU16;

use vm_memory::{GuestAddress, GuestMemoryMmap, GuestRegionMmap, MmapRegion};
use vmbell_check::Shape;
use vmbell_virtqueue::RingMemory;

use crate::Layout;

/// Where requests have their buffers: in the memory after all rings.
pub(crate) const BUFFER: u64 = 0x800;
/// The length of a buffer in bytes.
pub(crate) const BUFFER_LEN: u32 = 8;

/// A ring in memory that driver and device share.
#[derive(Clone, Copy, Debug)]
pub struct Site {
    base: NonNull<u8>,
    /// How many bytes of memory there are.
    pub len: usize,
    /// The shape of the ring.
    pub shape: Shape,
    /// Where the parts of the ring are.
    pub layout: Layout,
}

// SAFETY: the pointer is to memory that two threads share by design, and that outlives them (`Site::new`).
unsafe impl Send for Site {}

impl Site {
    /// A ring in `len` bytes at `base`.
    ///
    /// # Safety
    ///
    /// The bytes stay mapped for reads and writes while the value, or a side that was made with it, is used. Nothing in
    /// this process holds a plain reference to them.
    pub unsafe fn new(base: NonNull<u8>, len: usize, shape: Shape, layout: Layout) -> Site {
        Site {
            base,
            len,
            shape,
            layout,
        }
    }

    /// The first byte.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// The address of a byte.
    pub(crate) fn at(&self, offset: usize) -> NonNull<u8> {
        assert!(offset < self.len, "byte {offset} is outside the memory");
        // SAFETY: `offset` is less than `len`.
        unsafe { self.base.add(offset) }
    }

    /// A 16-bit field of the ring.
    pub(crate) fn field(&self, offset: u16) -> &AtomicU16 {
        let at = self.at(usize::from(offset)).cast::<u16>();
        assert!(at.is_aligned(), "byte {offset} is no 16-bit field");
        // SAFETY: the address is in the memory and aligned; all accesses of both sides may race by design.
        unsafe { AtomicU16::from_ptr(at.as_ptr()) }
    }

    /// The memory as a type of vm-memory.
    pub(crate) fn guest_memory(&self) -> GuestMemoryMmap<()> {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        // SAFETY: the caller of `Site::new` vouches for the mapping.
        let region =
            unsafe { MmapRegion::build_raw(self.base.as_ptr(), self.len, protection, flags) };
        let region = region.expect("the memory is page-aligned");
        let region = GuestRegionMmap::new(region, GuestAddress(0)).expect("it fits at address 0");
        GuestMemoryMmap::from_regions(vec![region]).expect("one region overlaps no other")
    }

    /// The memory as a type of vm-memory 0.17.
    #[cfg(feature = "krun")]
    pub(crate) fn guest_memory_17(&self) -> vm_memory_17::GuestMemoryMmap<()> {
        use vm_memory_17::{GuestAddress, GuestMemoryMmap, GuestRegionMmap, MmapRegion};
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        // SAFETY: the caller of `Site::new` vouches for the mapping.
        let region =
            unsafe { MmapRegion::build_raw(self.base.as_ptr(), self.len, protection, flags) };
        let region = region.expect("the memory is page-aligned");
        let region = GuestRegionMmap::new(region, GuestAddress(0)).expect("it fits at address 0");
        GuestMemoryMmap::from_regions(vec![region]).expect("one region overlaps no other")
    }
}

// SAFETY: the range is checked. The caller of `Site::new` vouches for the mapping and that no plain references exist.
unsafe impl RingMemory for Site {
    fn resolve(&self, addr: u64, len: usize) -> Option<NonNull<u8>> {
        let start = usize::try_from(addr).ok()?;
        (start < self.len && len <= self.len - start).then(|| self.at(start))
    }
}
