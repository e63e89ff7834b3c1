//! Whether a vCPU is in the guest, halted or neither, so that the sender of an interrupt knows how to notify it: what
//! `vcpu->mode` is in KVM (Linux `Documentation/virt/kvm/vcpu-requests.rst`).
//!
//! A sender first raises the vector and then calls [`VcpuMode::claim_notification`]; a vCPU first calls
//! [`enter`](VcpuMode::enter) or [`halt_in_futex`](VcpuMode::halt_in_futex) and then looks for requests. Each call is
//! a read-modify-write of the same word, so one of the two sees what the other did: either the sender learns that it
//! has to signal or wake, or the vCPU finds the request.
//!
//! The word is in memory that the sandbox can write. A wrong value at most loses an interrupt of
//! that sandbox's own guest, or sends it a spurious signal.
//!
//! ```
//! use vmbell_core::vcpu_mode::{Notification, VcpuMode};
//!
//! let mode = VcpuMode::default();
//! assert_eq!(mode.claim_notification(), Notification::None, "outside the guest it looks by itself");
//! mode.enter();
//! assert_eq!(mode.claim_notification(), Notification::Signal);
//! assert_eq!(mode.claim_notification(), Notification::None, "one signal is enough");
//! ```

use crate::sync::AtomicU32;
use crate::sync::Ordering::{AcqRel, Acquire};

/// The vCPU runs guest code: only a signal makes it leave.
const IN_GUEST_MODE: u32 = 1;
/// The vCPU sleeps in `hlt`, or is about to.
const HALTED: u32 = 2;
/// A signal is on its way. It is sure to arrive, so one is enough for all senders until then.
const SIGNALLED: u32 = 4;
/// Set with `HALTED` if the vCPU sleeps in `epoll_wait`, and not in a futex wait on this word.
const IN_EPOLL: u32 = 8;

/// How often [`VcpuMode::claim_notification`] tries to change a word that others change at the same time. An honest
/// vCPU changes it a few times a microsecond; the bound keeps a hostile sandbox from holding a sender up.
const TRIES: u32 = 64;

/// How to notify a vCPU of an interrupt request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Notification {
    /// Nothing to do: the vCPU looks for requests before it enters the guest, or was notified already.
    None,
    /// Send the interrupt signal (SIGUSR2) to the vCPU's thread.
    Signal,
    /// Wake the vCPU from its futex wait on [`VcpuMode::word`].
    FutexWake,
    /// Write to the vCPU's wake eventfd (`HaltFds` of the stub's layout).
    EventfdWrite,
}

/// The mode of one vCPU. All-zero bytes mean outside the guest.
#[repr(C)]
#[derive(Debug, Default)]
pub struct VcpuMode(AtomicU32);

impl VcpuMode {
    /// The vCPU is about to enter the guest, and looks for requests after this.
    #[inline(always)]
    pub fn enter(&self) {
        self.0.fetch_or(IN_GUEST_MODE, AcqRel);
    }

    /// The vCPU has left the guest, or does not enter it after all. Returns whether it was in the guest or about to
    /// enter it.
    #[inline(always)]
    pub fn leave(&self) -> bool {
        self.0.fetch_and(!IN_GUEST_MODE, AcqRel) & IN_GUEST_MODE != 0
    }

    /// The interrupt signal has arrived; another may be sent. The vCPU looks for requests after this.
    pub fn signal_arrived(&self) {
        self.0.fetch_and(!SIGNALLED, AcqRel);
    }

    /// The vCPU is about to sleep, and looks for requests after this. Returns what [`word`](Self::word) holds
    /// until another thread wakes the vCPU: the value to pass to the futex wait.
    pub fn halt_in_futex(&self) -> u32 {
        self.0.fetch_or(HALTED, AcqRel) | HALTED
    }

    /// As [`halt_in_futex`](Self::halt_in_futex), for a vCPU that sleeps in `epoll_wait`.
    pub fn halt_in_epoll(&self) {
        self.0.fetch_or(HALTED | IN_EPOLL, AcqRel);
    }

    /// The vCPU no longer sleeps, or must not fall asleep. Returns whether it was to sleep in `epoll_wait`: then
    /// changing the word does not keep it from sleeping, but a write to its wake eventfd does.
    pub fn wake(&self) -> bool {
        self.0.fetch_and(!(HALTED | IN_EPOLL), AcqRel) & IN_EPOLL != 0
    }

    /// The futex on which a halted vCPU sleeps.
    pub fn word(&self) -> &AtomicU32 {
        &self.0
    }

    /// How the vCPU must be notified of a request that the caller has raised. If several callers ask, one has
    /// to notify it, and the others get [`Notification::None`].
    pub fn claim_notification(&self) -> Notification {
        let mut seen = self.0.fetch_or(0, AcqRel);
        for _ in 0..TRIES {
            let (next, notification) = if seen & HALTED != 0 {
                let notification = if seen & IN_EPOLL != 0 {
                    Notification::EventfdWrite
                } else {
                    Notification::FutexWake
                };
                (seen & !(HALTED | IN_EPOLL), notification)
            } else if seen & (IN_GUEST_MODE | SIGNALLED) == IN_GUEST_MODE {
                (seen | SIGNALLED, Notification::Signal)
            } else {
                return Notification::None;
            };
            match self.0.compare_exchange(seen, next, AcqRel, Acquire) {
                Ok(_) => return notification,
                Err(found) => seen = found,
            }
        }
        Notification::Signal
    }
}
