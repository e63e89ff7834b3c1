//! The states of both sides of a queue, the checks that every state must pass, and the errors of restoring one. With
//! the feature `serde`, states can be written and read in any format of serde.
//!
//! A state has everything that decides how its side continues, except what the ring's memory holds (virtio 1.3, 2.7 and
//! 2.8). It is not trusted: before the queue changes, every field is checked against the queue and against the other
//! fields. The caller saves and restores while neither side runs.

mod device;
mod driver;

use crate::features::Features;
use crate::ring;

pub use device::{DeviceState, HeadState};
pub use driver::{BufferState, DriverState};

/// The version of [`DeviceState`] and [`DriverState`].
pub const STATE_VERSION: u16 = 1;

/// The largest number of steps since the last check for a notification that a state can hold. An event index is at most
/// 65,535 entries away, so this number also means any larger one.
pub(super) const MANY: u32 = 1 << 16;

/// The smaller of `steps` and [`MANY`].
pub(super) fn at_most_many(steps: u64) -> u32 {
    u32::try_from(steps).unwrap_or(MANY).min(MANY)
}

/// The queue that a state is saved from or restored to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    pub(super) ring: RingKind,
    pub(super) size: u16,
    pub(super) features: Features,
}

impl Target {
    /// Checks that a state has this version and belongs to a queue like this one.
    fn check(&self, version: u16, saved: Self) -> Result<(), RestoreError> {
        if version != STATE_VERSION {
            return Err(RestoreError::Version { version });
        }
        let pairs = [
            ("ring", saved.ring as u64, self.ring as u64),
            ("size", saved.size.into(), self.size.into()),
            ("features", bits(saved.features), bits(self.features)),
        ];
        for (field, saved, queue) in pairs {
            same(field, saved, queue)?;
        }
        Ok(())
    }
}

/// The features as a set of bits.
fn bits(features: Features) -> u64 {
    u64::from(features.event_idx)
        | u64::from(features.indirect) << 1
        | u64::from(features.in_order) << 2
}

fn same(field: &'static str, saved: u64, queue: u64) -> Result<(), RestoreError> {
    if saved == queue {
        return Ok(());
    }
    let error = RestoreError::OtherQueue {
        field,
        saved,
        queue,
    };
    Err(error)
}

fn at_most(
    field: &'static str,
    value: impl Into<u64>,
    limit: impl Into<u64>,
) -> Result<(), RestoreError> {
    let (value, limit) = (value.into(), limit.into());
    if value <= limit {
        return Ok(());
    }
    let error = RestoreError::TooLarge {
        field,
        value,
        limit,
    };
    Err(error)
}

fn undefined(field: &'static str, value: impl Into<u64>) -> RestoreError {
    let value = value.into();
    RestoreError::Undefined { field, value }
}

/// Reads the version of a state, which determines the state's form. It is the first field, so that a state of another
/// version is refused for its version, regardless of what follows.
#[cfg(feature = "serde")]
fn known_version<'de, D: serde::Deserializer<'de>>(from: D) -> Result<u16, D::Error> {
    let version = serde::Deserialize::deserialize(from)?;
    if version != STATE_VERSION {
        return Err(serde::de::Error::custom(RestoreError::Version { version }));
    }
    Ok(version)
}

/// Reads an optional value whose field must exist: serde by itself reads a missing field as `None`.
#[cfg(feature = "serde")]
fn required<'de, T, D>(from: D) -> Result<Option<T>, D::Error>
where
    T: serde::Deserialize<'de>,
    D: serde::Deserializer<'de>,
{
    serde::Deserialize::deserialize(from)
}

/// Split or packed: the format of a ring (virtio 1.3, 2.7 and 2.8). It decides what an index in a state is.
///
/// On a split ring, an index is the ring's own, which counts buffers modulo 65,536. On a packed ring, it is a slot in
/// bits 14:0 and the wrap counter in bit 15, as in virtio's event suppression structures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "snake_case")
)]
pub enum RingKind {
    /// A split ring.
    Split,
    /// A packed ring.
    Packed,
}

