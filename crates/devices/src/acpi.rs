//! The ACPI tables of a PC without firmware: enough to find the power management registers and timer, the interrupt
//! controllers, PCI, the serial port and virtio devices on MMIO registers, and to sleep (ACPI 6.5, 5.2). A PC may be
//! hardware-reduced (ACPI 6.5, 4.1).
//!
//! Guests find the root pointer (RSDP) by its signature, at a multiple of 16 in the last 128 KiB below 1 MiB. All
//! tables follow it in memory. The DSDT describes how a guest sleeps, where PCI is, the serial port, and the virtio
//! devices (ACPI 6.5, 6 and 7.4.2; PCI Firmware 3.3, 4.1.2).

use acpi_tables::Aml;
use acpi_tables::aml::{
    AddressSpace, AddressSpaceCacheable, Device, EISAName, IO, Interrupt, Memory32Fixed, Name,
    Package, PackageBuilder, ResourceTemplate, Scope,
};
use acpi_tables::facs::FACS;
use acpi_tables::fadt::{FADT, FADTBuilder, Flags};
use acpi_tables::gas;
use acpi_tables::madt::{
    EnabledStatus, IoApic, LocalInterruptController, MADT, ProcessorLocalApic,
};
use acpi_tables::mcfg::MCFG;
use acpi_tables::sdt::Sdt;
use vmbell::bus::BusRange;

use super::ioapic::IO_APIC;
use super::pci::{Board, ConfigAccess};
use super::power::{
    PM_TIMER_LEN, PM_TIMER_PORT, PM1_CONTROL_LEN, PM1_CONTROL_PORT, PM1_EVENT_LEN, PM1_EVENT_PORT,
    SCI_GSI, SLEEP_PORTS,
};
use super::reset::{PORT_A, RESET};
use super::rtc::RTC_CENTURY;
use super::virtio::mmio::{Location, register};
use crate::pci::{CONFIG_MEMORY_LEN, CONFIG_PORTS, CONFIG_PORTS_LEN, Pin, SLOTS};
use crate::power::Sleep;
use crate::serial::{SERIAL_GSI, SERIAL_LEN, SERIAL_PORTS};

/// Guest-physical address of the root pointer, where guests begin to search for it.
pub const ACPI_BASE: u32 = 0xe_0000;

/// Guest-physical address of the FACS, directly after the root pointer.
const FACS_ADDRESS: u32 = ACPI_BASE + ALIGNMENT;
/// Guest-physical address of the 32-bit word in the FACS with the address at which a sleeping guest wakes up.
pub const WAKING_VECTOR: u32 = FACS_ADDRESS + 12;

const OEM: [u8; 6] = *b"VMBELL";
const TABLE: [u8; 8] = *b"VMBELLPC";
const LOCAL_APIC: u32 = 0xfee0_0000;
/// The FADT's boot flag for a board without a clock (ACPI 6.5, 5.2.9.3).
const NO_RTC: u16 = 1 << 5;
/// The FADT's boot flag for a board without VGA.
const NO_VGA: u16 = 1 << 2;
/// Alignment of each table in bytes, which the FACS requires.
const ALIGNMENT: u32 = 64;

/// The bytes of all tables, from [`ACPI_BASE`] on.
struct Tables(Vec<u8>);

impl Tables {
    /// Appends a table and returns its guest-physical address.
    fn push(&mut self, table: &[u8]) -> u32 {
        self.0
            .resize(self.0.len().next_multiple_of(ALIGNMENT as usize), 0);
        let offset = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        self.0.extend(table);
        ACPI_BASE.saturating_add(offset)
    }

    fn push_aml(&mut self, table: &dyn Aml) -> u32 {
        let mut bytes = Vec::new();
        table.to_aml_bytes(&mut bytes);
        self.push(&bytes)
    }
}

/// Which of the hardware that ACPI prescribes a board has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcpiHardware {
    /// The registers of power management, with their interrupt, and a clock.
    Full {
        /// Whether the tables describe the power management timer. Linux then spends 4.5 ms to check that it counts.
        timer: bool,
    },
    /// The sleep registers of hardware-reduced ACPI (ACPI 6.5, 4.1) instead.
    Reduced,
}

