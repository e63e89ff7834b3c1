use vmbell::bus::BusRange;
use vmbell::irq::Gsi;

use super::*;
use crate::pci::{Pin, Window, Windows};

/// The tables for a board on which all slots share the GSIs 16 to 19.
fn tables_for(cpus: u32) -> Vec<u8> {
    tables_with(cpus, AcpiHardware::Full { timer: true })
}

fn tables_with(cpus: u32, hardware: AcpiHardware) -> Vec<u8> {
    let intx = |_, pin: Pin| Gsi::new(15 + u32::from(pin.register())).ok();
    let board = Board { intx, ..board() };
    let virtio = [(0xc000_0000, 5), (0xc000_1000, 10)];
    let virtio = virtio.map(|(address, gsi)| Location { address, gsi });
    acpi_tables(cpus, hardware, &board, &virtio)
}

/// The tables of a hardware-reduced board, with its configuration space in memory.
fn reduced_tables() -> Vec<u8> {
    let config = ConfigAccess::Memory(0xfe00_0000);
    let board = Board { config, ..board() };
    acpi_tables(2, AcpiHardware::Reduced, &board, &[])
}

/// A board without interrupt lines.
fn board() -> Board {
    let window = |first, len| Window::new(BusRange::new(first, len).unwrap());
    let windows = Windows {
        io: window(0xc000, 0x4000),
        memory32: window(0xe000_0000, 0x1e00_0000),
        memory64: window(0x10_0000_0000, 0x70_0000_0000),
    };
    windows.into()
}

fn sum(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |sum, byte| sum.wrapping_add(*byte))
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// The table at an address, with the length in its header.
fn table(bytes: &[u8], address: u32) -> &[u8] {
    let table = &bytes[(address - ACPI_BASE) as usize..];
    &table[..word(table, 4) as usize]
}

/// Finds the tables as a guest does: by the signature, the root table and its entries.
fn find(bytes: &[u8], signature: &[u8; 4]) -> Vec<u8> {
    assert_eq!(bytes[..8], *b"RSD PTR ");
    let root = table(bytes, word(bytes, 16));
    assert_eq!(root[..4], *b"RSDT");
    let entries = root[36..].chunks_exact(4).map(|entry| word(entry, 0));
    let mut tables = entries.map(|address| table(bytes, address));
    let found = tables.find(|table| table[..4] == *signature);
    found.unwrap().to_vec()
}

#[test]
fn every_checksum_is_right() {
    let bytes = tables_for(3);
    assert_eq!(sum(&bytes[..20]), 0);
    assert_eq!(sum(table(&bytes, word(&bytes, 16))), 0);
    for signature in [b"FACP", b"APIC"] {
        assert_eq!(sum(&find(&bytes, signature)), 0, "{signature:?}");
    }
    let fadt = find(&bytes, b"FACP");
    assert_eq!(sum(table(&bytes, word(&fadt, 40))), 0, "DSDT");
}

#[test]
fn fadt_has_the_timer_port_where_acpi_1_has_it() {
    let fadt = find(&tables_for(1), b"FACP");
    assert_eq!(word(&fadt, 76), u32::from(PM_TIMER_PORT));
    assert_eq!(fadt[91], 4);
    let flags = word(&fadt, 112);
    assert_eq!(flags & (1 << 8), 0, "the timer has 24 bits");
}

#[test]
fn fadt_without_the_timer_has_neither_its_port_nor_its_length() {
    let fadt = find(
        &tables_with(1, AcpiHardware::Full { timer: false }),
        b"FACP",
    );
    assert_eq!((word(&fadt, 76), fadt[91]), (0, 0));
    assert_eq!(word(&fadt, 64), 0x604, "the other registers are there");
}

