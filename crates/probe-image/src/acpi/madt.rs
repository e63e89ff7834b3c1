//! The MADT ("APIC"): CPUs and I/O APICs.

use super::HEADER;
use crate::number::{u8_at, u32_at};

/// The fields before the entries: the local APIC's address and flags.
const ENTRIES: usize = HEADER + 8;

/// An entry of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A usable CPU, by the number of its local APIC.
    Cpu(u32),
    /// An I/O APIC.
    IoApic(IoApic),
}

/// An I/O APIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoApic {
    /// The guest-physical address of the I/O APIC's registers.
    pub address: u64,
    /// The GSI of pin 0.
    pub first_gsi: u32,
}

/// The maximum number of pins of an I/O APIC: an index of one byte selects their registers.
const PINS: u32 = 120;

/// Returns the address of the I/O APIC that has a GSI, and the pin's number there. QEMU's microvm has devices on a
/// second I/O APIC. Without a MADT, one I/O APIC is assumed at a PC's usual address.
pub fn pin(io_apics: &[Option<IoApic>], gsi: u32) -> Option<(u64, u32)> {
    const DEFAULT: IoApic = IoApic {
        address: 0xfec0_0000,
        first_gsi: 0,
    };
    let found = io_apics
        .iter()
        .flatten()
        .filter(|io_apic| io_apic.first_gsi <= gsi)
        .max_by_key(|io_apic| io_apic.first_gsi);
    let io_apic = found.unwrap_or(&DEFAULT);
    let number = gsi - io_apic.first_gsi;
    (number < PINS).then_some((io_apic.address, number))
}

/// The entries of a table, up to an entry that has no length or reaches beyond the table.
pub fn entries(table: &[u8]) -> impl Iterator<Item = Entry> {
    let mut rest = table.get(ENTRIES..).unwrap_or(&[]);
    core::iter::from_fn(move || {
        let len = usize::from(u8_at(rest, 1)?);
        if len < 2 {
            return None;
        }
        let (entry, after) = rest.split_at_checked(len)?;
        rest = after;
        Some(parse(entry))
    })
    .flatten()
}

fn parse(entry: &[u8]) -> Option<Entry> {
    const ENABLED: u32 = 1;
    match u8_at(entry, 0)? {
        0 => {
            let usable = u32_at(entry, 4)? & ENABLED != 0;
            usable.then_some(Entry::Cpu(u32::from(u8_at(entry, 3)?)))
        }
        1 => Some(Entry::IoApic(IoApic {
            address: u64::from(u32_at(entry, 4)?),
            first_gsi: u32_at(entry, 8)?,
        })),
        9 => {
            let usable = u32_at(entry, 8)? & ENABLED != 0;
            usable.then_some(Entry::Cpu(u32_at(entry, 4)?))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec;
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::{Entry, IoApic, entries, pin};

    fn table(parts: &[&[u8]]) -> Vec<u8> {
        let mut table = vec![0; 44];
        for part in parts {
            table.extend_from_slice(part);
        }
        table
    }

    #[test]
    fn microvms_second_io_apic_is_found() {
        let first = [1, 12, 0, 0, 0, 0, 0xc0, 0xfe, 0, 0, 0, 0];
        let second = [1, 12, 1, 0, 0, 0x10, 0xc0, 0xfe, 24, 0, 0, 0];
        let table = table(&[&first, &second]);
        let io_apic = |address, first_gsi| Entry::IoApic(IoApic { address, first_gsi });
        let expected = [io_apic(0xfec0_0000, 0), io_apic(0xfec0_1000, 24)];
        assert!(entries(&table).eq(expected));
    }

    #[test]
    fn a_gsi_is_a_pin_of_the_io_apic_that_has_it() {
        let io_apic = |address, first_gsi| Some(IoApic { address, first_gsi });
        let two = [io_apic(0xfec1_0000, 24), io_apic(0xfec0_0000, 0), None];
        assert_eq!(pin(&two, 23), Some((0xfec0_0000, 23)));
        assert_eq!(pin(&two, 47), Some((0xfec1_0000, 23)));
        assert_eq!(pin(&[], 5), Some((0xfec0_0000, 5)));
        // An I/O APIC whose pins begin after the GSI does not have it.
        assert_eq!(pin(&[io_apic(1, 6)], 5), Some((0xfec0_0000, 5)));
    }

    #[test]
    fn a_gsi_beyond_all_pins_has_none() {
        let last = Some(IoApic {
            address: 1,
            first_gsi: u32::MAX,
        });
        assert_eq!(pin(&[last], u32::MAX), Some((1, 0)));
        assert_eq!(pin(&[last], u32::MAX - 1), None);
        assert_eq!((pin(&[], 119).is_some(), pin(&[], 120)), (true, None));
    }

    #[test]
    fn disabled_cpus_and_unknown_entries_are_left_out() {
        let table = table(&[
            &[0, 8, 0, 7, 1, 0, 0, 0],
            &[0, 8, 1, 8, 0, 0, 0, 0],
            &[0xff, 3, 0],
            &[9, 16, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0],
        ]);
        assert!(entries(&table).eq([Entry::Cpu(7), Entry::Cpu(0x100)]));
    }

    #[test]
    fn an_entry_of_no_length_ends_the_table() {
        assert_eq!(entries(&table(&[&[0, 0, 0, 0]])).count(), 0);
        assert_eq!(entries(&table(&[&[0, 1, 0, 0]])).count(), 0);
    }

    #[test]
    fn an_entry_beyond_the_table_ends_it() {
        assert_eq!(entries(&table(&[&[1, 12, 0, 0]])).count(), 0);
        assert_eq!(entries(&[0; 10]).count(), 0);
        // This entry is too short for its type.
        assert_eq!(entries(&table(&[&[1, 4, 0, 0]])).count(), 0);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(entries(&bytes).count() <= 150);
        }
    }
}
