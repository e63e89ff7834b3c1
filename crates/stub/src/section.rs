//! Read-side sections around "look a doorbell up and ring it", and the wait for them to end.
//!
//! The algorithm is Linux's SRCU (`kernel/rcu/srcutree.c`) without its per-CPU counters: a reader
//! counts itself into one of two phases and out again; the writer turns the phase over twice and
//! waits each time for the old one to drain. Direct calls cannot know which vCPU they run on, so
//! the counters are shared by all; a trap or a system call costs a hundred times as much as they do.

use crate::sync::Ordering::{Acquire, SeqCst};
use crate::sync::{AtomicU32, AtomicU64};

/// Counters of one kind of reader.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Sections {
    entered: [AtomicU64; 2],
    left: [AtomicU64; 2],
}

/// A section that was entered; [`Sections::leave`] takes it back.
#[derive(Debug)]
#[must_use]
pub struct Section(usize);

impl Sections {
    /// Enters. Loads of shared data that follow see all that was published before the last turn-over.
    #[inline(always)]
    pub fn enter(&self, phase: &AtomicU32) -> Section {
        let index = (phase.load(Acquire) & 1) as usize;
        self.entered[index].fetch_add(1, SeqCst);
        Section(index)
    }

    /// Leaves.
    #[inline(always)]
    pub fn leave(&self, section: Section) {
        self.left[section.0].fetch_add(1, SeqCst);
    }

    /// Whether nobody is in a section of this phase.
    pub fn is_idle(&self, phase: u32) -> bool {
        let index = (phase & 1) as usize;
        // Left before entered: a section that begins in between makes the two differ, never agree.
        let left = self.left[index].load(SeqCst);
        left == self.entered[index].load(SeqCst)
    }

    /// How many sections were ever entered.
    pub fn total(&self) -> u64 {
        let [first, second] = &self.entered;
        first.load(SeqCst).wrapping_add(second.load(SeqCst))
    }
}
