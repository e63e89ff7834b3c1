//! The RAM of a board that boots images: how much it can be, and whether another process can map it.

use std::io;
use std::ops::Range;

use vm_memory::{GuestAddress, GuestMemoryMmap};

use vmbell_hypervisor::shared_memory;

/// The minimum RAM of a board, in bytes: the first mebibyte has holes, so there must be RAM above it.
pub const MEMORY_MIN: u64 = 2 << 20;
/// The maximum RAM of a PC, in bytes: devices are above it.
pub const MEMORY_MAX: u64 = 3 << 30;

const PAGE: u64 = 4096;

/// Why a board cannot have its RAM.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RamError {
    /// The board cannot have this amount.
    #[error(
        "a board cannot have {size} bytes of RAM: it takes multiples of {PAGE} from {} MiB to {} MiB",
        MEMORY_MIN >> 20,
        most >> 20
    )]
    Size {
        /// The amount that was asked for, in bytes.
        size: u64,
        /// The maximum, in bytes.
        most: u64,
    },
    /// The host cannot provide the RAM as the memory of a file.
    #[error("cannot make {size} bytes of memory that another process can map")]
    Shared {
        /// The size of RAM.
        size: u64,
        /// The error.
        source: io::Error,
    },
}

/// Checks the size of RAM at the start of `place`, and makes the memory if it has to be file-backed; otherwise the
/// backend makes it.
pub(super) fn make(
    place: &Range<u64>,
    size: u64,
    is_shared: bool,
) -> Result<Option<GuestMemoryMmap>, RamError> {
    let most = place.end - place.start;
    if !(MEMORY_MIN..=most).contains(&size) || !size.is_multiple_of(PAGE) {
        return Err(RamError::Size { size, most });
    }
    let shared = || shared_memory(GuestAddress(place.start), size);
    let made = is_shared.then(shared).transpose();
    made.map_err(|source| RamError::Shared { size, source })
}
