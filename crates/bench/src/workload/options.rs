//! The options of a run: those of `virtio_test`, and more for packed rings.

use vmbell_virtqueue::Features;

/// Bytes of each buffer, as in `virtio_test`.
pub(super) const BUFFER_LEN: u32 = 1024;
/// The maximum number of pieces of a buffer.
pub(super) const MAX_PIECES: u16 = 8;

/// How many buffers the driver keeps in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Batch {
    /// Always this number.
    Fixed(u16),
    /// A number from one to the ring's size, drawn each time that the driver adds buffers.
    Random,
}

/// The token with which the driver, before it sleeps, checks whether a buffer was used meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tokens {
    /// A 32-bit token that does not count wraps of the index.
    #[default]
    Plain,
    /// A 32-bit token that counts wraps of the index.
    WrapCounters,
    /// A 64-bit token.
    Wide,
}

/// The threads that run the two sides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Threads {
    /// Each side has its own thread, woken by an eventfd.
    #[default]
    Two,
    /// Both sides take turns on the caller's thread; notifications are counted and not sent.
    One,
}

/// A variant of the workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkloadOptions {
    /// Whether the ring is packed instead of split.
    pub packed: bool,
    /// Whether `VIRTIO_F_EVENT_IDX` is negotiated.
    pub event_idx: bool,
    /// Whether `VIRTIO_F_INDIRECT_DESC` is negotiated; buffers of one piece need no table.
    pub indirect: bool,
    /// Whether `VIRTIO_F_VERSION_1` is negotiated; without it, a split ring has the legacy layout.
    pub virtio_1: bool,
    /// Whether the driver asks to be woken late, after three quarters of the buffers in flight.
    pub delayed_interrupt: bool,
    /// How many buffers are in flight.
    pub batch: Batch,
    /// Empties and restarts the queue each time this number of buffers is done; `None` for never.
    pub reset: Option<u64>,
    /// The token that the driver polls with.
    pub tokens: Tokens,
    /// The number of descriptors in the ring.
    pub ring_size: u16,
    /// The number of buffers in the run.
    pub bufs: u64,
    /// The number of pieces (descriptors) of each buffer.
    pub pieces: u16,
    /// The threads that run the two sides.
    pub threads: Threads,
}

impl Default for WorkloadOptions {
    fn default() -> Self {
        Self {
            packed: false,
            event_idx: true,
            indirect: true,
            virtio_1: true,
            delayed_interrupt: false,
            batch: Batch::Fixed(1),
            reset: None,
            tokens: Tokens::Plain,
            ring_size: 256,
            bufs: 0x10_0000,
            pieces: 1,
            threads: Threads::Two,
        }
    }
}

/// Why a variant is not possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// A batch of 0 would never send a buffer.
    #[error("a batch of 0 buffers never ends")]
    Batch,
    /// The batch is larger than the ring.
    #[error("a batch of {batch} buffers does not fit in a ring of {ring_size} descriptors")]
    BatchPastRing {
        /// The buffers in flight.
        batch: u16,
        /// The number of descriptors in the ring.
        ring_size: u16,
    },
    /// A reset every 0 buffers would never make progress.
    #[error("a reset every 0 buffers never ends")]
    Reset,
    /// A packed ring without `VIRTIO_F_VERSION_1`: the legacy interface has only split rings (virtio 1.3, 6.3).
    #[error("a packed ring needs VIRTIO_F_VERSION_1")]
    PackedLegacy,
    /// A driver that asks to be woken late uses no token, so the choice of a token would have no effect.
    #[error(
        "a delayed interrupt is asked for without a token, so {tokens:?} tokens change nothing"
    )]
    DelayedTokens {
        /// The token that was chosen.
        tokens: Tokens,
    },
    /// A buffer has too few pieces, or more than are possible.
    #[error("a buffer of {pieces} pieces: from 1 to {limit} are possible")]
    Pieces {
        /// The pieces that were asked for.
        pieces: u16,
        /// The maximum number of pieces that are possible.
        limit: u16,
    },
}

impl WorkloadOptions {
    pub(super) fn features(&self) -> Features {
        let features = Features::default().with_event_idx(self.event_idx);
        features.with_indirect(self.indirect)
    }

    /// Checks whether the variant is possible. The ring's size is checked when the queue is set up.
    ///
    /// # Errors
    ///
    /// If the variant is not possible.
    pub fn check(&self) -> Result<(), OptionsError> {
        let limit = MAX_PIECES.min(self.ring_size);
        match *self {
            Self { pieces, .. } if pieces == 0 || pieces > limit => {
                Err(OptionsError::Pieces { pieces, limit })
            }
            Self {
                batch: Batch::Fixed(0),
                ..
            } => Err(OptionsError::Batch),
            Self {
                batch: Batch::Fixed(batch),
                ring_size,
                ..
            } if batch > ring_size => Err(OptionsError::BatchPastRing { batch, ring_size }),
            Self { reset: Some(0), .. } => Err(OptionsError::Reset),
            Self {
                packed: true,
                virtio_1: false,
                ..
            } => Err(OptionsError::PackedLegacy),
            Self {
                delayed_interrupt: true,
                tokens: tokens @ (Tokens::WrapCounters | Tokens::Wide),
                ..
            } => Err(OptionsError::DelayedTokens { tokens }),
            _ => Ok(()),
        }
    }
}
