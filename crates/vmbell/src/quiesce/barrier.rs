//! The barrier between a reader's store of its epoch and its later loads. The writer makes a system call, so that
//! readers need no fence.
//!
//! A reader that begins a section stores an epoch and then loads a pointer, and no later check can detect that the
//! processor did this in the opposite order. `membarrier(2)` (Linux 4.14, MEMBARRIER_CMD_PRIVATE_EXPEDITED) makes every
//! running thread of the process pass a full barrier. So writers pay for the order, and readers need no fence.
#![allow(unsafe_code)]

use super::sync::{Ordering, fence};

/// What orders the accesses of readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Barrier {
    /// The writers' call, for all threads. Not in models: there both sides have a fence, with the same effect.
    #[cfg_attr(any(loom, miri), allow(dead_code))]
    Writers,
    /// A fence on each side, because this kernel does not have the call.
    BothSides,
}

impl Barrier {
    /// Returns the barrier that this process uses.
    pub(super) fn of_process() -> Self {
        #[cfg(not(any(loom, miri)))]
        {
            static IS_REGISTERED: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
            let register = || call(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
            if *IS_REGISTERED.get_or_init(register) {
                return Self::Writers;
            }
        }
        Self::BothSides
    }

    /// Orders a reader's store of its epoch before its loads.
    #[inline(always)]
    pub(super) fn pass(self) {
        match self {
            Self::Writers => std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst),
            Self::BothSides => fence(Ordering::SeqCst),
        }
    }

    /// Orders a writer's earlier stores before its loads of the readers' epochs. With `Writers`, each reader's thread
    /// also passes a full barrier at some point during this call. Returns false if the kernel refuses the call, as it
    /// does under a seccomp filter that was installed later.
    pub(super) fn impose(self) -> bool {
        fence(Ordering::SeqCst);
        match self {
            #[cfg(not(any(loom, miri)))]
            Self::Writers => call(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED),
            _ => true,
        }
    }
}

#[cfg(not(any(loom, miri)))]
fn call(command: libc::c_int) -> bool {
    // SAFETY: no pointers.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}
