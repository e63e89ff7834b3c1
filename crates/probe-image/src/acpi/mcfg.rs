//! The MCFG: where the configuration space of PCI Express is in memory (PCI Firmware 3.3, 4.1.2).

use super::HEADER;
use crate::bytes::{u8_at, u16_at, u64_at};

const ENTRIES: usize = HEADER + 8;
const ENTRY: usize = 16;

/// The guest-physical address of segment 0, bus 0.
pub fn base(table: &[u8]) -> Option<u64> {
    table
        .get(ENTRIES..)?
        .chunks_exact(ENTRY)
        .find(|entry| u16_at(entry, 8) == Some(0) && u8_at(entry, 10) == Some(0))
        .and_then(|entry| u64_at(entry, 0))
        .filter(|base| *base != 0 && base.is_multiple_of(1 << 20))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::base;

    fn table(address: u64, segment: u8, bus: u8) -> [u8; 60] {
        let mut table = [0; 60];
        table[44..52].copy_from_slice(&address.to_le_bytes());
        table[52] = segment;
        table[54] = bus;
        table
    }

    #[test]
    fn bus_0_of_segment_0_is_found() {
        assert_eq!(base(&table(0xb000_0000, 0, 0)), Some(0xb000_0000));
        assert_eq!(base(&table(0xb000_0000, 1, 0)), None);
        assert_eq!(base(&table(0xb000_0000, 0, 1)), None);
    }

    #[test]
    fn broken_tables_have_no_base() {
        assert_eq!(base(&table(0, 0, 0)), None);
        assert_eq!(base(&table(0xb000_1000, 0, 0)), None);
        assert_eq!(base(&table(0xb000_0000, 0, 0)[..59]), None);
        assert_eq!(base(&[]), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = base(&bytes);
        }
    }
}
