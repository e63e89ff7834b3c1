//! Which addresses an IOMMU can map: the answer of VFIO_IOMMU_GET_INFO, checked. The result depends only on the
//! answer's bytes.
//!
//! ```
//! use vmbell_vfio::iova::Iova;
//!
//! let iova = Iova {
//!     page: 4096,
//!     windows: vec![0..=0xfedf_ffff, 0xfef0_0000..=u64::MAX],
//!     free_entries: None,
//! };
//! assert!(iova.has(0x10_0000, 0x1000));
//! // Messages of interrupts go there.
//! assert!(!iova.has(0xfee0_0000, 0x1000));
//! ```

use std::fmt;
use std::ops::RangeInclusive;

use vfio_bindings::bindings::vfio::{
    VFIO_IOMMU_INFO_CAPS, VFIO_IOMMU_INFO_PGSIZES, VFIO_IOMMU_TYPE1_INFO_CAP_IOVA_RANGE,
    VFIO_IOMMU_TYPE1_INFO_DMA_AVAIL,
};

use super::chain::{ChainError, capabilities, pairs, word32, word64};

/// Bytes of `struct vfio_iommu_type1_info` without capabilities.
pub const IOMMU_INFO: usize = 24;
/// The maximum number of bytes that the answer may have.
pub const IOMMU_INFO_MAX: usize = 1 << 16;

/// The addresses that an IOMMU can map, and how many mappings it can have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Iova {
    /// The smallest page that the IOMMU can map, in bytes.
    pub page: u64,
    /// The ranges of addresses, in ascending order. Between them are reserved addresses, such as those of interrupt
    /// messages.
    pub windows: Vec<RangeInclusive<u64>>,
    /// How many more mappings there can be; `None` if the kernel does not say.
    pub free_entries: Option<u32>,
}

/// An invalid answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IovaError {
    /// The answer is shorter than the structure.
    #[error("the answer has {len} bytes, not {IOMMU_INFO}")]
    Short {
        /// The answer's length in bytes.
        len: usize,
    },
    /// The answer wants more room than any IOMMU needs.
    #[error("the answer asks for {len} bytes, more than {IOMMU_INFO_MAX}")]
    Long {
        /// The length that the answer asks for.
        len: u32,
    },
    /// The chain of capabilities is broken.
    #[error(transparent)]
    Chain(#[from] ChainError),
    /// The list of ranges is cut off.
    #[error("the list of address ranges is cut off")]
    Ranges,
    /// A range is empty, or is not after the range before it.
    #[error("the address range from {first:#x} to {last:#x} is empty or not after the one before")]
    Range {
        /// The first address of the range.
        first: u64,
        /// The last address of the range.
        last: u64,
    },
}

impl Iova {
    /// Checks an answer.
    pub fn parse(answer: &[u8]) -> Result<Self, IovaError> {
        let short = || IovaError::Short { len: answer.len() };
        let flags = word32(answer, 4).ok_or_else(short)?;
        let sizes = word64(answer, 8).ok_or_else(short)?;
        let first = word32(answer, 16).ok_or_else(short)?;
        let chain = if flags & VFIO_IOMMU_INFO_CAPS == 0 {
            Vec::new()
        } else {
            capabilities(answer, IOMMU_INFO, first)?
        };
        let body = |id| {
            let found = chain.iter().find(|found| u32::from(found.id) == id);
            found.map(|capability| capability.body)
        };
        let sized = flags & VFIO_IOMMU_INFO_PGSIZES != 0 && sizes != 0;
        Ok(Self {
            page: if sized {
                1 << sizes.trailing_zeros()
            } else {
                4096
            },
            windows: match body(VFIO_IOMMU_TYPE1_INFO_CAP_IOVA_RANGE) {
                Some(body) => windows(&pairs(body).ok_or(IovaError::Ranges)?)?,
                // Kernels before 5.4 do not list ranges.
                None => vec![0..=u64::MAX],
            },
            free_entries: body(VFIO_IOMMU_TYPE1_INFO_DMA_AVAIL).and_then(|body| word32(body, 0)),
        })
    }

    /// Whether all of a range can be mapped.
    pub fn has(&self, address: u64, size: u64) -> bool {
        let paged = address.is_multiple_of(self.page) && size.is_multiple_of(self.page);
        let last = size
            .checked_sub(1)
            .and_then(|rest| address.checked_add(rest));
        let inside = |last| {
            let mut windows = self.windows.iter();
            windows.any(|window| window.contains(&address) && window.contains(&last))
        };
        paged && last.is_some_and(inside)
    }
}

/// Converts pairs of first and last address to windows.
pub(super) fn windows(pairs: &[(u64, u64)]) -> Result<Vec<RangeInclusive<u64>>, IovaError> {
    let mut windows: Vec<RangeInclusive<u64>> = Vec::new();
    for &(first, last) in pairs {
        let behind = windows.last().is_none_or(|before| *before.end() < first);
        if first > last || !behind {
            return Err(IovaError::Range { first, last });
        }
        windows.push(first..=last);
    }
    Ok(windows)
}

impl fmt::Display for Iova {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, window) in self.windows.iter().enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            write!(f, "{comma}{:#x}-{:#x}", window.start(), window.end())?;
        }
        write!(f, " in pages of {}", self.page)
    }
}

#[cfg(test)]
#[path = "iova_test.rs"]
mod tests;
