//! Why a doorbell could not be registered or removed, and the errno that KVM gives for it.

use super::{IoEventAddress, Pattern};
use crate::eventfd::EventFdError;

/// What is wrong with a request.
#[derive(Debug, thiserror::Error)]
pub enum DoorbellError {
    /// KVM knows five lengths.
    #[error("length {len} is none of 0, 1, 2, 4, 8")]
    Length {
        /// The length.
        len: u32,
    },
    /// The end of the range does not fit in 64 bits.
    #[error("{address} and length {len} run past the end of the address space")]
    Wraps {
        /// The address.
        address: IoEventAddress,
        /// The length.
        len: u32,
    },
    /// Flag bits that KVM does not know.
    #[error("unknown flags {flags:#x}")]
    Flags {
        /// The unknown bits.
        flags: u32,
    },
    /// A value to match, of no length.
    #[error("a value ({value:#x}) cannot be matched without a length")]
    MatchWithoutLength {
        /// The value.
        value: u64,
    },
    /// The virtio-ccw bus, which exists on s390 only.
    #[error("subchannel {subchannel:#x}: there is no virtio-ccw bus here")]
    Ccw {
        /// The subchannel.
        subchannel: u64,
    },
    /// The descriptor names no eventfd.
    #[error(transparent)]
    Event(#[from] EventFdError),
    /// Somebody else has that place.
    #[error("{address}, {pattern}: clashes with a registration that is already there")]
    Exists {
        /// The address.
        address: IoEventAddress,
        /// What it was to match.
        pattern: Pattern,
    },
    /// No such registration.
    #[error("{address}, {pattern}: not registered for this eventfd")]
    NotFound {
        /// The address.
        address: IoEventAddress,
        /// What it was to match.
        pattern: Pattern,
    },
    /// The group is at its limit.
    #[error("{address}, length {len}: the group has its {limit} items already (max_items)")]
    TooManyItems {
        /// The address.
        address: IoEventAddress,
        /// The length.
        len: u32,
        /// The limit.
        limit: u32,
    },
    /// The table is at its limit.
    #[error("the doorbell table has its {capacity} {what} already")]
    Full {
        /// Of what.
        what: &'static str,
        /// How many there are.
        capacity: usize,
    },
    /// The signal number does not fit in the table.
    #[error("signal number {signal} is above {limit}")]
    Signal {
        /// The number.
        signal: u32,
        /// The largest.
        limit: u32,
    },
}

impl DoorbellError {
    /// What the ioctl returns for it.
    pub const fn errno(&self) -> i32 {
        match self {
            Self::Length { .. }
            | Self::Wraps { .. }
            | Self::Flags { .. }
            | Self::MatchWithoutLength { .. }
            | Self::Signal { .. } => libc::EINVAL,
            Self::Ccw { .. } => libc::EOPNOTSUPP,
            Self::Event(error) => error.errno(),
            Self::Exists { .. } => libc::EEXIST,
            Self::NotFound { .. } => libc::ENOENT,
            Self::TooManyItems { .. } | Self::Full { .. } => libc::ENOSPC,
        }
    }
}

/// Why a registration failed: by the rules, or because no signal could be had.
#[derive(Debug, thiserror::Error)]
pub enum RegisterError<E> {
    /// The request is against the rules.
    #[error(transparent)]
    Doorbell(#[from] DoorbellError),
    /// The request was good, and the caller could not make its signal.
    #[error("cannot make the signal")]
    Signal(#[source] E),
}

impl<E> RegisterError<E> {
    /// Makes one error of both.
    pub fn merge(self) -> E
    where
        E: From<DoorbellError>,
    {
        match self {
            Self::Doorbell(error) => error.into(),
            Self::Signal(error) => error,
        }
    }
}
