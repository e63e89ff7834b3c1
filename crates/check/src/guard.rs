//! The guard: no access of the code under test to the shared memory bypasses the hooks.
//!
//! Each execution that goes from one hook to another on a new path runs once more with the shared memory inaccessible.
//! A load or store that a hook announced faults. It then gets access for that one instruction, which is single-stepped.
//! Any other fault in the memory is an access that no hook saw.
#![allow(unsafe_code)]

use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::arch;
use crate::memory::{Mapping, offset};

/// The range that a plain access may touch: its offset plus 1, and its size; 0 if there is none.
static ALLOWED: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];
/// The guarded mapping: its address and length; 0 if there is none.
static GUARDED: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];
/// The first access that no hook saw: its instruction plus 1, its offset plus 1, and 1 for a store.
static SEEN: [AtomicUsize; 3] = [
    AtomicUsize::new(0),
    AtomicUsize::new(0),
    AtomicUsize::new(0),
];

/// An access that no hook saw.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unseen {
    /// The address after the first byte of the access's instruction, to match return addresses.
    pub(crate) site: usize,
    pub(crate) offset: u16,
    pub(crate) store: bool,
}

/// Lets the plain access that a hook announced happen.
pub(crate) fn allow(offset: u16, size: usize) {
    ALLOWED[0].store(usize::from(offset) + 1, Ordering::Relaxed);
    ALLOWED[1].store(size, Ordering::Relaxed);
}

/// Ends the permission that `allow` gave.
pub(crate) fn forbid() {
    ALLOWED[0].store(0, Ordering::Relaxed);
}

fn protect(protection: i32) {
    let (base, len) = (
        GUARDED[0].load(Ordering::Relaxed),
        GUARDED[1].load(Ordering::Relaxed),
    );
    if base != 0 {
        // SAFETY: the range is the first mapping of the search's `Mapping`; `replay_guarded`, the caller of
        // `protected`, borrows the search until `protected` returns.
        unsafe { libc::mprotect(ptr::with_exposed_provenance_mut(base), len, protection) };
    }
}

/// Handles a fault at an address, in the code with this context. False if the address is not in the guarded mapping.
pub(crate) fn fault(address: usize, context: &mut libc::ucontext_t) -> bool {
    let Some(offset) = offset(address).filter(|_| GUARDED[0].load(Ordering::Relaxed) != 0) else {
        return false;
    };
    let start = ALLOWED[0].load(Ordering::Relaxed);
    let at = usize::from(offset) + 1;
    protect(libc::PROT_READ | libc::PROT_WRITE);
    if start != 0 && (start..start + ALLOWED[1].load(Ordering::Relaxed)).contains(&at) {
        arch::begin_step(context);
    } else if SEEN[1].load(Ordering::Relaxed) == 0 {
        SEEN[0].store(arch::instruction(context) + 1, Ordering::Relaxed);
        SEEN[2].store(usize::from(arch::is_store(context)), Ordering::Relaxed);
        SEEN[1].store(at, Ordering::Relaxed);
        // The memory stays accessible: the execution runs to its end, and is then refused.
        GUARDED[0].store(0, Ordering::Relaxed);
    }
    true
}

/// Handles a trap of the code with this context. False if the trap does not end a step.
pub(crate) fn step_ended(context: &mut libc::ucontext_t) -> bool {
    let ended = arch::end_step(context);
    if ended {
        protect(libc::PROT_NONE);
    }
    ended
}

/// Runs `run`, which itself opens and closes the guarded mapping. Returns the first access that no hook saw, if any.
pub(crate) fn protected<R>(
    len: usize,
    base: usize,
    run: impl FnOnce() -> R,
) -> (R, Option<Unseen>) {
    GUARDED[1].store(len, Ordering::Relaxed);
    GUARDED[0].store(base, Ordering::Relaxed);
    let result = run();
    GUARDED[0].store(0, Ordering::Relaxed);
    forbid();
    let unseen = SEEN[1]
        .swap(0, Ordering::Relaxed)
        .checked_sub(1)
        .map(|offset| Unseen {
            site: SEEN[0].load(Ordering::Relaxed),
            offset: u16::try_from(offset).unwrap_or(u16::MAX),
            store: SEEN[2].load(Ordering::Relaxed) != 0,
        });
    (result, unseen)
}

/// The address of the mapping that the code under test sees, as a number.
pub(crate) fn address(mapping: &Mapping) -> usize {
    mapping.seen().as_ptr().expose_provenance()
}
