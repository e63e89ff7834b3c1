//! A virtqueue as seen from outside: how many requests have no answer, and how many answers the driver has not taken.
//!
//! The guest tells where its rings are; both the guest and the device may have written anything there.

mod packed;
mod split;

use serde::{Deserialize, Serialize};

use crate::memory::{GuestMemory, MemoryError};

pub use packed::{PackedPlace, PackedState};
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

/// Where a ring is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingPlace {
    /// A split ring.
    Split(SplitPlace),
    /// A packed ring.
    Packed(PackedPlace),
}

impl RingPlace {
    /// Reads the ring.
    pub fn read(&self, memory: &GuestMemory) -> Result<RingState, RingError> {
        Ok(match self {
            Self::Split(place) => RingState::Split(place.read(memory)?),
            Self::Packed(place) => RingState::Packed(place.read(memory)?),
        })
    }

    /// Whether a position is not before the first one, and not after the last one.
    pub fn is_between(&self, first: u16, position: u16, last: u16) -> bool {
        let distance = |to| match self {
            Self::Split(_) => u16::wrapping_sub(to, first),
            Self::Packed(place) => packed::distance(place.size, first, to),
        };
        distance(position) <= distance(last)
    }
}

/// A ring as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "format", rename_all = "lowercase")]
pub enum RingState {
    /// A split ring.
    Split(SplitState),
    /// A packed ring.
    Packed(PackedState),
}

impl RingState {
    /// What is open.
    pub fn open(&self, event_idx: bool) -> OpenRing {
        match self {
            Self::Split(state) => state.open(event_idx),
            Self::Packed(state) => state.open(),
        }
    }

    /// Whether the device has taken an open request, by its event index. `None` if its position is unknown: without
    /// EVENT_IDX, with nothing open, or if the index is older than the last answer.
    pub fn taken(&self, event_idx: bool) -> Option<bool> {
        match self {
            Self::Split(state) => state.taken(event_idx),
            Self::Packed(state) => state.taken(),
        }
    }

    /// The driver's index, the device's, where the driver takes the next answer, and both event indexes. Those of a
    /// packed ring are positions with the wrap counter in bit 15.
    pub fn words(&self) -> [u16; 5] {
        match self {
            Self::Split(state) => [
                state.available,
                state.used,
                state.seen,
                state.avail_event,
                state.used_event,
            ],
            Self::Packed(state) => state.words(),
        }
    }
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
