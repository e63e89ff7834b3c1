//! The errors: why a device has no node that a guest could use ([`NodeError`]), and why nothing can be taken from a
//! tree ([`SourceError`]).

use std::io;
use std::path::PathBuf;

use super::clock::FixedClock;
use super::region::NodeRegion;

/// Why a node cannot be written. No part of it was written then, except for [`NodeError::Write`].
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The name is not valid for a node.
    #[error(
        "'{name}' is not a name of a node: 1 to 31 letters, digits and ,._+- with a letter first"
    )]
    Name {
        /// The name.
        name: String,
    },
    /// The list of compatible devices is empty, or has a text that is empty or contains a zero byte.
    #[error("{node}: 'compatible' has no names, or one that is empty or contains a zero byte")]
    Compatible {
        /// The node.
        node: String,
    },
    /// The node would have no address.
    #[error("{node}: the device has no region")]
    NoRegions {
        /// The node.
        node: String,
    },
    /// A region is empty.
    #[error("{node}: region {index} {region} is empty")]
    EmptyRegion {
        /// The node.
        node: String,
        /// The place of the region in `reg`.
        index: usize,
        /// The region.
        region: NodeRegion,
    },
    /// A region ends after the last address that the cells of the parent can express.
    #[error(
        "{node}: region {index} {region} does not fit into {address_cells} cell(s) of an address and {size_cells} of a size"
    )]
    RegionTooFar {
        /// The node.
        node: String,
        /// The place of the region in `reg`.
        index: usize,
        /// The region.
        region: NodeRegion,
        /// `#address-cells` of the parent.
        address_cells: u32,
        /// `#size-cells` of the parent.
        size_cells: u32,
    },
    /// Two regions have an address in common.
    #[error("{node}: regions {first} {first_region} and {second} {second_region} overlap")]
    RegionsOverlap {
        /// The node.
        node: String,
        /// The place of one region in `reg`.
        first: usize,
        /// That region.
        first_region: NodeRegion,
        /// The place of the other.
        second: usize,
        /// The other region.
        second_region: NodeRegion,
    },
    /// The numbers of cells of the parent are neither 1 nor 2.
    #[error(
        "{node}: the parent has #address-cells {address_cells} and #size-cells {size_cells}, each has to be 1 or 2"
    )]
    ParentCells {
        /// The node.
        node: String,
        /// `#address-cells` of the parent.
        address_cells: u32,
        /// `#size-cells` of the parent.
        size_cells: u32,
    },
    /// The device has interrupts, and no interrupt controller takes them.
    #[error("{node}: the device has interrupts and the parent names no interrupt controller")]
    NoInterruptParent {
        /// The node.
        node: String,
    },
    /// The interrupt controller has no such line.
    #[error("{node}: interrupt {number} is out of range, the controller has {count}")]
    InterruptRange {
        /// The node.
        node: String,
        /// The number.
        number: u32,
        /// The number of lines.
        count: u32,
    },
    /// Two interrupts are on one line.
    #[error("{node}: interrupt {number} is there twice")]
    InterruptTwice {
        /// The node.
        node: String,
        /// The number.
        number: u32,
    },
    /// A property to copy is one that the node gets anyway.
    #[error(
        "{node}: property '{property}' is not copied, it belongs to the host or is set for the guest"
    )]
    Reserved {
        /// The node.
        node: String,
        /// The property.
        property: String,
    },
    /// A property has an invalid name.
    #[error(
        "{node}: '{property}' is not a name of a property: 1 to 31 letters, digits and ,._+?#-"
    )]
    PropertyName {
        /// The node.
        node: String,
        /// The name.
        property: String,
    },
    /// A property to copy is there twice.
    #[error("{node}: property '{property}' is there twice")]
    PropertyTwice {
        /// The node.
        node: String,
        /// The property.
        property: String,
    },
    /// A clock of the device was not written into the tree before the device.
    #[error("{node}: {clock} is not written yet")]
    ClockMissing {
        /// The node.
        node: String,
        /// The clock.
        clock: FixedClock,
    },
    /// An output name is empty or contains a zero byte.
    #[error("{clock} has an output name that is empty or contains a zero byte")]
    ClockName {
        /// The clock.
        clock: FixedClock,
    },
    /// Two clocks have one output name; the guest's kernel would refuse the second.
    #[error("{clock} has the output name of {other}")]
    ClockNameTaken {
        /// The clock.
        clock: FixedClock,
        /// The one that was written before.
        other: FixedClock,
    },
    /// There is no phandle left.
    #[error("no phandle is left for {clock}")]
    NoPhandle {
        /// The clock.
        clock: FixedClock,
    },
    /// The tree cannot be written here.
    #[error("cannot write {node}")]
    Write {
        /// The node.
        node: String,
        /// Why.
        #[source]
        source: vm_fdt::Error,
    },
}

/// Why a tree cannot be read, or a device not be taken from it.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The folder of the host's device tree cannot be read.
    #[error("cannot read the device tree {}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The bytes are not a device tree.
    #[error("this is not a compiled device tree")]
    Blob {
        /// Why.
        #[source]
        source: dtoolkit::error::FdtParseError,
    },
    /// The tree is larger than any that is sensible.
    #[error("the device tree has {what}, more than {limit}")]
    TooLarge {
        /// What there is too much of.
        what: &'static str,
        /// How much there may be.
        limit: usize,
    },
    /// The name of a device in sysfs leads to no name of a node.
    #[error("{name} is not a device of a device tree: these are named ADDRESS.NAME")]
    NotFromTree {
        /// The name.
        name: String,
    },
    /// No node is the one that was asked for.
    #[error("no node of the device tree is {wanted}")]
    NotFound {
        /// What was asked for.
        wanted: String,
    },
    /// Several nodes are what was asked for.
    #[error("several nodes of the device tree are {wanted}: {}", paths.join(", "))]
    Several {
        /// What was asked for.
        wanted: String,
        /// The nodes.
        paths: Vec<String>,
    },
    /// The node does not say what it is.
    #[error("{node} has no 'compatible'")]
    NoCompatible {
        /// The node.
        node: String,
    },
    /// A property does not have the form that it has to have.
    #[error("{node}: the value of '{property}' is malformed")]
    Malformed {
        /// The node.
        node: String,
        /// The property.
        property: String,
    },
    /// A clock of the device is not in the tree.
    #[error("{node}: no node has the phandle {phandle:#x} of its clock")]
    NoClock {
        /// The node.
        node: String,
        /// The clock's phandle.
        phandle: u32,
    },
    /// A clock of the device cannot be given to a guest.
    #[error(
        "{node}: its clock {clock} is not a fixed-clock but {}, which a guest cannot drive",
        kind_text(kind)
    )]
    NotFixedClock {
        /// The node.
        node: String,
        /// The clock's node.
        clock: String,
        /// What the clock is.
        kind: Vec<String>,
    },
    /// A property refers to another node, which the guest does not have.
    #[error(
        "{node}: the property '{property}' refers to another node ({target}), which the guest does not have"
    )]
    Refers {
        /// The node.
        node: String,
        /// The property.
        property: String,
        /// The other node.
        target: String,
    },
}

fn kind_text(kind: &[String]) -> String {
    if kind.is_empty() {
        "of no kind".to_owned()
    } else {
        kind.join(", ")
    }
}
