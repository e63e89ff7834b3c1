//! The device tree, from which a kernel knows the board (Devicetree Specification 0.4, and the bindings in Linux's
//! `Documentation/devicetree/bindings`), and the addresses in it.
//!
//! Devices are where QEMU's machine `virt` has such devices (`hw/arm/virt.c`), since images made for it write to its
//! serial port before they read the device tree.

use vm_fdt::{Error, FdtWriter};
use vmbell::irq::Gic;
use vmbell_devices::virtio::mmio::{Location, register};
use vmbell_devices::{SERIAL_GSI, SERIAL_LEN};
use vmbell_hypervisor::aarch64::{
    GICC, GICD, GICR, GICR_SIZE, IMAGE_RAM, ITS, MAINTENANCE, cpu_affinity,
};

/// The registers of the serial port.
pub(super) const SERIAL: u64 = 0x0900_0000;

/// The registers of the first virtio device, and how many devices there can be.
const VIRTIO: u64 = 0x0a00_0000;
pub(super) const VIRTIO_MAX: u32 = 32;
/// The GSI of the first virtio device.
const VIRTIO_GSI: u32 = 16;

/// Where a virtio device is.
pub(super) const fn virtio(index: u32) -> Location {
    Location {
        address: VIRTIO + register::LEN * index as u64,
        gsi: VIRTIO_GSI + index,
    }
}

/// What differs from one board to the next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Description<'d> {
    pub(super) memory: u64,
    pub(super) vcpus: u16,
    /// Whether vCPUs start at EL2.
    pub(super) has_el2: bool,
    pub(super) gic: Gic,
    /// How many virtio devices there are.
    pub(super) virtio: u32,
    /// The command line.
    pub(super) arguments: &'d str,
    /// First address and length.
    pub(super) initrd: Option<(u64, u64)>,
}

/// The phandle of the interrupt controller.
const CONTROLLER: u32 = 1;
/// Kinds of interrupts, and how they are triggered (`interrupt-controller/arm,gic.yaml`).
const SHARED: u32 = 0;
const PRIVATE: u32 = 1;
const EDGE_RISING: u32 = 1;
const LEVEL_HIGH: u32 = 4;
/// The private interrupts of the timers, in the order of the binding: secure, non-secure, virtual, and the two of EL2.
/// A guest has the second and the third, and with EL2 also the last two.
const TIMERS: [u32; 5] = [13, 14, 11, 10, 12];
/// Sizes of the interrupt controllers' registers in bytes.
const GICD_LEN: u64 = 0x1_0000;
const GICC_LEN: u64 = 0x2000;
const GICD_V2_LEN: u64 = 0x1000;
const ITS_LEN: u64 = 0x2_0000;
/// The frequency from which the divisor of a PC's serial port counts, in Hz.
const SERIAL_CLOCK: u32 = 1_843_200;

/// The tree as a blob.
pub(super) fn blob(of: &Description<'_>) -> Result<Vec<u8>, Error> {
    let mut fdt = FdtWriter::new()?;
    let root = fdt.begin_node("")?;
    fdt.property_string("compatible", "linux,dummy-virt")?;
    fdt.property_u32("#address-cells", 2)?;
    fdt.property_u32("#size-cells", 2)?;
    fdt.property_u32("interrupt-parent", CONTROLLER)?;
    chosen(&mut fdt, of)?;
    let memory = fdt.begin_node(&format!("memory@{:x}", IMAGE_RAM.start))?;
    fdt.property_string("device_type", "memory")?;
    fdt.property_array_u64("reg", &[IMAGE_RAM.start, of.memory])?;
    fdt.end_node(memory)?;
    cpus(&mut fdt, of)?;
    controller(&mut fdt, of)?;
    timer(&mut fdt, of.has_el2)?;
    serial(&mut fdt)?;
    for index in 0..of.virtio {
        device(&mut fdt, index)?;
    }
    fdt.end_node(root)?;
    fdt.finish()
}

fn chosen(fdt: &mut FdtWriter, of: &Description<'_>) -> Result<(), Error> {
    let node = fdt.begin_node("chosen")?;
    fdt.property_string("bootargs", of.arguments)?;
    fdt.property_string("stdout-path", &format!("/serial@{SERIAL:x}"))?;
    if let Some((first, len)) = of.initrd {
        fdt.property_u64("linux,initrd-start", first)?;
        fdt.property_u64("linux,initrd-end", first.saturating_add(len))?;
    }
    fdt.end_node(node)
}