#[test]
fn madt_has_one_local_apic_for_each_cpu() {
    let entries = |cpus| {
        let madt = find(&tables_for(cpus), b"APIC");
        let mut rest = &madt[44..];
        let mut ids = Vec::new();
        while let [kind, len, ..] = *rest {
            if kind == 0 {
                ids.push(rest[3]);
            }
            rest = &rest[usize::from(len)..];
        }
        ids
    };
    assert_eq!(entries(3), [0, 1, 2]);
    assert_eq!(entries(300).len(), 255, "more have no id of 8 bits");
}

#[test]
fn tables_end_before_the_code_of_the_bios() {
    assert!(tables_for(255).len() < 0x1_0000);
}

#[test]
fn waking_vector_is_in_the_facs_that_the_fadt_names() {
    let bytes = tables_for(64);
    let facs = word(&find(&bytes, b"FACP"), 36);
    assert_eq!(table(&bytes, facs)[..4], *b"FACS");
    assert_eq!(WAKING_VECTOR, facs + 12);
    assert_eq!(word(table(&bytes, facs), 12), 0, "no vector yet");
}

#[test]
fn fadt_has_the_power_management_registers_and_the_dsdt_the_sleeps() {
    let bytes = tables_for(1);
    let fadt = find(&bytes, b"FACP");
    assert_eq!((word(&fadt, 56), word(&fadt, 64)), (0x600, 0x604));
    assert_eq!((fadt[88], fadt[89]), (4, 2));
    assert_eq!(word(&fadt, 48), 0, "ACPI mode is always on");
    assert_eq!(fadt[108], 0x32, "the century");
    assert_eq!(
        word(&fadt, 112) & 1 << 6,
        0,
        "the clock wakes by its fixed event"
    );
    let dsdt = table(&bytes, word(&fadt, 40));
    for (name, kind) in [(b"_S3_", 1_u8), (b"_S5_", 0)] {
        let at = dsdt.windows(4).position(|bytes| bytes == name).unwrap();
        // A package of four, with its length in one byte.
        assert_eq!((dsdt[at - 1], dsdt[at + 4], dsdt[at + 6]), (0x08, 0x12, 4));
        assert_eq!(dsdt[at + 7], kind);
    }
}

/// The bytes after a name in the DSDT.
fn behind<'t>(dsdt: &'t [u8], name: &[u8; 4]) -> &'t [u8] {
    let at = dsdt.windows(4).position(|bytes| bytes == name).unwrap();
    &dsdt[at + 4..]
}

fn dsdt(bytes: &[u8]) -> &[u8] {
    table(bytes, word(&find(bytes, b"FACP"), 40))
}

#[test]
fn dsdt_has_the_windows_of_pci_and_the_way_of_each_pin() {
    let bytes = tables_for(1);
    let dsdt = dsdt(&bytes);
    // EISA's PNP0A03, after a dword prefix.
    assert_eq!(behind(dsdt, b"_HID")[..5], [0x0c, 0x41, 0xd0, 0x0a, 0x03]);
    let resources = behind(dsdt, b"_CRS");
    let has = |wanted: &[u8]| resources.windows(wanted.len()).any(|bytes| bytes == wanted);
    assert!(
        has(&[0x47, 1, 0xf8, 0x0c, 0xf8, 0x0c, 1, 8]),
        "0xcf8 to 0xcff"
    );
    assert!(has(&[0x00, 0xc0, 0xff, 0xff, 0, 0, 0x00, 0x40]), "ports");
    assert!(
        has(&[0, 0, 0, 0xe0, 0xff, 0xff, 0xff, 0xfd]),
        "32-bit addresses"
    );
    let routes = behind(dsdt, b"_PRT");
    // A package with its length in two bytes, of 32 slots with four pins each.
    assert_eq!((routes[0], routes[3]), (0x12, 128));
    // Slot 2, any function, pin C (2), GSI 18.
    let route = [0x0c, 0xff, 0xff, 2, 0, 0x0a, 2, 0x00, 0x0a, 18];
    assert!(routes.windows(route.len()).any(|bytes| bytes == route));
}

