//! What can go wrong with a queue: at set-up, on the way in, and with what the other side writes.

use std::{error::Error, fmt};

/// Why a queue is broken: the other side wrote what it must not. Only a reset mends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueueError {
    /// The device has used more buffers than it has.
    #[error("used index {index} is ahead of {consumed} by more than the {outstanding} in flight")]
    UsedAhead {
        /// The device's index.
        index: u16,
        /// How far the driver has read.
        consumed: u16,
        /// Buffers in flight.
        outstanding: u16,
    },
    /// No such descriptor.
    #[error("id {id} is out of range: the queue has {size}")]
    IdOutOfRange {
        /// What the other side wrote.
        id: u32,
        /// Size of the queue.
        size: u16,
    },
    /// The device has used a buffer that it does not have.
    #[error("id {id} is no buffer in flight")]
    NotInFlight {
        /// What the device wrote.
        id: u32,
    },
    /// The device claims to have written past the end of a buffer.
    #[error("length {len} is past the {writable} writable bytes of buffer {id}")]
    LengthPastBuffer {
        /// The buffer.
        id: u32,
        /// What the device wrote.
        len: u32,
        /// What the buffer takes.
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
    /// The driver has made more available than the queue holds.
    #[error("available index {index} is ahead of {used} by more than the {size} of the queue")]
    AvailAhead {
        /// The driver's index.
        index: u16,
        /// How many the device has used.
        used: u16,
        /// Size of the queue.
        size: u16,
    },
    /// The chain goes round.
    #[error("chain {head} has a loop")]
    Loop {
        /// Its first descriptor.
        head: u16,
    },
    /// The chain has more descriptors than it may, or than the device takes.
    #[error("chain {head} has more than {limit} descriptors")]
    ChainTooLong {
        /// Its first descriptor.
        head: u16,
        /// The limit.
        limit: usize,
    },
    /// The lengths of a chain add up to 4 GiB or more.
    #[error("chain {head} is longer than 4 GiB")]
    ChainTooLarge {
        /// Its first descriptor.
        head: u16,
    },
    /// A buffer the end of which does not fit in 64 bits.
    #[error("buffer at {addr:#x} of {len:#x} bytes runs past the end of the address space")]
    BufferWraps {
        /// Its start.
        addr: u64,
        /// Its length.
        len: u32,
    },
    /// Writable buffers come last (virtio 1.3, 2.7.4.2).
    #[error("chain {head} has a readable buffer behind a writable one")]
    ReadableAfterWritable {
        /// Its first descriptor.
        head: u16,
    },
    /// An indirect descriptor where there may be none.
    #[error("chain {head} has an indirect descriptor that is nested, chained or not negotiated")]
    IndirectMisplaced {
        /// Its first descriptor.
        head: u16,
    },
    /// An indirect table that holds no whole number of descriptors, or none.
    #[error("indirect table of {len} bytes in chain {head}")]
    IndirectLength {
        /// First descriptor of the chain.
        head: u16,
        /// Length of the table in bytes.
        len: u32,
    },
    /// An indirect table that is not in memory.
    #[error("indirect table at {addr:#x} of {len:#x} bytes is outside of memory")]
    IndirectOutside {
        /// Start of the table.
        addr: u64,
        /// Length of the table in bytes.
        len: u32,
    },
}

/// Why a queue could not be set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    /// Split: a power of two up to 32768. Packed: 1 to 32768.
    #[error("a queue cannot have {size} entries")]
    Size {
        /// What was asked for.
        size: u16,
    },
    /// A part of the queue is not in memory.
    #[error("{part} at {addr:#x} of {len:#x} bytes is outside of memory")]
    Outside {
        /// Which part.
        part: &'static str,
        /// Its start.
        addr: u64,
        /// Its length in bytes.
        len: usize,
    },
    /// A part of the queue is not aligned as virtio 1.3, 2.7 and 2.8.10.1 ask for.
    #[error("{part} at {addr:#x} is not aligned to {align} bytes")]
    Misaligned {
        /// Which part.
        part: &'static str,
        /// Its start.
        addr: u64,
        /// The alignment in bytes.
        align: u64,
    },
    /// Two parts of the queue share bytes.
    #[error("{part} at {addr:#x} overlaps the {other}")]
    Overlap {
        /// The one.
        part: &'static str,
        /// Its start.
        addr: u64,
        /// The other.
        other: &'static str,
    },
    /// Indirect tables of no entries, or without the feature.
    #[error("indirect tables of {entries} entries, feature negotiated: {negotiated}")]
    Indirect {
        /// Entries of each table.
        entries: u16,
        /// Whether the feature was negotiated.
        negotiated: bool,
    },
}

/// Why a buffer was not added. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddError {
    /// Too few free descriptors now; consume used buffers and try again.
    #[error("the queue is full: {needed} descriptors needed, {free} free")]
    Full {
        /// Descriptors that the buffer takes.
        needed: usize,
        /// Descriptors that are free.
        free: u16,
    },
    /// More pieces than this queue ever takes.
    #[error("a buffer of {needed} pieces never fits: the limit is {limit}")]
    TooLong {
        /// Pieces.
        needed: usize,
        /// The limit.
        limit: u16,
    },
    /// A buffer of no pieces.
    #[error("a buffer needs at least one piece")]
    Empty,
    /// Lengths that add up to 4 GiB or more.
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
    /// Why a sound queue with `free` descriptors cannot take a buffer of `pieces` and `len` bytes
    /// that needs `needed` descriptors, where a buffer has at most `limit` pieces.
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

/// A buffer that was not added, with the data that was to go with it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct NotAdded<T> {
    /// Why.
    pub error: AddError,
    /// What the driver gave to `add`.
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
pub enum UsedError {
    /// More was written than the chain takes.
    #[error("length {len} is past the {writable} writable bytes of chain {id}")]
    LengthPastChain {
        /// The chain.
        id: u16,
        /// What the device was about to say.
        len: u32,
        /// What the chain takes.
        writable: u32,
    },
    /// The queue promises order, and an older chain is not back yet.
    #[error("chain {id} is not the oldest, and the queue promises order")]
    OutOfOrder {
        /// The chain.
        id: u16,
    },
    /// More came back than was taken: the chain is another queue's.
    #[error("chain {id} was not taken from this queue")]
    NotTaken {
        /// The chain.
        id: u16,
    },
}

/// Why wrap counters cannot be switched on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WrapCounterError {
    /// The queue is broken.
    #[error("the queue is broken")]
    Broken(#[source] QueueError),
    /// It is too early (no driver yet) or too late (the queues are live).
    #[error("device status {status:#x}: wrap counters are chosen by the driver before DRIVER_OK")]
    Status {
        /// The device status.
        status: u8,
    },
}

impl WrapCounterError {
    /// The errno of the kernel call of that name.
    pub const fn errno(&self) -> i32 {
        match self {
            Self::Broken(_) => libc::EINVAL,
            Self::Status { .. } => libc::EBUSY,
        }
    }
}
