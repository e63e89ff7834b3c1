//! The split ring: a descriptor table, the available ring, which the driver writes, and the used ring, which the device
//! writes (virtio 1.3, 2.7 and 2.7.2). This file defines the addresses of these three parts.

mod device;
mod driver;
mod ring;

use super::error::SetupError;
use crate::{descriptor, memory};

pub use device::SplitDevice;
pub use driver::{SplitDriver, SplitSide};
pub use ring::SplitRing;

/// Bytes of the available ring in addition to its entries: flags, index and used event.
const AVAIL_EXTRA: u64 = 6;
/// Bytes of the used ring in addition to its entries: flags, index and available event.
const USED_EXTRA: u64 = 6;
const USED_ALIGN: u64 = 4;
/// Largest size of a queue.
const MAX: u16 = 1 << 15;

/// Size and addresses of a split ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitLayout {
    /// The number of descriptors: a power of two up to 32768.
    pub size: u16,
    /// Address of the descriptor table, aligned to 16; each descriptor has 16 bytes.
    pub descriptors: u64,
    /// Address of the available ring, aligned to 2.
    pub avail: u64,
    /// Address of the used ring, aligned to 4.
    pub used: u64,
}

impl SplitLayout {
    /// A layout of consecutive parts from `base` on.
    pub const fn contiguous(base: u64, size: u16) -> Self {
        Self::legacy(base, size, USED_ALIGN)
    }

    /// Like [`contiguous`](Self::contiguous), with the used ring aligned to `align` bytes, as legacy devices expect.
    pub const fn legacy(base: u64, size: u16, align: u64) -> Self {
        let avail = base + descriptor::BYTES as u64 * size as u64;
        let end = avail + AVAIL_EXTRA + 2 * size as u64;
        Self {
            size,
            descriptors: base,
            avail,
            used: end.next_multiple_of(align),
        }
    }

    /// The first address after the used ring.
    pub const fn end(&self) -> u64 {
        self.used + USED_EXTRA + 8 * self.size as u64
    }

    pub(super) fn check(&self) -> Result<(), SetupError> {
        let size = self.size;
        if size.is_power_of_two() && size <= MAX {
            return Ok(());
        }
        Err(SetupError::Size { size })
    }

    pub(super) fn check_overlap(&self) -> Result<(), SetupError> {
        let size = u64::from(self.size);
        memory::check_apart([
            (
                "descriptor table",
                self.descriptors,
                descriptor::BYTES as u64 * size,
            ),
            ("available ring", self.avail, AVAIL_EXTRA + 2 * size),
            ("used ring", self.used, USED_EXTRA + 8 * size),
        ])
    }
}
