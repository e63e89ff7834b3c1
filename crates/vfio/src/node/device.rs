//! The node of one device, checked before any of it is written, and [`sample_tree`], which writes a whole small tree.

use vm_fdt::FdtWriter;

use super::clock::{Clocks, FixedClock};
use super::error::NodeError;
use super::interrupt::{self, InterruptParent, NodeInterrupt};
use super::property::{self, Property};
use super::region::{self, NodeRegion};

/// A device as the guest's tree describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceNode {
    /// The name of the node, without an address.
    pub name: String,
    /// What the device is, the most special name first.
    pub compatible: Vec<String>,
    /// Its registers in the guest, in the order of the device. The first one's address is in the node's name.
    pub regions: Vec<NodeRegion>,
    /// Its interrupts in the guest, in the order of the device.
    pub interrupts: Vec<NodeInterrupt>,
    /// Its DMA sees the caches of the CPUs.
    pub dma_coherent: bool,
    /// Its clocks, in the order of the device.
    pub clocks: Vec<FixedClock>,
    /// The node's further properties.
    pub properties: Vec<Property>,
}

/// The node that the device's node becomes a child of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parent {
    /// Its `#address-cells`: 1 or 2.
    pub address_cells: u32,
    /// Its `#size-cells`: 1 or 2.
    pub size_cells: u32,
    /// The interrupt controller that takes the interrupts.
    pub interrupts: Option<InterruptParent>,
}

/// Whether a text is the name of a node without an address (Devicetree Specification 2.2.1).
fn is_name(name: &str) -> bool {
    let is_char = |c: char| c.is_ascii_alphanumeric() || ",._+-".contains(c);
    name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.len() <= 31
        && name.chars().all(is_char)
}

impl DeviceNode {
    /// A node of that name without anything in it.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            ..Self::default()
        }
    }

    /// The node's name with its address.
    fn full_name(&self) -> String {
        let address = self.regions.first().map(|region| region.address);
        address.map_or_else(
            || self.name.clone(),
            |address| format!("{}@{address:x}", self.name),
        )
    }

    fn check(&self, parent: &Parent) -> Result<(), NodeError> {
        if !is_name(&self.name) {
            let name = self.name.clone();
            return Err(NodeError::Name { name });
        }
        let node = self.full_name();
        let mut names = self.compatible.iter();
        if names.len() == 0 || !names.all(|name| property::is_listable(name)) {
            return Err(NodeError::Compatible { node });
        }
        region::check(&node, &self.regions, parent)?;
        interrupt::check(&node, &self.interrupts, parent.interrupts)?;
        property::check(&node, &self.properties)
    }

    /// Writes nodes for those of the device's clocks that the tree has not got yet, as children of the node that is open
    /// in `fdt`. Where that is does not matter, but it has to be in the same tree.
    ///
    /// # Errors
    /// A clock has a bad name or one that another clock has, there is no phandle left, or no node is open.
    pub fn write_clocks(&self, fdt: &mut FdtWriter, clocks: &mut Clocks) -> Result<(), NodeError> {
        self.clocks
            .iter()
            .try_for_each(|clock| clocks.write(fdt, clock))
    }

    /// Writes the node as a child of the node that is open in `fdt`, which `parent` describes.
    ///
    /// # Errors
    /// No guest could use the node, a clock was not written before, or no node is open.
    pub fn write(
        &self,
        fdt: &mut FdtWriter,
        parent: &Parent,
        clocks: &Clocks,
    ) -> Result<(), NodeError> {
        self.check(parent)?;
        let node = self.full_name();
        let mut phandles = Vec::new();
        for clock in &self.clocks {
            let Some(phandle) = clocks.phandle(clock) else {
                let clock = clock.clone();
                return Err(NodeError::ClockMissing { node, clock });
            };
            phandles.push(phandle);
        }
        let result = self.write_checked(fdt, parent, &node, &phandles);
        result.map_err(|source| NodeError::Write { node, source })
    }

    fn write_checked(
        &self,
        fdt: &mut FdtWriter,
        parent: &Parent,
        name: &str,
        clocks: &[u32],
    ) -> Result<(), vm_fdt::Error> {
        let node = fdt.begin_node(name)?;
        fdt.property("compatible", &property::texts(&self.compatible))?;
        fdt.property("reg", &region::reg(&self.regions, parent))?;
        if let (Some(parent), false) = (parent.interrupts, self.interrupts.is_empty()) {
            fdt.property_u32("interrupt-parent", parent.phandle)?;
            let value = interrupt::interrupts(&self.interrupts, parent.format);
            fdt.property("interrupts", &value)?;
        }
        if self.dma_coherent {
            fdt.property_null("dma-coherent")?;
        }
        if !clocks.is_empty() {
            fdt.property("clocks", &property::cells(clocks))?;
        }
        for Property { name, value } in &self.properties {
            fdt.property(name, value)?;
        }
        fdt.end_node(node)
    }
}

/// A blob with an interrupt controller and with the devices on a bus that is as `parent` says. The clocks have the
/// phandles after the controller's.
///
/// # Errors
/// One of the devices cannot be written.
pub fn sample_tree(devices: &[DeviceNode], parent: &Parent) -> Result<Vec<u8>, NodeError> {
    let mut fdt = FdtWriter::new().map_err(failed)?;
    let root = fdt.begin_node("").map_err(failed)?;
    write_head(&mut fdt, parent).map_err(failed)?;
    let first = parent.interrupts.map_or(0, |parent| parent.phandle);
    let mut clocks = Clocks::new(first.wrapping_add(1));
    for device in devices {
        device.write_clocks(&mut fdt, &mut clocks)?;
    }
    let bus = fdt.begin_node("platform-bus").map_err(failed)?;
    write_bus(&mut fdt, parent).map_err(failed)?;
    for device in devices {
        device.write(&mut fdt, parent, &clocks)?;
    }
    fdt.end_node(bus).map_err(failed)?;
    fdt.end_node(root).map_err(failed)?;
    fdt.finish().map_err(failed)
}

fn failed(source: vm_fdt::Error) -> NodeError {
    let node = "a sample tree".to_owned();
    NodeError::Write { node, source }
}

fn write_head(fdt: &mut FdtWriter, parent: &Parent) -> Result<(), vm_fdt::Error> {
    fdt.property_string("compatible", "vmbell,sample")?;
    fdt.property_u32("#address-cells", parent.address_cells)?;
    fdt.property_u32("#size-cells", parent.size_cells)?;
    let Some(controller) = parent.interrupts else {
        return Ok(());
    };
    let node = fdt.begin_node("interrupt-controller")?;
    fdt.property_string("compatible", "vmbell,interrupt-controller")?;
    fdt.property_null("interrupt-controller")?;
    fdt.property_u32("#interrupt-cells", controller.format.cells())?;
    fdt.property_phandle(controller.phandle)?;
    fdt.end_node(node)
}

fn write_bus(fdt: &mut FdtWriter, parent: &Parent) -> Result<(), vm_fdt::Error> {
    fdt.property_string("compatible", "simple-bus")?;
    fdt.property_u32("#address-cells", parent.address_cells)?;
    fdt.property_u32("#size-cells", parent.size_cells)?;
    fdt.property_null("ranges")
}
