//! Whether a vCPU is in the guest, halted or neither, so that the sender of an interrupt knows how to notify it.
//!
//! A sender first raises the vector and then calls [`Presence::tell`]; a vCPU first calls
//! [`enter`](Presence::enter) or [`halt`](Presence::halt) and then looks for requests. Each call is a
//! read-modify-write of the same word, so one of the two sees what the other did: either `tell`
//! asks the sender to signal or wake, or the vCPU finds the request by itself.
//!
//! The word lies in memory that the sandbox can write. A false word costs no more than a lost interrupt of
//! that sandbox's own guest, or a needless signal to it.

use crate::sync::AtomicU32;
use crate::sync::Ordering::{AcqRel, Acquire};

/// The vCPU runs guest code: only a signal makes it leave.
const INSIDE: u32 = 1;
/// The vCPU sleeps in `hlt`, or is about to.
const HALTED: u32 = 2;
/// A signal is on its way. It is sure to arrive, so one is enough for all senders until then.
const SIGNALLED: u32 = 4;
/// Set with `HALTED` if the vCPU sleeps until its bell is rung, and not in a futex wait on this word.
const BELL: u32 = 8;

/// How often [`Presence::tell`] tries to change a word that others change at the same time. An honest vCPU
/// changes it a few times a microsecond; the bound keeps a hostile sandbox from holding a sender up.
const TRIES: u32 = 64;

/// How to notify a vCPU of an interrupt request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Tell {
    /// There is nothing to do: the vCPU looks for requests before it enters the guest, or was notified already.
    Nothing,
    /// Send the interrupt signal (SIGUSR2) to the vCPU's thread.
    Signal,
    /// Wake the vCPU from its futex wait on [`Presence::word`].
    Wake,
    /// Ring the vCPU's bell ([`crate::layout::HaltSet`]).
    Ring,
}

/// Where one vCPU is. All-zero bytes mean outside the guest.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Presence(AtomicU32);

impl Presence {
    /// The vCPU is about to enter the guest, and looks for requests after this.
    #[inline(always)]
    pub fn enter(&self) {
        self.0.fetch_or(INSIDE, AcqRel);
    }

    /// The vCPU has left the guest.
    #[inline(always)]
    pub fn leave(&self) {
        self.0.fetch_and(!INSIDE, AcqRel);
    }

    /// The interrupt signal has arrived; another may be sent. The vCPU looks for requests after this.
    pub fn arrived(&self) {
        self.0.fetch_and(!SIGNALLED, AcqRel);
    }

    /// The vCPU is about to sleep, and looks for requests after this. Returns what [`word`](Self::word) holds
    /// until somebody wakes the vCPU: the value to pass to the futex wait.
    pub fn halt(&self) -> u32 {
        self.0.fetch_or(HALTED, AcqRel) | HALTED
    }

    /// As [`halt`](Self::halt), for a vCPU that sleeps until its bell is rung.
    pub fn halt_by_bell(&self) {
        self.0.fetch_or(HALTED | BELL, AcqRel);
    }

    /// The vCPU sleeps no longer, or must not fall asleep. Returns whether it was to sleep until its bell is rung:
    /// then changing the word does not keep it from sleeping, but ringing the bell does.
    pub fn wake(&self) -> bool {
        self.0.fetch_and(!(HALTED | BELL), AcqRel) & BELL != 0
    }

    /// The futex on which a halted vCPU sleeps.
    pub fn word(&self) -> &AtomicU32 {
        &self.0
    }

    /// How the vCPU must be notified of a request that the caller has raised. Of several callers, one gets the
    /// task, and the others get [`Tell::Nothing`].
    pub fn tell(&self) -> Tell {
        let mut seen = self.0.fetch_or(0, AcqRel);
        for _ in 0..TRIES {
            let (next, tell) = if seen & HALTED != 0 {
                let tell = if seen & BELL != 0 {
                    Tell::Ring
                } else {
                    Tell::Wake
                };
                (seen & !(HALTED | BELL), tell)
            } else if seen & (INSIDE | SIGNALLED) == INSIDE {
                (seen | SIGNALLED, Tell::Signal)
            } else {
                return Tell::Nothing;
            };
            match self.0.compare_exchange(seen, next, AcqRel, Acquire) {
                Ok(_) => return tell,
                Err(found) => seen = found,
            }
        }
        Tell::Signal
    }
}
