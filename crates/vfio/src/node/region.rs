//! The ranges of a device's registers in the guest, and the property `reg`.

use std::fmt;

use super::device::Parent;
use super::error::NodeError;
use super::property;

/// A range of guest addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeRegion {
    /// The first address.
    pub address: u64,
    /// Bytes.
    pub size: u64,
}

impl fmt::Display for NodeRegion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({:#x} bytes at {:#x})", self.size, self.address)
    }
}

impl NodeRegion {
    /// The last address, if the region is not empty and does not wrap.
    fn last(self) -> Option<u64> {
        self.address.checked_add(self.size.checked_sub(1)?)
    }

    fn fits(self, parent: &Parent) -> bool {
        let limit = |cells| {
            if cells == 1 {
                u64::from(u32::MAX)
            } else {
                u64::MAX
            }
        };
        let last = self.last();
        last.is_some_and(|last| last <= limit(parent.address_cells))
            && self.size <= limit(parent.size_cells)
    }
}

/// Checks the regions of a node.
pub(super) fn check(node: &str, regions: &[NodeRegion], parent: &Parent) -> Result<(), NodeError> {
    let node = || node.to_owned();
    let &Parent {
        address_cells,
        size_cells,
        ..
    } = parent;
    if !(1..=2).contains(&address_cells) || !(1..=2).contains(&size_cells) {
        return Err(NodeError::ParentCells {
            node: node(),
            address_cells,
            size_cells,
        });
    }
    if regions.is_empty() {
        return Err(NodeError::NoRegions { node: node() });
    }
    for (index, &region) in regions.iter().enumerate() {
        if region.size == 0 {
            return Err(NodeError::EmptyRegion {
                node: node(),
                index,
                region,
            });
        }
        if !region.fits(parent) {
            return Err(NodeError::RegionTooFar {
                node: node(),
                index,
                region,
                address_cells,
                size_cells,
            });
        }
    }
    overlap(&node(), regions)
}

fn overlap(node: &str, regions: &[NodeRegion]) -> Result<(), NodeError> {
    let mut sorted: Vec<(usize, NodeRegion)> = regions.iter().copied().enumerate().collect();
    sorted.sort_by_key(|(_, region)| region.address);
    for pair in sorted.windows(2) {
        let [(a, first), (b, second)] = [pair[0], pair[1]];
        if first.last() >= Some(second.address) {
            let ((first, first_region), (second, second_region)) = if a < b {
                ((a, first), (b, second))
            } else {
                ((b, second), (a, first))
            };
            return Err(NodeError::RegionsOverlap {
                node: node.to_owned(),
                first,
                first_region,
                second,
                second_region,
            });
        }
    }
    Ok(())
}

/// The value of `reg` for regions that were checked.
pub(super) fn reg(regions: &[NodeRegion], parent: &Parent) -> Vec<u8> {
    let mut value = Vec::new();
    for region in regions {
        property::push(&mut value, region.address, parent.address_cells);
        property::push(&mut value, region.size, parent.size_cells);
    }
    value
}
