//! A virtqueue as seen from outside: how many requests have no answer, and how many answers the driver has not taken.
//!
//! The guest tells where its rings are; both the guest and the device may have written anything there.

mod error;
mod open;
mod packed;
mod split;

use serde::{Deserialize, Serialize};

use crate::memory::GuestMemory;

pub use error::RingError;
pub use open::OpenRing;
pub use packed::{PackedPlace, PackedState};
pub use split::{SplitPlace, SplitState};

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
            Self::Packed(place) => place.distance(first, to),
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
