//! What a run is made of: the options of `virtio_test`, and what a packed ring adds to them.

use vmbell::virtqueue::Features;

/// Bytes of each buffer, as `virtio_test` has them.
pub(super) const BUFFER_LEN: u32 = 1024;
/// Most pieces of a buffer.
pub(super) const MAX_PIECES: u16 = 8;

/// How many buffers the driver keeps in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Batch {
    /// Always as many.
    Fixed(u16),
    /// From one to the size of the ring, drawn anew each time.
    Random,
}

/// How the driver asks whether something was used, before it sleeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tokens {
    /// 32 bits without wraps.
    #[default]
    Plain,
    /// 32 bits with wraps.
    WrapCounters,
    /// 64 bits.
    Wide,
}

/// Who runs the sides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Threads {
    /// A thread each, woken by eventfds.
    #[default]
    Two,
    /// The caller's, in turns; notifications are counted and not sent.
    One,
}

/// A variant of the workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// A packed ring instead of a split one.
    pub packed: bool,
    /// `VIRTIO_F_EVENT_IDX`.
    pub event_idx: bool,
    /// `VIRTIO_F_INDIRECT_DESC`; buffers of one piece need no table.
    pub indirect: bool,
    /// `VIRTIO_F_VERSION_1`: without it, a split ring has the legacy layout.
    pub virtio_1: bool,
    /// The driver asks to be woken late, after three quarters of what is in flight.
    pub delayed_interrupt: bool,
    /// Buffers in flight.
    pub batch: Batch,
    /// Empties and restarts the queue each time that so many more buffers are done.
    pub reset: Option<u64>,
    /// What the driver polls with.
    pub tokens: Tokens,
    /// Descriptors of the ring.
    pub ring_size: u16,
    /// Buffers of the run.
    pub bufs: u64,
    /// Pieces of a buffer.
    pub pieces: u16,
    /// Who runs the sides.
    pub threads: Threads,
}

impl Default for Options {
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

/// What is wrong with a variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// Nothing would ever be sent.
    #[error("a batch of 0 buffers never ends")]
    Batch,
    /// More in flight than there are descriptors.
    #[error("a batch of {batch} buffers does not fit in a ring of {ring_size} descriptors")]
    BatchPastRing {
        /// Buffers in flight.
        batch: u16,
        /// Descriptors of the ring.
        ring_size: u16,
    },
    /// Resets without progress.
    #[error("a reset every 0 buffers never ends")]
    Reset,
    /// Packed rings came with version 1 (virtio 1.3, 6.3).
    #[error("a packed ring needs VIRTIO_F_VERSION_1")]
    PackedLegacy,
    /// The driver asks to be woken late without a token.
    #[error(
        "a delayed interrupt is asked for without a token, so {tokens:?} tokens change nothing"
    )]
    DelayedTokens {
        /// What the driver was to poll with.
        tokens: Tokens,
    },
    /// Too few or too many pieces, or more than the ring takes.
    #[error("a buffer of {pieces} pieces: from 1 to {limit} are possible")]
    Pieces {
        /// What was asked for.
        pieces: u16,
        /// The limit.
        limit: u16,
    },
}

impl Options {
    pub(super) fn features(&self) -> Features {
        Features {
            event_idx: self.event_idx,
            indirect: self.indirect,
            in_order: false,
        }
    }

    /// Whether this is a possible variant. Whether the ring has a proper size, set-up says.
    ///
    /// # Errors
    ///
    /// If it is none.
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
