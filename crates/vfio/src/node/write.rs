//! Writes devices into a compiled tree, each checked before anything is written.

use vm_fdt::FdtWriter;

use super::device::{
    DeviceNode, FixedClock, InterruptFormat, InterruptParent, NodeInterrupt, NodeRegion, Parent,
    Property,
};

/// The number of a GIC's shared peripheral interrupts, which have the INTIDs 32 to 1019.
const GIC_SPIS: u32 = 988;

/// Why a tree cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// The name is not valid for a node.
    #[error(
        "'{name}' is not a name of a node: 1 to 31 letters, digits and ,._+- with a letter first"
    )]
    Name {
        /// The name.
        name: String,
    },
    /// No guest could use the node.
    #[error("{node}: {problem}")]
    Device {
        /// The node.
        node: String,
        /// Why no guest could use the node.
        problem: NodeProblem,
    },
    /// An output name is empty or contains a zero byte.
    #[error("{clock} has an output name that is empty or contains a zero byte")]
    ClockName {
        /// The clock.
        clock: FixedClock,
    },
    /// Two clocks have the same output name; the guest's kernel would refuse the second.
    #[error("{clock} has the output name of {other}")]
    ClockNameTaken {
        /// The clock.
        clock: FixedClock,
        /// The clock that already has the name.
        other: FixedClock,
    },
    /// There is no phandle left.
    #[error("no phandle is left for {clock}")]
    NoPhandle {
        /// The clock.
        clock: FixedClock,
    },
    /// The tree cannot be written.
    #[error("cannot write the device tree")]
    Write(#[from] vm_fdt::Error),
}

/// Why no guest could use a device's node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NodeProblem {
    /// The list of compatible devices is empty, or has a text that is empty or contains a zero byte.
    #[error("'compatible' has no names, or one that is empty or contains a zero byte")]
    Compatible,
    /// The node would have no address.
    #[error("the device has no region")]
    NoRegions,
    /// A region is empty.
    #[error("region {index} {region} is empty")]
    EmptyRegion {
        /// The place of the region in `reg`.
        index: usize,
        /// The region.
        region: NodeRegion,
    },
    /// A region ends after the last address that the cells of the parent can express.
    #[error(
        "region {index} {region} does not fit into {} cell(s) of an address and {} of a size",
        parent.address_cells, parent.size_cells
    )]
    RegionTooFar {
        /// The place of the region in `reg`.
        index: usize,
        /// The region.
        region: NodeRegion,
        /// The parent.
        parent: Parent,
    },
    /// Two regions have an address in common.
    #[error("regions {} {} and {} {} overlap", first.0, first.1, second.0, second.1)]
    RegionsOverlap {
        /// The place of one region in `reg`, and the region.
        first: (usize, NodeRegion),
        /// The place of the other region in `reg`, and the region.
        second: (usize, NodeRegion),
    },
    /// The numbers of cells of the parent are neither 1 nor 2.
    #[error(
        "the parent has #address-cells {} and #size-cells {}, each has to be 1 or 2",
        parent.address_cells, parent.size_cells
    )]
    ParentCells {
        /// The parent.
        parent: Parent,
    },
    /// The device has interrupts, and no interrupt controller takes them.
    #[error("the device has interrupts, but the parent names no interrupt controller")]
    NoInterruptParent,
    /// The interrupt controller has no such line.
    #[error("interrupt {number} is out of range, the controller has {GIC_SPIS}")]
    InterruptRange {
        /// The number.
        number: u32,
    },
    /// Two interrupts are on one line.
    #[error("interrupt {number} is listed twice")]
    InterruptTwice {
        /// The number.
        number: u32,
    },
    /// A property to copy belongs to the host, or is set for the guest.
    #[error("property '{property}' is not copied, it belongs to the host or is set for the guest")]
    Reserved {
        /// The property.
        property: String,
    },
    /// A property has an invalid name.
    #[error("'{property}' is not a name of a property: 1 to 31 letters, digits and ,._+?#-")]
    PropertyName {
        /// The name.
        property: String,
    },
    /// A property to copy is listed twice.
    #[error("property '{property}' is listed twice")]
    PropertyTwice {
        /// The property.
        property: String,
    },
}

/// Makes a blob with an interrupt controller, and with the devices on a bus that `parent` describes. The phandles of
/// the clocks follow the controller's; equal clocks share a node.
///
/// # Errors
/// No guest could use one of the devices, a clock has a bad name or the name of another clock, or there is no phandle
/// left.
pub fn sample_tree(devices: &[DeviceNode], parent: &Parent) -> Result<Vec<u8>, NodeError> {
    for device in devices {
        if !is_node_name(&device.name) {
            let name = device.name.clone();
            return Err(NodeError::Name { name });
        }
        check(device, parent).map_err(|problem| NodeError::Device {
            node: device.full_name(),
            problem,
        })?;
    }
    let clocks = clocks(devices, parent)?;
    Ok(write(devices, parent, &clocks)?)
}

