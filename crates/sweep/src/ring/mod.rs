//! A virtqueue as seen from outside: how many requests have no answer, and how many answers the driver has not taken.
//!
//! The guest tells where its rings are; both the guest and the device may have written anything there.

mod packed;
mod split;

use serde::{Deserialize, Serialize};

use crate::memory::MemoryError;

pub use packed::PackedPlace;
pub use split::{SplitPlace, SplitState};

/// The maximum number of descriptors of a ring (virtio 1.2, 2.7 and 2.8).
pub const MAX_SIZE: u16 = 1 << 15;

/// Why a ring cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RingError {
    /// Its memory cannot be read.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The number of descriptors is not one that a ring may have.
    #[error("a ring of {size} descriptors with {chain} in each request is impossible")]
    Size {
        /// The ring's descriptors.
        size: u16,
        /// The descriptors of a request.
        chain: u16,
    },
    /// The indexes contradict each other.
    #[error(
        "a ring of {size} descriptors cannot have available index {available}, used index {used} and {seen} taken"
    )]
    Indexes {
        /// The ring's descriptors.
        size: u16,
        /// The driver's available index.
        available: u16,
        /// The device's used index.
        used: u16,
        /// The number of answers that the driver has taken, modulo 65536.
        seen: u16,
    },
}

/// What is open in a queue while the VM is paused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenRing {
    /// The number of requests that the device has not answered.
    pub requests: u16,
    /// The number of answers that the driver has not taken: their interrupt may be on its way.
    pub answers: u16,
    /// Whether the driver will not notify the device of its next request, although none is open (EVENT_IDX).
    pub suppressed: bool,
}

impl OpenRing {
    /// Whether a notification can be lost now. Only a guest that waits for the interrupt can lose an answer's.
    pub fn is_open(self, waits_for_interrupt: bool) -> bool {
        self.requests != 0 || self.suppressed || waits_for_interrupt && self.answers != 0
    }
}
