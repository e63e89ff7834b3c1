//! Valid and broken tables in a memory of separate pieces.

extern crate std;

use core::cell::Cell;
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::{Acpi, TABLE_MAX};
use crate::acpi::fadt::Register;

const RSDP: u64 = 0x7_0000;
const ROOT: u64 = 0x10_0000;
const FADT: u64 = 0x10_1000;
const MADT: u64 = 0x10_2000;
const MCFG: u64 = 0x10_3000;
const DSDT: u64 = 0x10_4000;

/// Guest-physical memory: pieces of bytes, and all ones elsewhere, as on a PC.
#[derive(Default)]
struct Memory {
    pieces: Vec<(u64, Vec<u8>)>,
    /// How many bytes were read.
    read: Cell<usize>,
}

impl Memory {
    fn with(mut self, address: u64, bytes: Vec<u8>) -> Self {
        self.pieces.push((address, bytes));
        self
    }

    /// Reads as the image does: addresses of more than 46 bits cannot be mapped.
    fn copy(&self, address: u64, to: &mut [u8]) -> Option<()> {
        let end = address.checked_add(u64::try_from(to.len()).unwrap())?;
        if end > 1 << 46 {
            return None;
        }
        self.read.set(self.read.get() + to.len());
        to.fill(0xff);
        for (begin, bytes) in &self.pieces {
            for (place, byte) in (*begin..).zip(bytes) {
                if (address..end).contains(&place) {
                    to[usize::try_from(place - address).unwrap()] = *byte;
                }
            }
        }
        Some(())
    }

    fn acpi(&self) -> Acpi {
        Acpi::find(&|address, to| self.copy(address, to), Some(RSDP))
    }
}

fn rsdp(xsdt: u64) -> Vec<u8> {
    let mut bytes = vec![0; 36];
    bytes[..8].copy_from_slice(b"RSD PTR ");
    bytes[15] = 2;
    bytes[24..32].copy_from_slice(&xsdt.to_le_bytes());
    bytes[8] = bytes[..20]
        .iter()
        .fold(0, |sum, byte| sum.wrapping_sub(*byte));
    bytes
}

/// A table with the right length and a wrong checksum.
fn table(name: &[u8; 4], content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 36];
    bytes[..4].copy_from_slice(name);
    bytes.extend_from_slice(content);
    let len = u32::try_from(bytes.len()).unwrap();
    with_len(bytes, len)
}

fn with_len(mut table: Vec<u8>, len: u32) -> Vec<u8> {
    table[4..8].copy_from_slice(&len.to_le_bytes());
    table
}

fn xsdt(tables: &[u64]) -> Vec<u8> {
    let addresses: Vec<u8> = tables.iter().flat_map(|at| at.to_le_bytes()).collect();
    table(b"XSDT", &addresses)
}

fn fadt(dsdt: u64, pm_timer: u32) -> Vec<u8> {
    let mut content = vec![0; 80];
    content[4..8].copy_from_slice(&u32::try_from(dsdt).unwrap().to_le_bytes());
    content[40..44].copy_from_slice(&pm_timer.to_le_bytes());
    table(b"FACP", &content)
}

/// A MADT with these entries after the local APIC's address and the flags.
fn madt(entries: &[&[u8]]) -> Vec<u8> {
    table(b"APIC", &[&[0; 8], entries.concat().as_slice()].concat())
}

fn cpu(id: u32) -> Vec<u8> {
    let mut entry = vec![9, 16, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0];
    entry[4..8].copy_from_slice(&id.to_le_bytes());
    entry
}

fn mcfg(base: u64) -> Vec<u8> {
    let mut content = vec![0; 24];
    content[8..16].copy_from_slice(&base.to_le_bytes());
    table(b"MCFG", &content)
}

/// A memory with a root that names these tables.
fn named(tables: &[u64]) -> Memory {
    let memory = Memory::default();
    memory.with(RSDP, rsdp(ROOT)).with(ROOT, xsdt(tables))
}

