//! The errors of registering and removing doorbells, and the errno that KVM returns for each.

use super::{IoEventAddress, Pattern};
use crate::eventfd::EventFdError;

/// A refused request.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DoorbellError {
    /// The length is not one of the five that KVM accepts.
    #[error("length {len} is not 0, 1, 2, 4 or 8")]
    Length {
        /// The length.
        len: u32,
    },
    /// The end of the written bytes does not fit in 64 bits.
    #[error("{address} and length {len} run past the end of the address space")]
    Wraps {
        /// The address.
        address: IoEventAddress,
        /// The length.
        len: u32,
    },
    /// A datamatch is combined with length 0.
    #[error("a value ({value:#x}) cannot be matched without a length")]
    MatchWithoutLength {
        /// The value.
        value: u64,
    },
    /// The length is not one of the four that a payload may have.
    #[error("the payload of a doorbell has 1, 2, 4 or 8 bytes, not {len}")]
    PayloadLength {
        /// The length.
        len: u32,
    },
    /// The descriptor does not refer to an eventfd.
    #[error(transparent)]
    Event(#[from] EventFdError),
    /// The doorbell collides with another one.
    #[error("{address}, {pattern}: clashes with a registration that is already there")]
    Exists {
        /// The address.
        address: IoEventAddress,
        /// The width and value to match.
        pattern: Pattern,
    },
    /// There is no such registration.
    #[error("{address}, {pattern}: not registered for this eventfd")]
    NotFound {
        /// The address.
        address: IoEventAddress,
        /// The width and value to match.
        pattern: Pattern,
    },
    /// The group already has the maximum number of items.
    #[error("{address}, length {len}: the group has its {limit} items already (max_items)")]
    TooManyItems {
        /// The address.
        address: IoEventAddress,
        /// The length.
        len: u32,
        /// The limit.
        limit: u32,
    },
    /// The table is full.
    #[error("the doorbell table has its {capacity} {what} already")]
    Full {
        /// The kind of piece that has run out, in the plural.
        what: &'static str,
        /// How many such pieces the table can have.
        capacity: usize,
    },
    /// The signal number does not fit in the table.
    #[error("signal number {signal} is above {limit}")]
    Signal {
        /// The signal number.
        signal: u32,
        /// The largest number that fits.
        limit: u32,
    },
}

impl DoorbellError {
    /// The errno that KVM's ioctl returns for this error.
    pub const fn errno(&self) -> i32 {
        match self {
            Self::Length { .. }
            | Self::Wraps { .. }
            | Self::MatchWithoutLength { .. }
            | Self::PayloadLength { .. }
            | Self::Signal { .. } => libc::EINVAL,
            Self::Event(error) => error.errno(),
            Self::Exists { .. } => libc::EEXIST,
            Self::NotFound { .. } => libc::ENOENT,
            Self::TooManyItems { .. } | Self::Full { .. } => libc::ENOSPC,
        }
    }
}

/// Why a registration failed: it was refused, or its signal could not be made.
#[derive(Debug, thiserror::Error)]
pub enum RegisterError<E> {
    /// The request was refused.
    #[error(transparent)]
    Doorbell(#[from] DoorbellError),
    /// The request was allowed, but the caller could not make its signal.
    #[error("cannot make the signal")]
    Signal(#[source] E),
}

impl<E> RegisterError<E> {
    /// Converts either error to the caller's error type.
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
