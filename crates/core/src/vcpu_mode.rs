//! Whether a vCPU is in the guest, halted or neither, so that the sender of an interrupt knows how to notify it. This
//! corresponds to `vcpu->mode` in KVM (Linux `Documentation/virt/kvm/vcpu-requests.rst`).
//!
//! A sender first raises the vector and then calls [`VcpuMode::claim_notification`]; a vCPU first calls
//! [`enter`](VcpuMode::enter) or [`halt_in_futex`](VcpuMode::halt_in_futex) and then checks for requests. Each call is
//! a read-modify-write of the same word, so one side sees what the other did: either the sender learns that it has to
//! signal or wake the vCPU, or the vCPU finds the request.
//!
//! The word is in memory that the sandbox can write. A wrong value can at most lose an interrupt of that sandbox's own
//! guest, or send the sandbox a spurious signal.
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
/// A signal is on its way. It will certainly arrive, so senders need not send another one until then.
const SIGNALLED: u32 = 4;
/// Set with `HALTED` if the vCPU sleeps in `epoll_wait` instead of in a futex wait on this word.
const IN_EPOLL: u32 = 8;

/// How often [`VcpuMode::claim_notification`] tries to change the word while other threads change it. An honest vCPU
/// changes it a few times per microsecond; the bound keeps a hostile sandbox from delaying a sender forever.
const TRIES: u32 = 64;

/// How to notify a vCPU of an interrupt request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Notification {
    /// Nothing to do: the vCPU checks for requests before it enters the guest, or was already notified.
    None,
    /// Send the interrupt signal (SIGUSR2) to the vCPU's thread.
    Signal,
    /// Wake the vCPU from its futex wait on [`VcpuMode::word`].
    FutexWake,
    /// Write to the vCPU's wake eventfd (`HaltFds` of the stub's layout).
    EventfdWrite,
}

/// The mode of one vCPU. All-zero bytes mean that the vCPU is outside the guest.
#[repr(C)]
#[derive(Debug, Default)]
pub struct VcpuMode(AtomicU32);

impl VcpuMode {
    /// Marks the vCPU as about to enter the guest. The vCPU then checks for requests.
    #[inline(always)]
    pub fn enter(&self) {
        self.0.fetch_or(IN_GUEST_MODE, AcqRel);
    }

    /// Marks the vCPU as outside the guest: it has left, or does not enter after all. Returns whether it was in the
    /// guest or about to enter it.
    #[inline(always)]
    pub fn leave(&self) -> bool {
        self.0.fetch_and(!IN_GUEST_MODE, AcqRel) & IN_GUEST_MODE != 0
    }

    /// Notes that the interrupt signal has arrived and another may be sent. The vCPU then checks for requests.
    pub fn signal_arrived(&self) {
        self.0.fetch_and(!SIGNALLED, AcqRel);
    }

    /// Marks the vCPU as about to sleep. The vCPU then checks for requests. Returns the value to pass to the futex
    /// wait: [`word`](Self::word) keeps that value until another thread wakes the vCPU.
    pub fn halt_in_futex(&self) -> u32 {
        self.0.fetch_or(HALTED, AcqRel) | HALTED
    }

    /// Like [`halt_in_futex`](Self::halt_in_futex), for a vCPU that sleeps in `epoll_wait`.
    pub fn halt_in_epoll(&self) {
        self.0.fetch_or(HALTED | IN_EPOLL, AcqRel);
    }

    /// Marks the vCPU as awake: it no longer sleeps, or must not fall asleep. Returns whether it was about to sleep in
    /// `epoll_wait`. The changed word does not end that sleep; a write to its wake eventfd does.
    pub fn wake(&self) -> bool {
        self.0.fetch_and(!(HALTED | IN_EPOLL), AcqRel) & IN_EPOLL != 0
    }

    /// The futex on which a halted vCPU sleeps.
    pub fn word(&self) -> &AtomicU32 {
        &self.0
    }

    /// Returns how the caller must notify the vCPU of a request that it has raised. If several callers ask, one has to
    /// notify the vCPU, and the others get [`Notification::None`].
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