/// Whether a text is the name of a node without an address (Devicetree Specification 2.2.1).
fn is_node_name(name: &str) -> bool {
    let is_char = |c: char| c.is_ascii_alphanumeric() || ",._+-".contains(c);
    name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.len() <= 31
        && name.chars().all(is_char)
}

/// Whether a text is the name of a property (Devicetree Specification 2.2.4.1).
fn is_property_name(name: &str) -> bool {
    let is_char = |c: char| c.is_ascii_alphanumeric() || ",._+?#-".contains(c);
    (1..=31).contains(&name.len()) && name.chars().all(is_char)
}

/// Whether texts can be in a list of texts.
fn are_listable(texts: &[String]) -> bool {
    texts
        .iter()
        .all(|text| !text.is_empty() && !text.contains('\0'))
}

fn check(device: &DeviceNode, parent: &Parent) -> Result<(), NodeProblem> {
    if device.compatible.is_empty() || !are_listable(&device.compatible) {
        return Err(NodeProblem::Compatible);
    }
    check_regions(&device.regions, *parent)?;
    check_interrupts(&device.interrupts, parent.interrupts)?;
    for (index, Property { name, .. }) in device.properties.iter().enumerate() {
        let property = name.clone();
        if !is_property_name(name) {
            return Err(NodeProblem::PropertyName { property });
        }
        if Property::is_reserved(name) {
            return Err(NodeProblem::Reserved { property });
        }
        if device.properties[..index]
            .iter()
            .any(|other| other.name == *name)
        {
            return Err(NodeProblem::PropertyTwice { property });
        }
    }
    Ok(())
}

fn check_regions(regions: &[NodeRegion], parent: Parent) -> Result<(), NodeProblem> {
    let limit = |cells| match cells {
        1 => Ok(u64::from(u32::MAX)),
        2 => Ok(u64::MAX),
        _ => Err(NodeProblem::ParentCells { parent }),
    };
    let (addresses, sizes) = (limit(parent.address_cells)?, limit(parent.size_cells)?);
    if regions.is_empty() {
        return Err(NodeProblem::NoRegions);
    }
    for (index, &region) in regions.iter().enumerate() {
        if region.size == 0 {
            return Err(NodeProblem::EmptyRegion { index, region });
        }
        let last = region.last().filter(|last| *last <= addresses);
        if last.is_none() || region.size > sizes {
            return Err(NodeProblem::RegionTooFar {
                index,
                region,
                parent,
            });
        }
        let overlaps = |other: &&(usize, NodeRegion)| {
            other.1.last() >= Some(region.address) && last >= Some(other.1.address)
        };
        let before: Vec<_> = regions[..index].iter().copied().enumerate().collect();
        if let Some(first) = before.iter().find(overlaps) {
            let (first, second) = (*first, (index, region));
            return Err(NodeProblem::RegionsOverlap { first, second });
        }
    }
    Ok(())
}

fn check_interrupts(
    interrupts: &[NodeInterrupt],
    parent: Option<InterruptParent>,
) -> Result<(), NodeProblem> {
    for (index, &NodeInterrupt { number, .. }) in interrupts.iter().enumerate() {
        let parent = parent.ok_or(NodeProblem::NoInterruptParent)?;
        if parent.format == InterruptFormat::Gic && number >= GIC_SPIS {
            return Err(NodeProblem::InterruptRange { number });
        }
        if interrupts[..index]
            .iter()
            .any(|other| other.number == number)
        {
            return Err(NodeProblem::InterruptTwice { number });
        }
    }
    Ok(())
}

/// Collects the clocks of all devices, each once, with their phandles.
fn clocks<'d>(
    devices: &'d [DeviceNode],
    parent: &Parent,
) -> Result<Vec<(&'d FixedClock, u32)>, NodeError> {
    let mut last = parent.interrupts.map_or(0, |parent| parent.phandle);
    let mut found: Vec<(&FixedClock, u32)> = Vec::new();
    for clock in devices.iter().flat_map(|device| &device.clocks) {
        if found.iter().any(|(other, _)| *other == clock) {
            continue;
        }
        let refused = || clock.clone();
        if !are_listable(&clock.output_names) {
            return Err(NodeError::ClockName { clock: refused() });
        }
        let is_taken = |name| {
            found
                .iter()
                .find(|(other, _)| other.output_names.contains(name))
        };
        if let Some((other, _)) = clock.output_names.iter().find_map(is_taken) {
            return Err(NodeError::ClockNameTaken {
                clock: refused(),
                other: (*other).clone(),
            });
        }
        // 0 and `u32::MAX` are not phandles.
        let next = last.checked_add(1).filter(|phandle| *phandle != u32::MAX);
        last = next.ok_or_else(|| NodeError::NoPhandle { clock: refused() })?;
        found.push((clock, last));
    }
    Ok(found)
}