/// Returns the bytes to put at [`ACPI_BASE`], for a machine with `cpus` CPUs, this PCI bus and these virtio devices. A
/// CPU's APIC ID is its number. CPUs above 254 are not in the tables, because they would need x2APIC entries.
pub fn acpi_tables(
    cpus: u32,
    hardware: AcpiHardware,
    board: &Board,
    virtio: &[Location],
) -> Vec<u8> {
    let mut tables = Tables(vec![0; 20]);
    let header = |signature, revision| Sdt::new(signature, 36, revision, OEM, TABLE, 1);
    let facs = tables.push_aml(&FACS::new());
    debug_assert_eq!(facs, FACS_ADDRESS);
    let mut dsdt = header(*b"DSDT", 2);
    dsdt.append_slice(&objects(hardware, board, virtio));
    let dsdt = tables.push(dsdt.as_slice());
    let mut listed = vec![
        tables.push_aml(&fadt(hardware, dsdt, facs)),
        tables.push_aml(&madt(cpus)),
    ];
    if let ConfigAccess::Memory(address) = board.config {
        let mut mcfg = MCFG::new(OEM, TABLE, 1);
        mcfg.add_ecam(address, 0, 0, 0);
        listed.push(tables.push_aml(&mcfg));
    }
    let mut rsdt = header(*b"RSDT", 1);
    listed
        .iter()
        .for_each(|table| rsdt.append_slice(&table.to_le_bytes()));
    let rsdt = tables.push(rsdt.as_slice());
    let Tables(mut bytes) = tables;
    bytes[..20].copy_from_slice(&root_pointer(rsdt));
    bytes
}

/// The FADT, with the addresses of two other tables.
fn fadt(hardware: AcpiHardware, dsdt: u32, facs: u32) -> FADT {
    let fadt = FADTBuilder::new(OEM, TABLE, 1)
        .dsdt_32(dsdt)
        .firmware_ctrl_32(facs)
        .flag(Flags::Wbinvd)
        .flag(Flags::PwrButton)
        .flag(Flags::SlpButton)
        .flag(Flags::Headless);
    let fadt = match hardware {
        AcpiHardware::Full { timer } => with_registers(fadt, timer),
        AcpiHardware::Reduced => reduced(fadt),
    };
    fadt.finalize()
}

fn with_registers(mut fadt: FADTBuilder, timer: bool) -> FADTBuilder {
    fadt.sci_int = u16::try_from(SCI_GSI).unwrap_or_default().into();
    fadt.pm1a_evt_blk = u32::from(PM1_EVENT_PORT).into();
    fadt.pm1_evt_len = PM1_EVENT_LEN;
    fadt.pm1a_cnt_blk = u32::from(PM1_CONTROL_PORT).into();
    fadt.pm1_cnt_len = PM1_CONTROL_LEN;
    fadt.century = RTC_CENTURY;
    if timer {
        fadt.pm_tmr_blk = u32::from(PM_TIMER_PORT).into();
        fadt.pm_tmr_len = PM_TIMER_LEN;
    }
    fadt
}

/// Adds the ports for hardware-reduced ACPI, with which a guest switches the machine off and resets it.
fn reduced(fadt: FADTBuilder) -> FADTBuilder {
    let port = |port| {
        let (space, access) = (gas::AddressSpace::SystemIo, gas::AccessSize::ByteAccess);
        gas::GAS::new(space, 8, 0, access, port)
    };
    let mut fadt = fadt.flag(Flags::HwReducedAcpi).flag(Flags::ResetRegSup);
    fadt.iapc_boot_arch = (NO_RTC | NO_VGA).into();
    fadt.reset_reg = port(PORT_A);
    fadt.reset_value = RESET;
    fadt.sleep_control_reg = port(SLEEP_PORTS.into());
    fadt.sleep_status_reg = port(u64::from(SLEEP_PORTS) + 1);
    fadt
}

