//! Where a vCPU is, so that whoever sends it an interrupt knows how to tell it.
//!
//! A sender raises the vector first and asks [`Presence::tell`] then; a vCPU says
//! [`enter`](Presence::enter) or [`halt`](Presence::halt) first and looks for requests then. Each
//! step is a read-modify-write of the one word, so of two that cross one sees what the other did:
//! either the sender is told to signal or wake, or the vCPU finds the request by itself.
//!
//! The word lies in memory that the sandbox can write. What a false word costs is an interrupt of
//! that sandbox's own guest, or a signal too many to it.

use crate::sync::AtomicU32;
use crate::sync::Ordering::{AcqRel, Acquire};

/// In the guest's code: only a signal gets it out.
const INSIDE: u32 = 1;
/// Asleep in `hlt`.
const HALTED: u32 = 2;
/// A signal is on its way. It comes for certain, so one is enough for all who send meanwhile.
const SIGNALLED: u32 = 4;
/// Asleep in `hlt` until its bell is rung, rather than on this word.
const BELL: u32 = 8;

/// How often [`Presence::tell`] tries to change a word that others change. An honest vCPU changes
/// it a few times a microsecond; a hostile one is not waited for.
const TRIES: u32 = 64;

/// How to tell a vCPU that it has a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Tell {
    /// Not at all: it will look before it enters the guest, or is told already.
    Nothing,
    /// By the interrupt signal, to its thread.
    Signal,
    /// By waking who sleeps on [`Presence::word`].
    Wake,
    /// By ringing its bell ([`crate::layout::HaltSet`]).
    Ring,
}

/// Where one vCPU is. All-zero bytes are: outside the guest.
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

    /// The vCPU is about to sleep, and looks for requests after this: what [`word`](Self::word)
    /// holds as long as nobody wakes it.
    pub fn halt(&self) -> u32 {
        self.0.fetch_or(HALTED, AcqRel) | HALTED
    }

    /// The same for a vCPU that sleeps until its bell is rung.
    pub fn halt_by_bell(&self) {
        self.0.fetch_or(HALTED | BELL, AcqRel);
    }

    /// The vCPU sleeps no longer, or shall not fall asleep; whether only its bell keeps it from that.
    pub fn wake(&self) -> bool {
        self.0.fetch_and(!(HALTED | BELL), AcqRel) & BELL != 0
    }

    /// What a halted vCPU sleeps on.
    pub fn word(&self) -> &AtomicU32 {
        &self.0
    }

    /// Called with the request raised: how its vCPU must be told. Of several who ask, one is to do it.
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