#[test]
fn dsdt_has_the_serial_port_with_its_interrupt() {
    let bytes = tables_for(1);
    let com1 = behind(dsdt(&bytes), b"COM1");
    assert_eq!(behind(com1, b"_HID")[..5], [0x0c, 0x41, 0xd0, 0x05, 0x01]);
    let resources = behind(com1, b"_CRS");
    let port = [0x47, 1, 0xf8, 0x03, 0xf8, 0x03, 1, 8];
    assert!(resources.windows(8).any(|bytes| bytes == port));
    let edge = [0x89, 6, 0, 3, 1, 4, 0, 0, 0];
    assert!(resources.windows(9).any(|bytes| bytes == edge));
}

#[test]
fn dsdt_has_each_virtio_device_with_its_registers_and_its_interrupt() {
    let bytes = tables_for(1);
    let expected = [
        (b"VR00", [0x00, 0x00, 0x00, 0xc0], 5),
        (b"VR01", [0, 0x10, 0, 0xc0], 10),
    ];
    for (name, address, gsi) in expected {
        let device = behind(dsdt(&bytes), name);
        assert_eq!(behind(device, b"_HID")[..10], *b"\x0dLNRO0005\0");
        let resources = behind(device, b"_CRS");
        // Readable and writable, 4 KiB; then an edge-triggered, active-high interrupt.
        let mut registers = vec![0x86, 9, 0, 1];
        registers.extend(address);
        registers.extend([0, 0x10, 0, 0]);
        registers.extend([0x89, 6, 0, 3, 1, gsi, 0, 0, 0]);
        let len = registers.len();
        assert!(
            resources
                .windows(len)
                .take(16)
                .any(|bytes| bytes == registers)
        );
    }
}

#[test]
fn reduced_fadt_has_ports_to_switch_off_and_to_reset_and_no_fixed_hardware() {
    let bytes = reduced_tables();
    let fadt = find(&bytes, b"FACP");
    let flags = word(&fadt, 112);
    assert_eq!(flags & (1 << 20 | 1 << 10), 1 << 20 | 1 << 10);
    // A port of 8 bits, then its address.
    assert_eq!(fadt[116..120], [1, 8, 0, 1]);
    assert_eq!((word(&fadt, 120), fadt[128]), (0x92, 1), "reset");
    assert_eq!(word(&fadt, 244 + 4), 0x600, "sleep control");
    assert_eq!(word(&fadt, 256 + 4), 0x601, "sleep status");
    let fixed = [46, 56, 64, 76].map(|at| word(&fadt, at));
    assert_eq!(fixed, [0; 4], "no SCI, registers and timer");
    assert_eq!(fadt[109] & 0x26, 0x24, "no clock, VGA and 8042");
}

#[test]
fn reduced_tables_have_no_suspend_and_lead_no_pin_of_pci_to_a_line() {
    let bytes = reduced_tables();
    let dsdt = dsdt(&bytes);
    let has = |name: &[u8]| dsdt.windows(name.len()).any(|bytes| bytes == name);
    assert!(has(b"_S5_") && !has(b"_S3_"));
    // A package with no element.
    assert_eq!(behind(dsdt, b"_PRT")[..3], [0x12, 2, 0]);
}

#[test]
fn configuration_memory_is_in_the_mcfg_and_reserved() {
    let bytes = reduced_tables();
    let mcfg = find(&bytes, b"MCFG");
    assert_eq!(sum(&mcfg), 0);
    assert_eq!((word(&mcfg, 44), word(&mcfg, 48)), (0xfe00_0000, 0));
    assert_eq!(mcfg[52..56], [0, 0, 0, 0], "segment 0, bus 0 to bus 0");
    let dsdt = dsdt(&bytes);
    let resources = behind(behind(dsdt, b"ECAM"), b"_CRS");
    let memory = [0x86, 9, 0, 1, 0, 0, 0, 0xfe, 0, 0, 0x10, 0];
    assert!(resources.windows(12).take(16).any(|bytes| bytes == memory));
    let ports = [0x47, 1, 0xf8, 0x0c];
    assert!(!dsdt.windows(4).any(|bytes| bytes == ports), "no ports");
}