fn io_apic() -> [u8; 12] {
    [1, 12, 0, 0, 0, 0, 0xc0, 0xfe, 0, 0, 0, 0]
}

fn whole() -> Memory {
    named(&[FADT, MADT, MCFG])
        .with(FADT, fadt(DSDT, 0x608))
        .with(MADT, madt(&[&cpu(0), &io_apic(), &cpu(1)]))
        .with(MCFG, mcfg(0xb000_0000))
        .with(DSDT, table(b"DSDT", b"_S5_\x12\x06\x04\x0a\x05\x0a\x05"))
}

#[test]
fn whole_tables_are_read_whatever_their_checksums() {
    let acpi = whole().acpi();
    assert_eq!(acpi.fadt.unwrap().pm_timer, Some(Register::Port(0x608)));
    assert_eq!((acpi.sleep_type, acpi.mcfg), (Some(5), Some(0xb000_0000)));
    assert_eq!((acpi.cpus, acpi.other_cpu(0, false)), (2, Some(1)));
    assert_eq!(acpi.io_apics.iter().flatten().count(), 1);
}

#[test]
fn an_rsdp_that_is_searched_has_a_right_checksum() {
    let mut stray = rsdp(0x20_0000);
    stray[8] ^= 1;
    let memory = whole().with(0x9_0000, stray).with(0xf_0000, rsdp(ROOT));
    let reader = |address, to: &mut [u8]| memory.copy(address, to);
    for named in [None, Some(0x5_0000), Some(u64::MAX)] {
        let acpi = Acpi::find(&reader, named);
        assert_eq!(acpi.mcfg, Some(0xb000_0000), "{named:?}");
    }
}

#[test]
fn the_first_table_of_a_kind_counts() {
    let second = MADT + 0x800;
    let memory = whole()
        .with(ROOT, xsdt(&[MADT, second, FADT]))
        .with(second, madt(&[&cpu(7), &cpu(8), &cpu(9)]));
    let acpi = memory.acpi();
    assert_eq!((acpi.cpus, acpi.other_cpu(0, false)), (2, Some(1)));
    assert!(acpi.fadt.is_some());
}

/// In xAPIC mode, an APIC ID is truncated to a byte: an INIT to ID 0x100 would reset CPU 0, which sends it.
#[test]
fn a_cpu_that_the_command_does_not_reach_is_no_second_one() {
    for (id, xapic, x2apic) in [
        (1, Some(1), Some(1)),
        (0xff, None, Some(0xff)),
        (0x100, None, Some(0x100)),
        (u32::MAX, None, None),
        (0, None, None),
    ] {
        let acpi = named(&[MADT]).with(MADT, madt(&[&cpu(0), &cpu(id)])).acpi();
        assert_eq!(acpi.other_cpu(0, false), xapic, "{id:#x}");
        assert_eq!(acpi.other_cpu(0, true), x2apic, "{id:#x}");
    }
}

#[test]
fn tables_of_no_length_say_nothing() {
    for len in [0, 1, 4, 35, 36] {
        let acpi = named(&[FADT, MADT, MCFG])
            .with(FADT, with_len(fadt(DSDT, 0x608), len))
            .with(MADT, with_len(madt(&[&cpu(0)]), len))
            .with(MCFG, with_len(mcfg(0xb000_0000), len))
            .acpi();
        assert_eq!((acpi.cpus, acpi.mcfg), (0, None), "{len}");
        assert!(
            acpi.fadt
                .is_none_or(|fadt| fadt.dsdt.is_none() && fadt.pm_timer.is_none())
        );
        let acpi = whole().with(ROOT, with_len(xsdt(&[MADT]), len)).acpi();
        assert_eq!(acpi.cpus, 0, "{len}");
    }
}

#[test]
fn a_length_of_four_gibibytes_reads_no_more_than_the_image_keeps() {
    let memory = whole()
        .with(MADT, with_len(madt(&[&cpu(0), &cpu(3)]), u32::MAX))
        .with(ROOT, with_len(xsdt(&[MADT]), u32::MAX));
    let acpi = memory.acpi();
    // The memory after the table reads as 0xff, that is, as entries of 255 bytes with an unknown type.
    assert_eq!((acpi.cpus, acpi.other_cpu(0, false)), (2, Some(3)));
    assert!(memory.read.get() < 2 * TABLE_MAX, "{}", memory.read.get());
}

