//! Bells: how one task wakes another.
//!
//! The word of a bell is one location of the graph. Each operation on it is one atomic step that acquires and releases,
//! as eventfd's lock and an interrupt controller's lock do. Under TSO the step also drains the store buffer, as a VM
//! exit does. It is not a sequentially consistent fence: on arm64 neither an exit nor a lock is such a fence.
//!
//! [`Bell`] is an eventfd. Other notifications are bits of a [`Word`]: [`Msi`], [`Level`] and [`VhostUser`]. [`Polled`] is
//! a counter in the shared memory, for drivers that poll.

mod level;
mod msi;
mod polled;
mod vhost_user;
mod word;

pub use level::Level;
pub use msi::Msi;
pub use polled::{Polled, Token, Width};
pub use vhost_user::{Message, VhostUser};
pub use word::Word;

use crate::graph::Order;
use crate::search::Access;
use crate::task;

/// The bits of a sleeper's word that say which bells have rung.
const RUNG: u64 = 0xFFFF_FFFF;
/// The first of the bits that say which signals were taken back. Such a signal stays in the word until the waiting task
/// takes it and continues to wait: the search follows only one task that takes the signals of a word.
const TAKEN_BACK: u32 = 32;

/// Where a task sleeps: the set of its bells that have rung. As with epoll, a wait returns all of them and clears them.
#[derive(Clone, Copy, Debug)]
pub struct Sleeper {
    offset: u16,
}

/// One bell of a [`Sleeper`], which behaves as an eventfd: signals between two waits become one.
#[derive(Clone, Copy, Debug)]
pub struct Bell {
    offset: u16,
    bit: u8,
}

fn word(offset: u16, awaits: u64) -> Access {
    Access {
        awaits,
        ..Access::new(offset, 8, Order::AcqRel, 0)
    }
}

impl Sleeper {
    pub(crate) fn new(offset: u16) -> Sleeper {
        Sleeper { offset }
    }

    /// The bell with this number, 0 to 31.
    pub fn bell(&self, bit: u8) -> Bell {
        Bell {
            offset: self.offset,
            bit,
        }
    }

    /// Sleeps until a bell rings. Returns one bit for each bell that has rung. Only one task may wait here.
    pub fn wait(&self) -> u32 {
        loop {
            let access = word(self.offset, RUNG);
            let rung = rung(task::update(access, |_| Some(0)));
            if rung != 0 {
                return rung;
            }
        }
    }

    /// Returns the bells that have rung, without sleeping, and clears them.
    pub fn poll(&self) -> u32 {
        let access = word(self.offset, 0);
        rung(task::update(access, |bits| (bits != 0).then_some(0)))
    }
}

impl Bell {
    /// Rings.
    pub fn signal(&self) {
        let (access, bit) = (word(self.offset, 0), 1 << self.bit);
        task::update(access, |bits| Some((bits | bit) & !(bit << TAKEN_BACK)));
    }

    /// Takes the signal back: it is lost, as if another process continued with a new eventfd. True if a signal was
    /// pending.
    pub fn clear(&self) -> bool {
        let (access, bit) = (word(self.offset, 0), 1 << self.bit);
        let old = task::update(access, |bits| {
            (bits & bit != 0).then_some(bits | bit << TAKEN_BACK)
        });
        rung(old) & 1 << self.bit != 0
    }
}

/// The bells of a word that have rung.
fn rung(bits: u64) -> u32 {
    u32::try_from(bits & RUNG & !(bits >> TAKEN_BACK)).unwrap_or(u32::MAX)
}
