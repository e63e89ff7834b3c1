//! The errors of a queue: at set-up, when a buffer is added, and when the other side breaks the
//! specification.

use std::{error::Error, fmt};

/// Why a queue is broken: the other side wrote an invalid value. Only a reset repairs the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields, rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum QueueError {
    /// The device's used index is beyond the buffers in flight.
    #[error("used index {index} is ahead of {consumed} by more than the {outstanding} in flight")]
    UsedAhead {
        /// The device's index.
        index: u16,
        /// The index up to which the driver has consumed.
        consumed: u16,
        /// Buffers in flight.
        outstanding: u16,
    },
    /// The queue has no descriptor or buffer with this id.
    #[error("id {id} is out of range: the queue has {size}")]
    IdOutOfRange {
        /// The id that the other side wrote.
        id: u32,
        /// Size of the queue.
        size: u16,
    },
    /// The device has used a buffer that is not in flight.
    #[error("id {id} is not a buffer in flight")]
    NotInFlight {
        /// The id that the device wrote.
        id: u32,
    },
    /// The device claims to have written past the end of a buffer.
    #[error("length {len} is past the {writable} writable bytes of buffer {id}")]
    LengthPastBuffer {
        /// Id of the buffer.
        id: u32,
        /// The length that the device wrote.
        len: u32,
        /// Writable bytes of the buffer.
        writable: u32,
    },
    /// An in-order device ended a batch beyond the index that it published.
    #[error("batch up to id {id} does not end at used index {index}")]
    BatchPastIndex {
        /// The last buffer of the batch.
        id: u32,
        /// The device's index.
        index: u16,
    },
    /// The driver has made more chains available than the queue holds.
    #[error("available index {index} is ahead of {used} by more than the {size} of the queue")]
    AvailAhead {
        /// The driver's index.
        index: u16,
        /// The device's used index.
        used: u16,
        /// Size of the queue.
        size: u16,
    },
    /// The descriptors of a chain form a loop.
    #[error("chain {head} has a loop")]
    Loop {
        /// The chain's first descriptor.
        head: u16,
    },
    /// The chain has more descriptors than it may have, or than the device takes.
    #[error("chain {head} has more than {limit} descriptors")]
    ChainTooLong {
        /// The chain's first descriptor.
        head: u16,
        /// The limit.
        limit: usize,
    },
    /// The lengths of a chain add up to 4 GiB or more.
    #[error("chain {head} is longer than 4 GiB")]
    ChainTooLarge {
        /// The chain's first descriptor.
        head: u16,
    },
    /// The end of a buffer does not fit in 64 bits.
    #[error("buffer at {addr:#x} of {len:#x} bytes runs past the end of the address space")]
    BufferWraps {
        /// The buffer's start.
        addr: u64,
        /// The buffer's length in bytes.
        len: u32,
    },
    /// A readable buffer follows a writable one (virtio 1.3, 2.7.4.2).
    #[error("chain {head} has a readable buffer after a writable one")]
    ReadableAfterWritable {
        /// The chain's first descriptor.
        head: u16,
    },
    /// An indirect descriptor is in a place where virtio does not allow it.
    #[error("chain {head} has an indirect descriptor that is nested, chained or not negotiated")]
    IndirectMisplaced {
        /// The chain's first descriptor.
        head: u16,
    },
    /// The length of an indirect table is 0, or not a multiple of a descriptor's size.
    #[error("indirect table of {len} bytes in chain {head}")]
    IndirectLength {
        /// First descriptor of the chain.
        head: u16,
        /// Length of the table in bytes.
        len: u32,
    },
    /// An indirect table is not in memory.
    #[error("indirect table at {addr:#x} of {len:#x} bytes is outside of memory")]
    IndirectOutside {
        /// Start of the table.
        addr: u64,
        /// Length of the table in bytes.
        len: u32,
    },
}

