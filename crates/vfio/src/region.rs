//! Regions of a device: the answer of VFIO_DEVICE_GET_REGION_INFO, checked. The result depends only on the answer's
//! bytes.
//!
//! ```
//! use vmbell_vfio::region::{REGION_INFO, RegionError, parse};
//!
//! // An answer that is too short.
//! let error = parse(0, &[0; REGION_INFO - 1]).unwrap_err();
//! assert!(matches!(error, RegionError::Short { .. }));
//! ```

use std::ops::Range;

use vfio_bindings::bindings::vfio::{
    VFIO_REGION_INFO_CAP_SPARSE_MMAP, VFIO_REGION_INFO_FLAG_CAPS, VFIO_REGION_INFO_FLAG_MMAP,
    VFIO_REGION_INFO_FLAG_READ, VFIO_REGION_INFO_FLAG_WRITE,
};
use vmbell_core::addresses::PAGE;

use crate::chain::{ChainError, capabilities, pairs, word32, word64};

/// Bytes of `struct vfio_region_info` without capabilities.
pub const REGION_INFO: usize = 32;
/// The maximum number of bytes that the answer may have: enough for more than a thousand areas.
pub const REGION_INFO_MAX: usize = 1 << 16;

/// A region: the registers of a device, its configuration space, and so on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// The region's index.
    pub index: u32,
    /// The region's size in bytes; 0 if the device does not have the region.
    pub size: u64,
    /// Where the region begins in the device's file.
    pub offset: u64,
    /// Whether the region can be read.
    pub readable: bool,
    /// Whether the region can be written.
    pub writable: bool,
    /// The parts that can be mapped: whole pages from its start, in ascending order.
    pub areas: Vec<Range<u64>>,
}

impl Region {
    /// A region that the device does not have.
    pub const fn absent(index: u32) -> Self {
        Self {
            index,
            size: 0,
            offset: 0,
            readable: false,
            writable: false,
            areas: Vec::new(),
        }
    }
}

/// An invalid region.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegionError {
    /// The answer is shorter than the structure.
    #[error("the answer has {len} bytes, not {REGION_INFO}")]
    Short {
        /// The answer's length in bytes.
        len: usize,
    },
    /// The answer is about a different region.
    #[error("the answer is about region {index}")]
    Other {
        /// That region's index.
        index: u32,
    },
    /// The answer wants more room than any device needs.
    #[error("the answer asks for {len} bytes, more than {REGION_INFO_MAX}")]
    Long {
        /// The length that the answer asks for.
        len: u32,
    },
    /// The region does not fit in the file.
    #[error("{size:#x} bytes at offset {offset:#x} run past the end of any file")]
    Wraps {
        /// The region's size in bytes.
        size: u64,
        /// The region's offset in the file.
        offset: u64,
    },
    /// The chain of capabilities is broken.
    #[error(transparent)]
    Chain(#[from] ChainError),
    /// The list of areas that can be mapped is cut off.
    #[error("the list of areas that can be mapped is cut off")]
    Areas,
    /// An area that can be mapped is not in the region, or overlaps another.
    #[error(
        "the area of {size:#x} bytes at {offset:#x} is outside of the region or overlaps another"
    )]
    Area {
        /// The area's offset in the region.
        offset: u64,
        /// The area's size in bytes.
        size: u64,
    },
}

/// Checks the answer for region `index`.
pub fn parse(index: u32, answer: &[u8]) -> Result<Region, RegionError> {
    let short = RegionError::Short { len: answer.len() };
    let word = |at| word32(answer, at).ok_or_else(|| short.clone());
    let long = |at| word64(answer, at).ok_or_else(|| short.clone());
    let (flags, found, first) = (word(4)?, word(8)?, word(12)?);
    let (size, offset) = (long(16)?, long(24)?);
    if found != index {
        return Err(RegionError::Other { index: found });
    }
    let end = offset.checked_add(size);
    if end.is_none_or(|end| i64::try_from(end).is_err()) {
        return Err(RegionError::Wraps { size, offset });
    }
    let mut areas = Vec::new();
    if flags & VFIO_REGION_INFO_FLAG_MMAP != 0 {
        // Without a list of areas, all of the region can be mapped.
        areas = match sparse_areas(answer, flags, first)? {
            Some(sparse) => sparse,
            None => vec![(0, size)],
        };
    }
    Ok(Region {
        index,
        size,
        offset,
        readable: flags & VFIO_REGION_INFO_FLAG_READ != 0,
        writable: flags & VFIO_REGION_INFO_FLAG_WRITE != 0,
        areas: whole_pages(size, areas)?,
    })
}

fn sparse_areas(
    answer: &[u8],
    flags: u32,
    first: u32,
) -> Result<Option<Vec<(u64, u64)>>, RegionError> {
    if flags & VFIO_REGION_INFO_FLAG_CAPS == 0 {
        return Ok(None);
    }
    let chain = capabilities(answer, REGION_INFO, first)?;
    let sparse = chain
        .iter()
        .find(|capability| u32::from(capability.id) == VFIO_REGION_INFO_CAP_SPARSE_MMAP);
    sparse
        .map(|capability| pairs(capability.body).ok_or(RegionError::Areas))
        .transpose()
}

/// Returns the whole pages of areas in a region of `size` bytes, which starts at a page of its file.
fn whole_pages(size: u64, mut areas: Vec<(u64, u64)>) -> Result<Vec<Range<u64>>, RegionError> {
    areas.sort_unstable();
    let (mut before, mut pages) = (0, Vec::new());
    for (offset, len) in areas {
        let end = offset.checked_add(len).filter(|end| *end <= size);
        let refused = RegionError::Area { offset, size: len };
        let end = end.filter(|_| offset >= before).ok_or(refused)?;
        before = end;
        let start = offset.next_multiple_of(PAGE);
        let end = end - end % PAGE;
        if start < end {
            pages.push(start..end);
        }
    }
    Ok(pages)
}

#[cfg(test)]
#[path = "region_test.rs"]
mod tests;
