//! Finds the tables in memory, and keeps the values that the image needs.
//!
//! The VMM may be hostile. So only one table of each kind is read, once and up to a limit, and no address or length can
//! make the image read for long. Checksums are ignored, as in Linux, which warns and uses the table. Only the search
//! for the RSDP checks them, because its eight letters may be anywhere in memory.

use super::HEADER;
use super::dsdt::{self, Device};
use super::fadt::Fadt;
use super::madt::{self, Entry, IoApic};
use super::root::{RSDP_LEN, Root, is_intact};
use crate::number::u32_at;
use crate::pci::mcfg_base;

/// The maximum number of bytes of a table that are read; QEMU's DSDT has 8 KiB.
const TABLE_MAX: usize = 64 << 10;
/// The maximum number of tables whose headers are read.
const TABLES_MAX: usize = 64;
/// How many I/O APICs are kept.
const IO_APICS_MAX: usize = 8;
/// How many devices are kept.
const DEVICES_MAX: usize = 32;
/// Where to search for an RSDP if the loader does not pass one: where firmware puts it, and below the hole for video
/// memory, because small VMMs do not have the firmware's area.
const SEARCHED: [(u64, u64); 2] = [(0x8_0000, 0xa_0000), (0xe_0000, 0x10_0000)];

/// Copies bytes from a guest-physical address; `None` if they cannot be read.
pub type Reader<'a> = &'a dyn Fn(u64, &mut [u8]) -> Option<()>;

/// What the tables say.
#[derive(Debug)]
pub struct Acpi {
    /// The FADT.
    pub fadt: Option<Fadt>,
    /// The value for S5 in the sleep registers.
    pub sleep_type: Option<u8>,
    /// The address of PCI Express's configuration space.
    pub mcfg: Option<u64>,
    /// How many CPUs the MADT lists.
    pub cpus: u64,
    /// The numbers of the first two CPUs.
    cpu_ids: [Option<u32>; 2],
    /// The I/O APICs.
    pub io_apics: [Option<IoApic>; IO_APICS_MAX],
    /// The virtio-mmio devices.
    pub devices: [Option<Device>; DEVICES_MAX],
}

impl Acpi {
    /// Reads the tables from the RSDP that the loader passes, or from one that a search finds.
    pub fn find(reader: Reader<'_>, rsdp: Option<u64>) -> Self {
        let mut acpi = Self {
            fadt: None,
            sleep_type: None,
            mcfg: None,
            cpus: 0,
            cpu_ids: [None; 2],
            io_apics: [None; IO_APICS_MAX],
            devices: [None; DEVICES_MAX],
        };
        let named = rsdp.and_then(|address| rsdp_at(reader, address));
        let root = named.and_then(|rsdp| Root::parse(&rsdp));
        if let Some(root) = root.or_else(|| search(reader)) {
            acpi.read(reader, root);
        }
        acpi
    }

    /// The first CPU except `own` that an interrupt command can reach: in xAPIC mode a CPU's number is a byte, and 255
    /// means all CPUs, including this one.
    pub fn other_cpu(&self, own: u32, x2apic: bool) -> Option<u32> {
        let ids = self.cpu_ids.iter().flatten().copied();
        let end = if x2apic { u32::MAX } else { 0xff };
        ids.into_iter().find(|id| *id != own && *id < end)
    }

    fn read(&mut self, reader: Reader<'_>, root: Root) {
        let mut buffer = [0; HEADER + 8 * TABLES_MAX];
        let table = load(reader, root.address, &mut buffer, |name| {
            matches!(name, b"RSDT" | b"XSDT")
        });
        let mut tables = [0; TABLES_MAX];
        for (place, address) in tables.iter_mut().zip(root.tables(table)) {
            *place = address;
        }
        let mut buffer = [0; TABLE_MAX];
        let mut wanted = [Some(b"FACP"), Some(b"MCFG"), Some(b"APIC")];
        for address in tables.into_iter().filter(|address| *address != 0) {
            let table = load(reader, address, &mut buffer, |name| {
                let kind = wanted.iter_mut().find(|kind| **kind == Some(name));
                kind.and_then(Option::take).is_some()
            });
            match table.get(..4) {
                Some(b"FACP") => self.fadt = Some(Fadt::parse(table)),
                Some(b"MCFG") => self.mcfg = mcfg_base(table),
                Some(b"APIC") => self.read_madt(table),
                _ => {}
            }
        }
        if let Some(address) = self.fadt.and_then(|fadt| fadt.dsdt) {
            let table = load(reader, address, &mut buffer, |name| name == b"DSDT");
            self.sleep_type = dsdt::sleep_type(table);
            for (place, device) in self.devices.iter_mut().zip(dsdt::devices(table)) {
                *place = Some(device);
            }
        }
    }

    fn read_madt(&mut self, table: &[u8]) {
        let mut free = self.io_apics.iter_mut();
        let mut free_ids = self.cpu_ids.iter_mut();
        for entry in madt::entries(table) {
            match entry {
                Entry::Cpu(id) => {
                    self.cpus += 1;
                    if let Some(place) = free_ids.next() {
                        *place = Some(id);
                    }
                }
                Entry::IoApic(found) => {
                    if let Some(place) = free.next() {
                        *place = Some(found);
                    }
                }
            }
        }
    }
}

/// Copies a table if its name is wanted, up to the buffer's size. Empty if the table does not exist.
fn load<'a>(
    reader: Reader<'_>,
    address: u64,
    buffer: &'a mut [u8],
    is_wanted: impl FnOnce(&[u8; 4]) -> bool,
) -> &'a [u8] {
    let mut header = [0; HEADER];
    let len = reader(address, &mut header)
        .and_then(|()| header.first_chunk())
        .filter(|name| is_wanted(name))
        .and_then(|_| usize::try_from(u32_at(&header, 4)?).ok())
        .unwrap_or(0)
        .min(buffer.len());
    let table = &mut buffer[..len];
    match reader(address, table) {
        Some(()) => table,
        None => &[],
    }
}

fn rsdp_at(reader: Reader<'_>, address: u64) -> Option<[u8; RSDP_LEN]> {
    let mut rsdp = [0; RSDP_LEN];
    reader(address, &mut rsdp)?;
    Some(rsdp)
}

fn search(reader: Reader<'_>) -> Option<Root> {
    SEARCHED
        .into_iter()
        .flat_map(|(from, to)| (from..to).step_by(16))
        .filter_map(|address| rsdp_at(reader, address))
        .filter(is_intact)
        .find_map(|rsdp| Root::parse(&rsdp))
}

#[cfg(test)]
#[path = "tables_test.rs"]
mod tests;