/// The error of setting a queue up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// The size is not allowed: for split rings a power of two up to 32768, for packed rings 1 to 32768.
    #[error("a queue cannot have {size} entries")]
    Size {
        /// The size in the layout.
        size: u16,
    },
    /// A part of the queue is not in memory.
    #[error("{part} at {addr:#x} of {len:#x} bytes is outside of memory")]
    Outside {
        /// Name of the part.
        part: &'static str,
        /// The part's start.
        addr: u64,
        /// The part's length in bytes.
        len: usize,
    },
    /// A part of the queue is not aligned as virtio 1.3, 2.7 and 2.8.10.1 require.
    #[error("{part} at {addr:#x} is not aligned to {align} bytes")]
    Misaligned {
        /// Name of the part.
        part: &'static str,
        /// The part's start.
        addr: u64,
        /// The alignment in bytes.
        align: u64,
    },
    /// Two parts of the queue share bytes.
    #[error("{part} at {addr:#x} overlaps the {other}")]
    Overlap {
        /// One of the parts.
        part: &'static str,
        /// The part's start.
        addr: u64,
        /// The other part.
        other: &'static str,
    },
    /// Indirect tables cannot have this number of entries, or the feature was not negotiated.
    #[error("indirect tables of {entries} entries, feature negotiated: {negotiated}")]
    Indirect {
        /// Entries of each table.
        entries: u16,
        /// Whether the feature was negotiated.
        negotiated: bool,
    },
}

/// Why a buffer was not added. The queue is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddError {
    /// There are too few free descriptors now; consume used buffers and try again.
    #[error("the queue is full: {needed} descriptors needed, {free} free")]
    Full {
        /// Descriptors that the buffer takes.
        needed: usize,
        /// Descriptors that are free.
        free: u16,
    },
    /// The buffer has more pieces than this queue can ever take.
    #[error("a buffer of {needed} pieces never fits: the limit is {limit}")]
    TooLong {
        /// How many pieces the buffer has.
        needed: usize,
        /// The limit.
        limit: u16,
    },
    /// The buffer has no pieces.
    #[error("a buffer needs at least one piece")]
    Empty,
    /// The lengths of the buffer's pieces add up to 4 GiB or more.
    #[error("a buffer of {len} bytes is too large")]
    TooLarge {
        /// The sum in bytes.
        len: u64,
    },
    /// The queue is broken.
    #[error("the queue is broken")]
    Broken(#[source] QueueError),
}

impl AddError {
    /// Returns why a queue that is not broken cannot take a buffer. The buffer has `pieces` and `len` bytes, and needs
    /// `needed` descriptors of `free`; `limit` is the maximum number of pieces.
    pub(super) fn why(pieces: usize, needed: usize, limit: u16, len: u64, free: u16) -> Self {
        if pieces == 0 {
            Self::Empty
        } else if len > u64::from(u32::MAX) {
            Self::TooLarge { len }
        } else if pieces > usize::from(limit) {
            let needed = pieces;
            Self::TooLong { needed, limit }
        } else {
            Self::Full { needed, free }
        }
    }
}

/// A buffer that was not added, with its data.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct NotAdded<T> {
    /// Why the buffer was not added.
    pub error: AddError,
    /// The data that the driver passed to `add`.
    pub data: T,
}

impl<T> fmt::Debug for NotAdded<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("NotAdded");
        debug.field("error", &self.error).finish_non_exhaustive()
    }
}

impl<T> fmt::Display for NotAdded<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<T> Error for NotAdded<T> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error.source()
    }
}

/// Why a device could not give a chain back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UsedError {
    /// The length is more than the writable bytes of the chain.
    #[error("length {len} is past the {writable} writable bytes of chain {id}")]
    LengthPastChain {
        /// The chain.
        id: u16,
        /// The length that the device wanted to report.
        len: u32,
        /// Writable bytes of the chain.
        writable: u32,
    },
    /// `VIRTIO_F_IN_ORDER` was negotiated, and an older chain has not been given back yet.
    #[error("chain {id} is not the oldest, but the queue is in order")]
    OutOfOrder {
        /// The chain.
        id: u16,
    },
    /// More chains were given back than were taken: this chain belongs to another queue.
    #[error("chain {id} was not taken from this queue")]
    NotTaken {
        /// The chain.
        id: u16,
    },
}

/// Why wrap counters cannot be enabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WrapCounterError {
    /// The queue is broken.
    #[error("the queue is broken")]
    Broken(#[source] QueueError),
    /// The driver asks too early (the status lacks DRIVER) or too late (the queues are live).
    #[error("device status {status:#x}: wrap counters are chosen by the driver before DRIVER_OK")]
    Status {
        /// The device status.
        status: u8,
    },
}

impl WrapCounterError {
    /// The errno that Linux's function of the same name returns for this error.
    pub const fn errno(&self) -> i32 {
        match self {
            Self::Broken(_) => libc::EINVAL,
            Self::Status { .. } => libc::EBUSY,
        }
    }
}
