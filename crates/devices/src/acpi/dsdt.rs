//! The objects of the DSDT: how a guest sleeps, where PCI is, the serial port, and virtio devices on MMIO registers (ACPI
//! 6.5, 6 and 7.4.2; PCI Firmware 3.3, 4.1).

use acpi_tables::Aml;
use acpi_tables::aml::{
    AddressSpace, AddressSpaceCacheable, Device, EISAName, IO, Interrupt, Memory32Fixed, Name,
    Package, PackageBuilder, ResourceTemplate, Scope,
};

use crate::pci::{Board, CONFIG_PORTS, CONFIG_PORTS_LEN, Pin, SLOTS};
use crate::pm1::Sleep;
use crate::serial::{SERIAL_GSI, SERIAL_LEN, SERIAL_PORTS};
use crate::virtio::mmio::Location;
use vmbell::bus::BusRange;

/// The bytes of all objects.
pub(super) fn objects(board: &Board, virtio: &[Location]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, sleep) in [("_S3_", Sleep::S3), ("_S5_", Sleep::S5)] {
        sleep_package(name, sleep, &mut bytes);
    }
    let mut devices = Vec::new();
    pci_root(board, &mut devices);
    serial(&mut devices);
    for (index, location) in (0_u8..).zip(virtio) {
        virtio_mmio(index, *location, &mut devices);
    }
    let scope = Scope::raw("_SB_".into(), devices);
    bytes.extend(scope);
    bytes
}

/// The object that tells how a guest sleeps in this way: the values for PM1a and PM1b, and two that are reserved.
fn sleep_package(name: &str, sleep: Sleep, bytes: &mut Vec<u8>) {
    let kind = sleep.kind();
    let package = Package::new(vec![&kind, &kind, &0_u8, &0_u8]);
    Name::new(name.into(), &package).to_aml_bytes(bytes);
}

/// The PCI bus: its configuration ports, the windows of its BARs, and the pins of the I/O APIC to which the pins of its
/// slots lead.
fn pci_root(board: &Board, bytes: &mut Vec<u8>) {
    let windows = board.windows;
    let word = |value: u64| u16::try_from(value).unwrap_or(u16::MAX);
    let dword = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
    let ends = |range: BusRange| (range.first(), range.last());
    let configuration = IO::new(word(CONFIG_PORTS), word(CONFIG_PORTS), 1, CONFIG_PORTS_LEN);
    let (first, last) = ends(windows.io.range());
    let ports = AddressSpace::new_io(word(first), word(last), None);
    let (first, last) = ends(windows.memory32.range());
    let plain = AddressSpaceCacheable::NotCacheable;
    let low = AddressSpace::new_memory(plain, true, dword(first), dword(last), None);
    let (first, last) = ends(windows.memory64.range());
    let plain = AddressSpaceCacheable::NotCacheable;
    let high = AddressSpace::new_memory(plain, true, first, last, None);
    let buses = AddressSpace::new_bus_number(0_u16, 0);
    let resources = ResourceTemplate::new(vec![&buses, &configuration, &ports, &low, &high]);
    let routes = routes(board);
    Device::new(
        "PCI0".into(),
        vec![
            &Name::new("_HID".into(), &EISAName::new("PNP0A03")),
            &Name::new("_UID".into(), &0_u8),
            &Name::new("_CRS".into(), &resources),
            &Name::new("_PRT".into(), &routes),
        ],
    )
    .to_aml_bytes(bytes);
}

/// For each pin of each slot: the slot's address with any function, the pin from 0 on, and the GSI.
fn routes(board: &Board) -> PackageBuilder {
    let mut routes = PackageBuilder::new();
    for slot in 0..SLOTS {
        for pin in [Pin::A, Pin::B, Pin::C, Pin::D] {
            let Some(gsi) = (board.intx)(slot, pin) else {
                continue;
            };
            let address = u32::try_from(slot).unwrap_or(u32::MAX) << 16 | 0xffff;
            let (pin, gsi) = (pin.register() - 1, gsi.number());
            routes.add_element(&Package::new(vec![&address, &pin, &0_u8, &gsi]));
        }
    }
    routes
}

/// The serial port, whose interrupt is an edge.
fn serial(bytes: &mut Vec<u8>) {
    let port = u16::try_from(SERIAL_PORTS).unwrap_or(u16::MAX);
    let len = u8::try_from(SERIAL_LEN).unwrap_or(u8::MAX);
    let ports = IO::new(port, port, 1, len);
    let interrupt = Interrupt::new(true, true, false, false, SERIAL_GSI);
    let resources = ResourceTemplate::new(vec![&ports, &interrupt]);
    Device::new(
        "COM1".into(),
        vec![
            &Name::new("_HID".into(), &EISAName::new("PNP0501")),
            &Name::new("_UID".into(), &0_u8),
            &Name::new("_CRS".into(), &resources),
        ],
    )
    .to_aml_bytes(bytes);
}

/// A virtio device (the ID is that of Linux's `virtio_mmio`), whose interrupt is an edge.
fn virtio_mmio(index: u8, location: Location, bytes: &mut Vec<u8>) {
    let dword = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
    let registers = Memory32Fixed::new(true, dword(location.address), dword(Location::LEN));
    let interrupt = Interrupt::new(true, true, false, false, location.gsi);
    let resources = ResourceTemplate::new(vec![&registers, &interrupt]);
    Device::new(
        format!("VR{index:02X}").as_str().into(),
        vec![
            &Name::new("_HID".into(), &"LNRO0005"),
            &Name::new("_UID".into(), &index),
            &Name::new("_CRS".into(), &resources),
        ],
    )
    .to_aml_bytes(bytes);
}
