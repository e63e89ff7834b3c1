//! The ACPI tables of a PC without firmware: enough to find the power management registers and timer, the interrupt
//! controllers, PCI, the serial port and virtio devices on MMIO registers, and to sleep (ACPI 6.5, 5.2).
//!
//! Guests find the root pointer (RSDP) by its signature, on a multiple of 16 in the last 128 KiB below
//! 1 MiB. All tables follow it in memory.

mod dsdt;

use acpi_tables::Aml;
use acpi_tables::facs::FACS;
use acpi_tables::fadt::{FADTBuilder, Flags};
use acpi_tables::madt::{
    EnabledStatus, IoApic, LocalInterruptController, MADT, ProcessorLocalApic,
};
use acpi_tables::sdt::Sdt;

use super::pci::Board;
use super::pm_timer::{PM_TIMER_LEN, PM_TIMER_PORT};
use super::pm1::{PM1_CONTROL_LEN, PM1_CONTROL_PORT, PM1_EVENT_LEN, PM1_EVENT_PORT, SCI_GSI};
use super::rtc::RTC_CENTURY;
use super::virtio::mmio::Location;

/// Guest-physical address of the root pointer, from which on guests look for it.
pub const ACPI_BASE: u32 = 0xe_0000;

/// Guest-physical address of the FACS, directly behind the root pointer.
const FACS_ADDRESS: u32 = ACPI_BASE + ALIGNMENT;
/// Guest-physical address of the 32-bit word in the FACS at which a sleeping guest wants to wake up.
pub const WAKING_VECTOR: u32 = FACS_ADDRESS + 12;

const OEM: [u8; 6] = *b"VMBELL";
const TABLE: [u8; 8] = *b"VMBELLPC";
const LOCAL_APIC: u32 = 0xfee0_0000;
const IO_APIC: u32 = 0xfec0_0000;
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

/// The bytes to put at [`ACPI_BASE`], for a machine with `cpus` CPUs, this PCI bus and these virtio devices beside it. A
/// CPU's APIC ID is its number. CPUs above 254 are not in the tables, because they would need x2APIC entries.
pub fn acpi_tables(cpus: u32, board: &Board, virtio: &[Location]) -> Vec<u8> {
    let mut tables = Tables(vec![0; 20]);
    let header = |signature, revision| Sdt::new(signature, 36, revision, OEM, TABLE, 1);
    let facs = tables.push_aml(&FACS::new());
    debug_assert_eq!(facs, FACS_ADDRESS);
    let mut dsdt = header(*b"DSDT", 2);
    dsdt.append_slice(&dsdt::objects(board, virtio));
    let dsdt = tables.push(dsdt.as_slice());
    let mut fadt = FADTBuilder::new(OEM, TABLE, 1)
        .dsdt_32(dsdt)
        .firmware_ctrl_32(facs)
        .flag(Flags::Wbinvd)
        .flag(Flags::PwrButton)
        .flag(Flags::SlpButton)
        .flag(Flags::Headless);
    fadt.sci_int = u16::try_from(SCI_GSI).unwrap_or_default().into();
    fadt.pm1a_evt_blk = u32::from(PM1_EVENT_PORT).into();
    fadt.pm1_evt_len = PM1_EVENT_LEN;
    fadt.pm1a_cnt_blk = u32::from(PM1_CONTROL_PORT).into();
    fadt.pm1_cnt_len = PM1_CONTROL_LEN;
    fadt.century = RTC_CENTURY;
    fadt.pm_tmr_blk = u32::from(PM_TIMER_PORT).into();
    fadt.pm_tmr_len = PM_TIMER_LEN;
    let fadt = tables.push_aml(&fadt.finalize());
    let madt = tables.push_aml(&madt(cpus));
    let mut rsdt = header(*b"RSDT", 1);
    rsdt.append_slice(&fadt.to_le_bytes());
    rsdt.append_slice(&madt.to_le_bytes());
    let rsdt = tables.push(rsdt.as_slice());
    let Tables(mut bytes) = tables;
    bytes[..20].copy_from_slice(&root_pointer(rsdt));
    bytes
}

/// The MADT: the local APICs and the I/O APIC.
fn madt(cpus: u32) -> MADT {
    let mut madt = MADT::new(OEM, TABLE, 1, LocalInterruptController::Address(LOCAL_APIC));
    for cpu in (0..cpus).map_while(|cpu| u8::try_from(cpu).ok().filter(|cpu| *cpu < 255)) {
        madt.add_structure(ProcessorLocalApic::new(cpu, cpu, EnabledStatus::Enabled));
    }
    madt.add_structure(IoApic::new(0, IO_APIC, 0));
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

#[cfg(test)]
#[path = "test.rs"]
mod tests;
