//! The device-tree node by which a guest finds an assigned device: `NAME@ADDRESS` with the device's registers and
//! interrupts in the guest, and what only the host knows about the device, such as its clocks. The node follows the
//! Devicetree Specification 0.4, and has the properties that QEMU's `sysbus-fdt.c` wrote until 10.1. All types are
//! plain data, for use on any thread.
//!
//! A [`Tree`] describes devices: the host's own device tree, or a compiled tree from the user. A [`DeviceNode`] is
//! taken from a tree, gets the device's addresses and interrupts in the guest, and is written with [`vm_fdt`].
//!
//! ```
//! use vmbell_vfio::node::{
//!     DeviceNode, InterruptFormat, InterruptParent, NodeInterrupt, NodeRegion, Parent, Trigger, sample_tree,
//! };
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let rtc = DeviceNode {
//!     compatible: vec!["arm,pl031".into(), "arm,primecell".into()],
//!     regions: vec![NodeRegion { address: 0xc00_0000, size: 0x1000 }],
//!     interrupts: vec![NodeInterrupt { number: 112, trigger: Trigger::LevelHigh }],
//!     ..DeviceNode::new("pl031")
//! };
//! let gic = InterruptParent { phandle: 1, format: InterruptFormat::Gic };
//! let parent = Parent { address_cells: 2, size_cells: 2, interrupts: Some(gic) };
//! let blob = sample_tree(&[rtc], &parent)?;
//! assert_eq!(blob[..4], [0xd0, 0x0d, 0xfe, 0xed]);
//! # Ok(())
//! # }
//! ```

mod device;
mod pick;
#[cfg(test)]
#[cfg(not(any(loom, miri)))]
mod tests;
mod tree;
mod write;

pub use device::{
    DeviceNode, FixedClock, InterruptFormat, InterruptParent, NodeInterrupt, NodeRegion, Parent,
    Property, Trigger,
};
pub use pick::{Choice, Copied, PickError};
pub use tree::{Tree, TreeError};
pub use write::{NodeError, NodeProblem, sample_tree};