impl RingKind {
    /// How many entries of the driver's list belong to a buffer that fills this many slots.
    pub(crate) fn entries(self, slots: u16) -> usize {
        match self {
            Self::Split => usize::from(slots),
            Self::Packed => 1,
        }
    }

    /// The index of a position (see [`crate::poll`]).
    pub(super) const fn index(self, position: u64) -> u16 {
        ring::index(match self {
            Self::Split => ring::split_opaque(position),
            Self::Packed => ring::packed_opaque(position),
        })
    }

    /// How many buffers (split) or slots (packed) `to` is after `from`: at most `size`. Fails if no ring of this size
    /// can have both indices at the same time.
    pub(super) fn distance(
        self,
        field: &'static str,
        from: u16,
        to: u16,
        size: u16,
    ) -> Result<u16, RestoreError> {
        let distance = match self {
            Self::Split => Some(to.wrapping_sub(from)),
            Self::Packed => {
                let ((from, to), wrapped) = ((from & SLOT, to & SLOT), (from ^ to) & !SLOT != 0);
                let lap = if wrapped { size } else { 0 };
                let inside = from < size && to < size;
                // A slot has 15 bits and a size is at most 32768, so the sum has 16.
                (to + lap).checked_sub(from).filter(|_| inside)
            }
        };
        distance
            .filter(|&distance| distance <= size)
            .ok_or(RestoreError::Apart {
                field,
                from,
                to,
                size,
            })
    }
}

/// The bits of a packed ring's index that are its slot.
pub(super) const SLOT: u16 = 0x7fff;

/// Why a saved state cannot be restored. The queue is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// The state has an unknown version.
    #[error("restore a queue: version {version} of the state is unknown")]
    Version {
        /// The version in the state.
        version: u16,
    },
    /// A field has a meaningless value.
    #[error("restore a queue: {field} cannot be {value:#x}")]
    Undefined {
        /// Name of the field.
        field: &'static str,
        /// The field's value.
        value: u64,
    },
    /// The state is of another kind of queue.
    #[error("restore a queue: {field} is {saved:#x} in the state and {queue:#x} in the queue")]
    OtherQueue {
        /// Name of the field, or of the setting of the queue.
        field: &'static str,
        /// The value in the state.
        saved: u64,
        /// The value in the queue.
        queue: u64,
    },
    /// A field is larger than the queue or the other fields allow.
    #[error("restore a queue: {field} is {value}, more than {limit}")]
    TooLarge {
        /// Name of the field.
        field: &'static str,
        /// The field's value.
        value: u64,
        /// The largest value that the queue or the other fields allow.
        limit: u64,
    },
    /// No ring has these two indices at the same time.
    #[error("restore a queue: {field} {to:#x} does not follow {from:#x} on a ring of {size}")]
    Apart {
        /// Name of the later index.
        field: &'static str,
        /// The earlier index.
        from: u16,
        /// The later index.
        to: u16,
        /// Size of the queue.
        size: u16,
    },
    /// Two fields express the same thing and do not agree.
    #[error("restore a queue: {field} is {value}, and the other fields make it {expected}")]
    Disagree {
        /// Name of the field, or of the property that the fields express.
        field: &'static str,
        /// The field's value.
        value: u64,
        /// The value that follows from the other fields.
        expected: u64,
    },
    /// An entry (a descriptor or a buffer id) is listed twice.
    #[error("restore a queue: entry {entry} is listed twice")]
    Twice {
        /// The entry.
        entry: u16,
    },
    /// A batch ends with a buffer that is not in flight.
    #[error("restore a queue: a batch ends with buffer {id}, which is not in flight")]
    NotInFlight {
        /// The buffer.
        id: u16,
    },
    /// `VIRTIO_F_IN_ORDER` was negotiated, and the state is impossible for buffers that are used in order.
    #[error("restore a queue: {id} is out of order, but the queue is in order")]
    OutOfOrder {
        /// The chain, buffer or entry.
        id: u16,
    },
    /// The caller has no data for a buffer in flight.
    #[error("restore a queue: there is no data for buffer {id}, which is in flight")]
    NoData {
        /// The buffer.
        id: u16,
    },
}
