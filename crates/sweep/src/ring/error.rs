//! Why a ring cannot be read.

use crate::memory::MemoryError;

/// The maximum number of descriptors of a ring (virtio 1.2, 2.7 and 2.8).
pub(super) const MAX_SIZE: u16 = 1 << 15;

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
