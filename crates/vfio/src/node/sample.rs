//! A whole small tree with devices in it, for tests and to look at with `dtc`: no guest could start from it, since it
//! has neither CPUs nor memory.

use vm_fdt::FdtWriter;

use super::clock::Clocks;
use super::device::{DeviceNode, Parent};
use super::error::NodeError;

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
