//! What the monitor tells trap handlers about the code that it patches, and how they read code that the monitor may
//! patch meanwhile for another vCPU.
//!
//! The monitor changes the first byte of a site to `int3`, or five bytes to a jump, and it can take a jump back. It
//! changes several bytes only while the sandbox is stopped, which can happen at any point between a trap and the end of
//! its handler. A jump does not trap, and every other instruction under the jump begins with an invalid opcode. So the
//! stub can tell these bytes from the instruction that trapped, if it has read all of them between two changes.

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
    /// How often a jump was written over guest code or taken back.
    pub count: AtomicU32,
    /// Instructions patched with `int3`: maps the address to the original first byte.
    pub int3_sites: SiteMap,
    /// Instructions under a jump, including its site: maps the address to the copy that runs instead.
    pub redirects: SiteMap,
    /// Trampolines: maps the address to the site.
    pub trampolines: SiteMap,
}

/// What is at the address of a trap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fetched {
    /// The instruction that trapped.
    Instruction(Instruction),
    /// A patch that was written after the trap: the guest continues at this address, which leads to the instruction.
    Patched(u64),
    /// Not an instruction that the stub emulates.
    Other,
}

impl Patches {
    /// Reads the instruction at `rip`, which has trapped. `read` returns the byte at an address, and `first_byte` is
    /// the first byte, if known. No byte after the instruction's end is read, unless a patch is written meanwhile.
    #[inline(always)]
    pub fn fetch(&self, rip: u64, first_byte: Option<u8>, read: impl Fn(u64) -> u8) -> Fetched {
        let before = self.count.load(SeqCst);
        let decoded = decode(|place| {
            let byte = read(rip.wrapping_add(u64::from(place)));
            match (place, first_byte) {
                (0, Some(original)) => original,
                // The original byte was put into the map before the patch was written.
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
        // If the count has changed, some bytes may have been read before a jump was written or taken back, and some
        // after that. So the count is read last.
        if self.count.load(SeqCst) == before {
            found
        } else {
            Fetched::Patched(rip)
        }
    }

    /// Returns where the instruction that began at `rip` is executed, if a jump was written over it.
    pub fn redirect(&self, rip: u64, read: impl Fn(u64) -> u8) -> Option<u64> {
        let copy = self.redirects.get(rip)?;
        let byte = read(rip);
        // The jump may have been taken back, or the guest may have other code here now.
        if byte != JMP && !INVALID.contains(&byte) {
            return None;
        }
        (PATCH_BASE..PATCH_BASE + PATCH_SIZE)
            .contains(&copy)
            .then_some(copy)
    }

    /// Returns whether the instruction at `rip`, which is now a valid opcode, may have been under a jump when it
    /// trapped. If so, it is executed again. That works once: the next such trap of the vCPU follows another patch, or
    /// the opcode is the guest's own. `last` holds the patch count at the vCPU's last such trap.
    pub fn is_undone(&self, rip: u64, last: &AtomicU32) -> bool {
        let count = self.count.load(SeqCst);
        self.redirects.get(rip).is_some() && last.swap(count, Relaxed) != count
    }

    /// Finds the site of a trampoline that may have faulted at `rip` because the guest has no stack, and how far it had
    /// moved the stack pointer down. Another jump may be over the site by now, so nothing is read there.
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

/// Slots of a [`SiteMap`]. An insertion tries at most half of them, so that probing stays short.
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

    /// Stores `value` for `site`. Returns false if half of the slots, probed in a row, belong to other sites. Only one
    /// thread may write at a time.
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