#[test]
fn a_root_with_a_thousand_entries_reads_each_kind_once() {
    let memory = whole().with(ROOT, xsdt(&[MADT; 1000]));
    let memory = memory.with(MADT, with_len(madt(&[&cpu(0), &cpu(1)]), u32::MAX));
    assert_eq!(memory.acpi().cpus, 2);
    assert!(memory.read.get() < 2 * TABLE_MAX, "{}", memory.read.get());
}

/// Reading a byte there may be an exit, and may end a weak VMM.
#[test]
fn addresses_where_nothing_is_are_hardly_read() {
    let nowhere: Vec<u64> = (0..64)
        .map(|place| 0xd000_0000 + 0x1_0000 * place)
        .collect();
    let memory = named(&nowhere);
    assert_eq!(memory.acpi().cpus, 0);
    assert!(memory.read.get() < 8192, "{}", memory.read.get());
    let memory = Memory::default().with(RSDP, rsdp(0xd000_0000));
    assert_eq!(memory.acpi().cpus, 0);
    assert!(memory.read.get() < 8192, "{}", memory.read.get());
}

#[test]
fn tables_beyond_the_end_of_memory_are_none() {
    for end in [(1 << 46) - 20, 1 << 46, u64::MAX - 20, u64::MAX] {
        let memory = named(&[end, MADT, end]).with(MADT, madt(&[&cpu(0)]));
        assert_eq!(memory.acpi().cpus, 1, "{end:#x}");
        let acpi = whole().with(RSDP, rsdp(end)).acpi();
        assert_eq!(acpi.cpus, 0, "{end:#x}");
    }
}

#[test]
fn a_root_that_names_itself_and_a_fadt_that_is_its_own_dsdt_end() {
    let memory = named(&[ROOT, FADT, RSDP]).with(FADT, fadt(FADT, 0x608));
    let acpi = memory.acpi();
    assert_eq!(acpi.fadt.unwrap().dsdt, Some(FADT));
    assert_eq!(acpi.sleep_type, None);
}

#[test]
fn more_io_apics_and_devices_than_there_is_room_for_are_left_out() {
    let io_apic = io_apic();
    let io_apics = [io_apic.as_slice(); 1000];
    let mut aml = Vec::new();
    for _ in 0..1000 {
        aml.extend_from_slice(b"LNRO0005\0\x86\x09\0\x01\0\0\xb0\xfe\0\x02\0\0");
    }
    let acpi = named(&[FADT, MADT])
        .with(FADT, fadt(DSDT, 0))
        .with(MADT, madt(&io_apics))
        .with(DSDT, table(b"DSDT", &aml))
        .acpi();
    assert!(acpi.io_apics.iter().all(Option::is_some));
    assert!(acpi.devices.iter().all(Option::is_some));
}

proptest! {
    #[test]
    fn any_tables_are_read_in_bounded_time(
        names in prop::collection::vec(0..6_usize, 1..12),
        addresses in prop::collection::vec(prop_oneof![0x10_0000..0x10_0200_u64, any::<u64>()], 0..12),
        noise in prop::collection::vec(any::<u8>(), 0..64),
        len in prop_oneof![0..600_u32, any::<u32>()],
    ) {
        let mut bytes = with_len(xsdt(&addresses), len);
        for name in names {
            let names = [b"FACP", b"APIC", b"MCFG", b"DSDT", b"XSDT", b"RSDT"];
            bytes.extend(with_len(table(names[name], &noise), len));
        }
        let memory = Memory::default().with(RSDP, rsdp(ROOT)).with(ROOT, bytes);
        let _ = memory.acpi();
        prop_assert!(memory.read.get() < 5 * TABLE_MAX, "{}", memory.read.get());
    }
}