/// Writes the checked devices.
fn write(
    devices: &[DeviceNode],
    parent: &Parent,
    clocks: &[(&FixedClock, u32)],
) -> Result<Vec<u8>, vm_fdt::Error> {
    let mut fdt = FdtWriter::new()?;
    let root = fdt.begin_node("")?;
    fdt.property_string("compatible", "vmbell,sample")?;
    write_cells(&mut fdt, parent)?;
    if let Some(controller) = parent.interrupts {
        let node = fdt.begin_node("interrupt-controller")?;
        fdt.property_string("compatible", "vmbell,interrupt-controller")?;
        fdt.property_null("interrupt-controller")?;
        fdt.property_u32("#interrupt-cells", controller.format.cells())?;
        fdt.property_phandle(controller.phandle)?;
        fdt.end_node(node)?;
    }
    for (clock, phandle) in clocks {
        write_clock(&mut fdt, clock, *phandle)?;
    }
    let bus = fdt.begin_node("platform-bus")?;
    fdt.property_string("compatible", "simple-bus")?;
    write_cells(&mut fdt, parent)?;
    fdt.property_null("ranges")?;
    for device in devices {
        write_device(&mut fdt, device, parent, clocks)?;
    }
    fdt.end_node(bus)?;
    fdt.end_node(root)?;
    fdt.finish()
}

fn write_cells(fdt: &mut FdtWriter, parent: &Parent) -> Result<(), vm_fdt::Error> {
    fdt.property_u32("#address-cells", parent.address_cells)?;
    fdt.property_u32("#size-cells", parent.size_cells)
}

fn write_clock(fdt: &mut FdtWriter, clock: &FixedClock, phandle: u32) -> Result<(), vm_fdt::Error> {
    let node = fdt.begin_node(&format!("clock-{phandle:x}"))?;
    fdt.property_string("compatible", "fixed-clock")?;
    fdt.property_u32("#clock-cells", 0)?;
    if let Some(frequency) = clock.frequency {
        fdt.property_u32("clock-frequency", frequency)?;
    }
    if !clock.output_names.is_empty() {
        fdt.property("clock-output-names", &texts(&clock.output_names))?;
    }
    fdt.property_phandle(phandle)?;
    fdt.end_node(node)
}

fn write_device(
    fdt: &mut FdtWriter,
    device: &DeviceNode,
    parent: &Parent,
    clocks: &[(&FixedClock, u32)],
) -> Result<(), vm_fdt::Error> {
    let node = fdt.begin_node(&device.full_name())?;
    fdt.property("compatible", &texts(&device.compatible))?;
    let mut reg = Vec::new();
    for region in &device.regions {
        push(&mut reg, region.address, parent.address_cells);
        push(&mut reg, region.size, parent.size_cells);
    }
    fdt.property("reg", &reg)?;
    if let (Some(parent), false) = (parent.interrupts, device.interrupts.is_empty()) {
        fdt.property_u32("interrupt-parent", parent.phandle)?;
        let interrupts = device.interrupts.iter();
        let value: Vec<_> = interrupts
            .flat_map(|interrupt| parent.format.encode(*interrupt))
            .collect();
        fdt.property("interrupts", &cells(&value))?;
    }
    if device.dma_coherent {
        fdt.property_null("dma-coherent")?;
    }
    if !device.clocks.is_empty() {
        let phandle = |clock| clocks.iter().find(|(other, _)| *other == clock);
        let phandles = device.clocks.iter().filter_map(phandle);
        let phandles: Vec<_> = phandles.map(|(_, phandle)| *phandle).collect();
        fdt.property("clocks", &cells(&phandles))?;
    }
    for Property { name, value } in &device.properties {
        fdt.property(name, value)?;
    }
    fdt.end_node(node)
}

/// The value of a property that lists texts.
fn texts(texts: &[String]) -> Vec<u8> {
    texts
        .iter()
        .flat_map(|text| text.bytes().chain([0]))
        .collect()
}

/// The value of a property of cells.
fn cells(cells: &[u32]) -> Vec<u8> {
    cells.iter().flat_map(|cell| cell.to_be_bytes()).collect()
}

/// Adds a number as one cell or two.
fn push(cells: &mut Vec<u8>, number: u64, count: u32) {
    let first = if count == 1 { 4 } else { 0 };
    cells.extend_from_slice(&number.to_be_bytes()[first..]);
}