/// Describes the CPUs, and the firmware interface with which the first CPU starts the others and stops the machine.
fn cpus(fdt: &mut FdtWriter, of: &Description<'_>) -> Result<(), Error> {
    let cpus = fdt.begin_node("cpus")?;
    fdt.property_u32("#address-cells", 1)?;
    fdt.property_u32("#size-cells", 0)?;
    for index in 0..of.vcpus {
        let affinity = cpu_affinity(index.into());
        let cpu = fdt.begin_node(&format!("cpu@{affinity:x}"))?;
        fdt.property_string("device_type", "cpu")?;
        fdt.property_string("compatible", "arm,armv8")?;
        fdt.property_string("enable-method", "psci")?;
        fdt.property_u32("reg", affinity)?;
        fdt.end_node(cpu)?;
    }
    fdt.end_node(cpus)?;
    let psci = fdt.begin_node("psci")?;
    let versions = ["arm,psci-1.0", "arm,psci-0.2"].map(str::to_owned);
    fdt.property_string_list("compatible", versions.to_vec())?;
    // In a guest with EL2, the guest itself handles `hvc`.
    let method = if of.has_el2 { "smc" } else { "hvc" };
    fdt.property_string("method", method)?;
    fdt.end_node(psci)
}

fn controller(fdt: &mut FdtWriter, of: &Description<'_>) -> Result<(), Error> {
    let node = fdt.begin_node(&format!("interrupt-controller@{GICD:x}"))?;
    fdt.property_null("interrupt-controller")?;
    fdt.property_u32("#interrupt-cells", 3)?;
    fdt.property_phandle(CONTROLLER)?;
    match of.gic {
        Gic::V2 => {
            fdt.property_string("compatible", "arm,cortex-a15-gic")?;
            fdt.property_array_u64("reg", &[GICD, GICD_V2_LEN, GICC, GICC_LEN])?;
        }
        Gic::V3 => {
            let redistributors = GICR_SIZE * u64::from(of.vcpus);
            fdt.property_string("compatible", "arm,gic-v3")?;
            fdt.property_array_u64("reg", &[GICD, GICD_LEN, GICR, redistributors])?;
            if of.has_el2 {
                fdt.property_array_u32("interrupts", &[PRIVATE, MAINTENANCE, LEVEL_HIGH])?;
            }
            fdt.property_u32("#address-cells", 2)?;
            fdt.property_u32("#size-cells", 2)?;
            fdt.property_null("ranges")?;
            let its = fdt.begin_node(&format!("msi-controller@{ITS:x}"))?;
            fdt.property_string("compatible", "arm,gic-v3-its")?;
            fdt.property_null("msi-controller")?;
            fdt.property_u32("#msi-cells", 1)?;
            fdt.property_array_u64("reg", &[ITS, ITS_LEN])?;
            fdt.end_node(its)?;
        }
    }
    fdt.end_node(node)
}

fn timer(fdt: &mut FdtWriter, has_el2: bool) -> Result<(), Error> {
    let node = fdt.begin_node("timer")?;
    fdt.property_string("compatible", "arm,armv8-timer")?;
    fdt.property_null("always-on")?;
    // The fifth is for the Virtualization Host Extensions alone.
    let count = if has_el2 {
        TIMERS.len()
    } else {
        TIMERS.len() - 1
    };
    let interrupts = TIMERS.map(|number| [PRIVATE, number, LEVEL_HIGH]);
    fdt.property_array_u32("interrupts", interrupts[..count].as_flattened())?;
    fdt.end_node(node)
}

fn serial(fdt: &mut FdtWriter) -> Result<(), Error> {
    let node = fdt.begin_node(&format!("serial@{SERIAL:x}"))?;
    fdt.property_string("compatible", "ns16550a")?;
    fdt.property_array_u64("reg", &[SERIAL, SERIAL_LEN])?;
    fdt.property_u32("clock-frequency", SERIAL_CLOCK)?;
    fdt.property_array_u32("interrupts", &[SHARED, SERIAL_GSI, EDGE_RISING])?;
    fdt.end_node(node)
}

/// Describes a virtio device. Its interrupt is an edge, because an irqfd raises it.
fn device(fdt: &mut FdtWriter, index: u32) -> Result<(), Error> {
    let Location { address, gsi } = virtio(index);
    let node = fdt.begin_node(&format!("virtio@{address:x}"))?;
    fdt.property_string("compatible", "virtio,mmio")?;
    fdt.property_array_u64("reg", &[address, register::LEN])?;
    fdt.property_array_u32("interrupts", &[SHARED, gsi, EDGE_RISING])?;
    fdt.property_null("dma-coherent")?;
    fdt.end_node(node)
}

#[cfg(test)]
#[path = "tree_test.rs"]
mod tests;
