//! A split ring in shared memory, field by field (virtio 1.3, 2.7.5, 2.7.6 and 2.7.8).
//!
//! Indices are stored with release and loaded with acquire; accesses to the entries are relaxed.

use super::SplitLayout;
use crate::descriptor::{self, Descriptor};
use crate::error::SetupError;
use crate::memory::{CyclicWords, RingMemory, Word};
use crate::ring::{Ring, Sealed, split_opaque};
use crate::sync::{AtomicU16, AtomicU32, Ordering};

/// `VIRTQ_AVAIL_F_NO_INTERRUPT`: no used buffer notifications; ignored with event indices.
pub(super) const NO_INTERRUPT: u16 = 1;
/// `VIRTQ_USED_F_NO_NOTIFY`: no available buffer notifications; ignored with event indices.
pub(super) const NO_NOTIFY: u16 = 1;

/// One entry of the used ring: the id, then the length.
type UsedElement = [AtomicU32; 2];

/// The ring in shared memory, for either side.
#[derive(Clone, Debug)]
pub struct SplitRing<M> {
    size: u16,
    descriptors: CyclicWords<Descriptor, M>,
    avail_flags: Word<AtomicU16, M>,
    avail_idx: Word<AtomicU16, M>,
    avail_ring: CyclicWords<AtomicU16, M>,
    used_event: Word<AtomicU16, M>,
    used_flags: Word<AtomicU16, M>,
    used_idx: Word<AtomicU16, M>,
    used_ring: CyclicWords<UsedElement, M>,
    avail_event: Word<AtomicU16, M>,
}

impl<M: RingMemory> SplitRing<M> {
    pub(super) fn resolve(memory: &M, layout: &SplitLayout) -> Result<Self, SetupError> {
        layout.check()?;
        let size = layout.size;
        let (avail, used) = (layout.avail, layout.used);
        let avail_end = avail.wrapping_add(4 + 2 * u64::from(size));
        let used_end = used.wrapping_add(4 + 8 * u64::from(size));
        let align = descriptor::BYTES as u64;
        let word = |part, addr| Word::resolve(memory, part, addr);
        let ring = Self {
            size,
            descriptors: CyclicWords::resolve(
                memory,
                "descriptor table",
                layout.descriptors,
                size,
                align,
            )?,
            avail_flags: word("available ring", avail)?,
            avail_idx: word("available ring", avail.wrapping_add(2))?,
            avail_ring: CyclicWords::resolve(
                memory,
                "available ring",
                avail.wrapping_add(4),
                size,
                2,
            )?,
            used_event: word("available ring", avail_end)?,
            used_flags: word("used ring", used)?,
            used_idx: word("used ring", used.wrapping_add(2))?,
            used_ring: CyclicWords::resolve(memory, "used ring", used.wrapping_add(4), size, 4)?,
            avail_event: word("used ring", used_end)?,
        };
        layout.check_overlap()?;
        Ok(ring)
    }
}

impl<M> SplitRing<M> {
    #[inline]
    pub(super) fn size(&self) -> u16 {
        self.size
    }

    /// Writes a descriptor for the driver. The index is not past the end of the table.
    #[inline]
    pub(super) fn set_descriptor(&self, index: u16, addr: u64, rest: u64) {
        let descriptor = self.descriptors.at(index.into());
        descriptor.store(addr, rest, Ordering::Relaxed);
    }

    /// Both words of a descriptor; `None` if the index is past the end of the table.
    #[inline]
    pub(super) fn descriptor(&self, index: u16) -> Option<(u64, u64)> {
        let descriptor = self.descriptors.all().get(usize::from(index));
        descriptor.map(Descriptor::load)
    }
}

/// Defines the accessors of little-endian fields, with the memory order of each access.
macro_rules! fields {
    ($($get:ident $set:ident: $field:ident, $load:ident, $store:ident;)*) => {
        impl<M: RingMemory> SplitRing<M> {
            $(
                #[inline]
                pub(super) fn $get(&self) -> u16 {
                    u16::from_le(self.$field.load(Ordering::$load))
                }

                #[inline]
                pub(super) fn $set(&self, value: u16) {
                    self.$field.store(value.to_le(), Ordering::$store);
                }
            )*
        }
    };
}

fields! {
    avail_flags set_avail_flags: avail_flags, Relaxed, Relaxed;
    avail_idx publish_avail: avail_idx, Acquire, Release;
    used_event set_used_event: used_event, Relaxed, Relaxed;
    used_flags set_used_flags: used_flags, Relaxed, Relaxed;
    used_idx publish_used: used_idx, Acquire, Release;
    avail_event set_avail_event: avail_event, Relaxed, Relaxed;
}

/// The entries of the two rings. Their indices are free-running, and wrap at the size of the ring or later.
impl<M> SplitRing<M> {
    #[inline]
    pub(super) fn avail(&self, index: u64) -> u16 {
        u16::from_le(self.avail_ring.at(index).load(Ordering::Relaxed))
    }

    #[inline]
    pub(super) fn set_avail(&self, index: u64, head: u16) {
        let entry = self.avail_ring.at(index);
        entry.store(head.to_le(), Ordering::Relaxed);
    }

    /// The id and length of a used element.
    #[inline]
    pub(super) fn used(&self, index: u64) -> (u32, u32) {
        let [id, len] = self.used_ring.at(index);
        let id = u32::from_le(id.load(Ordering::Relaxed));
        let len = u32::from_le(len.load(Ordering::Relaxed));
        (id, len)
    }

    #[inline]
    pub(super) fn set_used(&self, index: u64, id: u32, len: u32) {
        let [entry_id, entry_len] = self.used_ring.at(index);
        entry_id.store(id.to_le(), Ordering::Relaxed);
        entry_len.store(len.to_le(), Ordering::Relaxed);
    }
}

impl<M> Sealed for SplitRing<M> {}

impl<M: RingMemory> Ring for SplitRing<M> {
    type Memory = M;

    fn memory(&self) -> &M {
        self.descriptors.memory()
    }

    fn clear(&self) {
        for descriptor in self.descriptors.all() {
            descriptor.store(0, 0, Ordering::Relaxed);
        }
        for entry in self.avail_ring.all() {
            entry.store(0, Ordering::Relaxed);
        }
        for slot in 0..self.size {
            self.set_used(slot.into(), 0, 0);
        }
        for word in [
            &self.avail_flags,
            &self.avail_idx,
            &self.used_event,
            &self.used_flags,
            &self.used_idx,
            &self.avail_event,
        ] {
            word.store(0, Ordering::Release);
        }
    }

    #[inline]
    fn opaque(position: u64) -> u32 {
        split_opaque(position)
    }

    #[inline]
    fn used_since(&self, index: u16) -> u16 {
        self.used_idx().wrapping_sub(index)
    }
}
