//! Finds the tables of ACPI in memory, and keeps what the image needs of them.

use super::boot::Boot;
use super::memory::copy;
use crate::acpi::dsdt::{self, Device};
use crate::acpi::fadt::Fadt;
use crate::acpi::madt::{self, Entry, IoApic};
use crate::acpi::root::{RSDP_LEN, Root};
use crate::acpi::{HEADER, mcfg};

/// How much of a table is read at most; QEMU's DSDT has 8 KiB.
const TABLE_MAX: usize = 64 << 10;
/// How many tables are looked at.
const TABLES_MAX: usize = 64;
/// How many I/O APICs are kept.
const IO_APICS_MAX: usize = 8;
/// How many devices are kept.
pub const DEVICES_MAX: usize = 32;
/// Where an RSDP is looked for if the loader names none: below the hole for video memory, since small VMMs have no
/// area that firmware would have, and where firmware puts it.
const SEARCHED: [(u64, u64); 2] = [(0x8_0000, 0xa_0000), (0xe_0000, 0x10_0000)];

/// What the tables say.
pub struct Acpi {
    pub fadt: Option<Fadt>,
    /// The value that means S5 in the registers that sleep.
    pub sleep_type: Option<u8>,
    pub mcfg: Option<u64>,
    /// How many CPUs there are, if the MADT says so.
    pub cpus: u64,
    /// The numbers of the first two.
    pub cpu_ids: [Option<u32>; 2],
    pub io_apics: [Option<IoApic>; IO_APICS_MAX],
    pub devices: [Option<Device>; DEVICES_MAX],
}

impl Acpi {
    /// Reads the tables, as far as there are any.
    pub fn find(boot: &Boot) -> Self {
        let mut acpi = Self {
            fadt: None,
            sleep_type: None,
            mcfg: None,
            cpus: 0,
            cpu_ids: [None; 2],
            io_apics: [None; IO_APICS_MAX],
            devices: [None; DEVICES_MAX],
        };
        if let Some(root) = boot.rsdp().and_then(root_at).or_else(search) {
            acpi.read(root);
        }
        acpi
    }

    fn read(&mut self, root: Root) {
        let mut buffer = [0; HEADER + 8 * TABLES_MAX];
        let mut tables = [0; TABLES_MAX];
        for (place, address) in tables
            .iter_mut()
            .zip(root.tables(load(root.address, &mut buffer)))
        {
            *place = address;
        }
        let mut buffer = [0; TABLE_MAX];
        for address in tables.into_iter().filter(|address| *address != 0) {
            let table = load(address, &mut buffer);
            match table.get(..4) {
                Some(b"FACP") => self.fadt = Some(Fadt::parse(table)),
                Some(b"MCFG") => self.mcfg = mcfg::base(table),
                Some(b"APIC") => self.read_madt(table),
                _ => {}
            }
        }
        if let Some(address) = self.fadt.and_then(|fadt| fadt.dsdt) {
            let table = load(address, &mut buffer);
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

/// Copies a table, as much of it as the buffer takes. Empty if there is none.
fn load(address: u64, buffer: &mut [u8]) -> &[u8] {
    let mut header = [0; HEADER];
    let len = copy(address, &mut header)
        .and_then(|()| crate::bytes::u32_at(&header, 4))
        .and_then(|len| usize::try_from(len).ok())
        .unwrap_or(0)
        .min(buffer.len());
    let table = &mut buffer[..len];
    match copy(address, table) {
        Some(()) => table,
        None => &[],
    }
}

fn root_at(address: u64) -> Option<Root> {
    let mut rsdp = [0; RSDP_LEN];
    copy(address, &mut rsdp)?;
    Root::parse(&rsdp)
}

fn search() -> Option<Root> {
    SEARCHED
        .into_iter()
        .flat_map(|(from, to)| (from..to).step_by(16))
        .find_map(root_at)
}
