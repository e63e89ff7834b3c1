//! What the monitor tells trap handlers of the code that it patches, and how they read code that it may patch meanwhile
//! for another vCPU.
//!
//! The monitor changes the first byte of a site to `int3`, or five bytes to a jump, and takes a jump back. It changes several
//! bytes only while the sandbox is stopped, which may be at any point between a trap and the end of its handler. A jump does
//! not trap, and the other instructions under it begin with an invalid opcode. So the stub can tell what it reads of them from
//! the instruction that trapped, if it has read all of it between two changes.

use crate::decode::{Instruction, decode};
use crate::layout::{PATCH_BASE, PATCH_SIZE};
use crate::trampoline::{INVALID, JMP, STEPS};
use vmbell_core::sync::Ordering::{Acquire, Relaxed, Release, SeqCst};
use vmbell_core::sync::{AtomicU32, AtomicU64};

/// `int3`, which the monitor writes over the first byte of a patched instruction.
pub const INT3: u8 = 0xcc;

/// The patches of a guest's code.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Patches {
    /// How often a jump was written over guest code, or taken back.
    pub count: AtomicU32,
    /// `int3`-patched instructions: address to first byte.
    pub int3_sites: SiteMap,
    /// Instructions that a jump was written over, its site included: address to the copy that runs instead.
    pub redirects: SiteMap,
    /// Trampolines: address to site.
    pub trampolines: SiteMap,
}

/// What is at the address of a trap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fetched {
    /// The instruction that trapped.
    Instruction(Instruction),
    /// A patch that came after the trap: the guest continues at this address, which leads to the
    /// instruction.
    Patched(u64),
    /// No instruction that the stub emulates.
    Other,
}

impl Patches {
    /// Reads the instruction at `rip`, which has trapped, with `read`, which returns the byte at an address. Its first byte is
    /// `first_byte`, if that is known. No byte after the instruction's end is read, unless a patch comes meanwhile.
    #[inline(always)]
    pub fn fetch(&self, rip: u64, first_byte: Option<u8>, read: impl Fn(u64) -> u8) -> Fetched {
        let before = self.count.load(SeqCst);
        let decoded = decode(|place| {
            let byte = read(rip.wrapping_add(u64::from(place)));
            match (place, first_byte) {
                (0, Some(original)) => original,
                // The map has had the original byte since before the patch.
                (0, None) if byte == INT3 => self
                    .int3_sites
                    .get(rip)
                    .map_or(byte, |original| (original & 0xff) as u8),
                _ => byte,
            }
        });
        let found = match decoded {
            Some(instruction) => Fetched::Instruction(instruction),
            None => self
                .redirect(rip, read)
                .map_or(Fetched::Other, Fetched::Patched),
        };
        // Otherwise some bytes may be from before a jump was written or taken back, and some from after it. So this is the
        // last reading.
        if self.count.load(SeqCst) == before {
            found
        } else {
            Fetched::Patched(rip)
        }
    }

    /// Where the instruction that began at `rip` is executed if there is a jump over it.
    pub fn redirect(&self, rip: u64, read: impl Fn(u64) -> u8) -> Option<u64> {
        let copy = self.redirects.get(rip)?;
        let byte = read(rip);
        // The jump may have been taken back, or the guest has other code here now.
        if byte != JMP && !INVALID.contains(&byte) {
            return None;
        }
        (PATCH_BASE..PATCH_BASE + PATCH_SIZE)
            .contains(&copy)
            .then_some(copy)
    }

    /// Whether the instruction at `rip`, which is now a valid opcode, may have been under a jump when it trapped. If so, it is
    /// executed again. That helps once: the next such trap of the vCPU follows another patch, or the opcode is the guest's own.
    /// `last` is the vCPU's count of patches at the last such trap.
    pub fn is_undone(&self, rip: u64, last: &AtomicU32) -> bool {
        let count = self.count.load(SeqCst);
        self.redirects.get(rip).is_some() && last.swap(count, Relaxed) != count
    }

    /// The site of the trampoline that may have faulted at `rip` because the guest has no stack, and how far it has moved the
    /// stack pointer down by then. Another jump may be over the site meanwhile, so nothing is read there.
    pub fn begun_trampoline(&self, rip: u64) -> Option<(u64, u64)> {
        if !(PATCH_BASE..PATCH_BASE + PATCH_SIZE).contains(&rip) {
            return None;
        }
        STEPS.iter().find_map(|(step, moved)| {
            let site = self.trampolines.get(rip.wrapping_sub(*step))?;
            Some((site, *moved))
        })
    }
}

/// Slots of a [`SiteMap`]; an insertion tries half of them at most, so that probing stays short.
pub const SITE_SLOTS: usize = 1024;

/// A hash map from a code address to a word, append-only: the monitor inserts, the stub looks up.
#[repr(C)]
#[derive(Debug)]
pub struct SiteMap {
    slots: [SiteSlot; SITE_SLOTS],
}

#[repr(C)]
#[derive(Debug, Default)]
struct SiteSlot {
    site: AtomicU64,
    value: AtomicU64,
}

impl SiteMap {
    fn start(site: u64) -> usize {
        (site.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54) as usize
    }

    /// The word stored for `site`.
    pub fn get(&self, site: u64) -> Option<u64> {
        let start = Self::start(site);
        for step in 0..SITE_SLOTS {
            let slot = &self.slots[(start + step) % SITE_SLOTS];
            match slot.site.load(Acquire) {
                0 => return None,
                found if found == site => return Some(slot.value.load(Relaxed)),
                _ => {}
            }
        }
        None
    }

    /// Stores `value` for `site`; false if half of the slots, probed in a row, belong to other sites. One
    /// writer at a time.
    pub fn insert(&self, site: u64, value: u64) -> bool {
        let start = Self::start(site);
        for step in 0..SITE_SLOTS / 2 {
            let slot = &self.slots[(start + step) % SITE_SLOTS];
            let found = slot.site.load(Relaxed);
            if found == 0 || found == site {
                slot.value.store(value, Relaxed);
                slot.site.store(site, Release);
                return true;
            }
        }
        false
    }
}

impl Default for SiteMap {
    fn default() -> Self {
        Self {
            slots: core::array::from_fn(|_| SiteSlot::default()),
        }
    }
}
