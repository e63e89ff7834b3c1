//! Read-side sections around the lookup and ringing of a doorbell, and the counters with which the monitor waits for
//! the sections to end.
//!
//! The algorithm is Linux's SRCU (`kernel/rcu/srcutree.c`) without per-CPU counters: a reader counts itself into one of
//! two phases and out again; the writer flips the phase twice, and each time waits until the old phase has no readers.
//! Direct calls cannot know on which vCPU they run, so all vCPUs share the counters; a trap or a system call costs a
//! hundred times as much as counting.

use vmbell_core::sync::Ordering::{Acquire, SeqCst};
use vmbell_core::sync::{AtomicU32, AtomicU64};

/// How many read-side sections one kind of reader has entered and left, by phase.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Sections {
    entered: [AtomicU64; 2],
    left: [AtomicU64; 2],
}

/// An open read-side section; [`Sections::leave`] closes it.
#[derive(Debug)]
#[must_use]
pub struct Section(usize);

impl Sections {
    /// Opens a section. Loads of shared data in it see everything published before the last flip of `phase`.
    #[inline(always)]
    pub fn enter(&self, phase: &AtomicU32) -> Section {
        let index = (phase.load(Acquire) & 1) as usize;
        self.entered[index].fetch_add(1, SeqCst);
        Section(index)
    }

    /// Closes a section that [`enter`](Self::enter) opened.
    #[inline(always)]
    pub fn leave(&self, section: Section) {
        self.left[section.0].fetch_add(1, SeqCst);
    }

    /// Whether no section of this phase is open.
    pub fn is_idle(&self, phase: u32) -> bool {
        let index = (phase & 1) as usize;
        // `left` is loaded before `entered`: if a section is opened between the loads, the two may differ, but they
        // cannot become equal.
        let left = self.left[index].load(SeqCst);
        left == self.entered[index].load(SeqCst)
    }

    /// How many sections have ever been opened, in both phases.
    pub fn total(&self) -> u64 {
        let [first, second] = &self.entered;
        first.load(SeqCst).wrapping_add(second.load(SeqCst))
    }
}