/// The MADT: the local APICs and the I/O APIC.
fn madt(cpus: u32) -> MADT {
    let mut madt = MADT::new(OEM, TABLE, 1, LocalInterruptController::Address(LOCAL_APIC));
    for cpu in (0..cpus).map_while(|cpu| u8::try_from(cpu).ok().filter(|cpu| *cpu < 255)) {
        madt.add_structure(ProcessorLocalApic::new(cpu, cpu, EnabledStatus::Enabled));
    }
    madt.add_structure(IoApic::new(0, dword(IO_APIC), 0));
    madt
}

/// The root pointer of ACPI 1.0 (ACPI 6.5, 5.2.5.3). It has only an RSDT, so that guests without 64-bit
/// addresses can use it.
fn root_pointer(rsdt: u32) -> [u8; 20] {
    let mut bytes = [0; 20];
    bytes[..8].copy_from_slice(b"RSD PTR ");
    bytes[9..15].copy_from_slice(&OEM);
    bytes[16..].copy_from_slice(&rsdt.to_le_bytes());
    let sum = bytes.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
    bytes[8] = sum.wrapping_neg();
    bytes
}

/// The bytes of all objects in the DSDT.
fn objects(hardware: AcpiHardware, board: &Board, virtio: &[Location]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let sleeps = [("_S3_", Sleep::S3), ("_S5_", Sleep::S5)];
    let skipped = usize::from(hardware == AcpiHardware::Reduced);
    for (name, sleep) in sleeps.into_iter().skip(skipped) {
        sleep_package(name, sleep, &mut bytes);
    }
    let mut devices = Vec::new();
    pci_root(board, &mut devices);
    if let ConfigAccess::Memory(address) = board.config {
        config_memory(address, &mut devices);
    }
    serial(&mut devices);
    for (index, location) in (0_u8..).zip(virtio) {
        virtio_mmio(index, *location, &mut devices);
    }
    let scope = Scope::raw("_SB_".into(), devices);
    bytes.extend(scope);
    bytes
}

/// The object that describes a sleep state: the values for PM1a and PM1b, and two reserved values.
fn sleep_package(name: &str, sleep: Sleep, bytes: &mut Vec<u8>) {
    let kind = sleep.kind();
    let package = Package::new(vec![&kind, &kind, &0_u8, &0_u8]);
    Name::new(name.into(), &package).to_aml_bytes(bytes);
}

/// The PCI bus: its configuration ports if it has them, the windows of its BARs, and the pins of the I/O APIC to which
/// the slots' pins are routed.
fn pci_root(board: &Board, bytes: &mut Vec<u8>) {
    let windows = board.windows;
    let word = |value: u64| u16::try_from(value).unwrap_or(u16::MAX);
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
    let mut resources: Vec<&dyn Aml> = vec![&buses, &ports, &low, &high];
    if board.config == ConfigAccess::Ports {
        resources.insert(1, &configuration);
    }
    let resources = ResourceTemplate::new(resources);
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

/// The memory of configuration space, reserved: Linux uses it only if a device other than the bus has it (PCI Firmware
/// 3.3, 4.1.2).
fn config_memory(address: u64, bytes: &mut Vec<u8>) {
    let memory = Memory32Fixed::new(true, dword(address), dword(CONFIG_MEMORY_LEN));
    let resources = ResourceTemplate::new(vec![&memory]);
    Device::new(
        "ECAM".into(),
        vec![
            &Name::new("_HID".into(), &EISAName::new("PNP0C02")),
            &Name::new("_CRS".into(), &resources),
        ],
    )
    .to_aml_bytes(bytes);
}

fn dword(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// For each pin of each slot: the slot's address with any function, the pin's number from 0 on, and the GSI.
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

/// The serial port, whose interrupt is edge-triggered.
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

/// A virtio device, with an edge-triggered interrupt. The ID is the ID of Linux's `virtio_mmio`.
fn virtio_mmio(index: u8, location: Location, bytes: &mut Vec<u8>) {
    let registers = Memory32Fixed::new(true, dword(location.address), dword(register::LEN));
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

#[cfg(test)]
#[path = "acpi_test.rs"]
mod tests;
